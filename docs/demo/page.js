// The page: a canvas to draw on, a text that is written, and a word about where the models run.
import { chooseProvider, loadModels } from "./models.js";
import { pixelsOf } from "./pixels.js";

const element = (id) => document.getElementById(id);
const canvas = element("drawing");
const pen = canvas.getContext("2d", { willReadFrequently: true });
let models = null;

function say(text, kind = "") {
  element("status").textContent = text;
  element("status").className = `badge ${kind}`;
}

// -- digits -----------------------------------------------------------------------------------

element("bars").append(...Array.from({ length: 10 }, (_, digit) => {
  const bar = document.createElement("li");
  bar.innerHTML = `<span><i></i></span><button type="button" aria-label="This is a ${digit}">${digit}</button>`;
  bar.querySelector("button").addEventListener("click", () => teach(digit));
  return bar;
}));

function show(probabilities) {
  const best = probabilities.indexOf(Math.max(...probabilities));
  element("digit").textContent = best;
  [...element("bars").children].forEach((bar, digit) => {
    bar.classList.toggle("best", digit === best);
    bar.querySelector("i").style.height = `${100 * probabilities[digit]}%`;
    bar.title = `${(100 * probabilities[digit]).toFixed(1)} %`;
  });
}

function showPixels(pixels) {
  const context = element("seen").getContext("2d");
  const image = context.createImageData(8, 8);
  pixels.forEach((value, i) => image.data.set([255, 255, 255, 255 * value], 4 * i));
  context.putImageData(image, 0, 0);
}

function clear() {
  pen.clearRect(0, 0, canvas.width, canvas.height);
  element("digit").textContent = "?";
  element("digits-time").textContent = "";
  showPixels(new Float32Array(64));
  for (const bar of element("bars").children) {
    bar.classList.remove("best");
    bar.querySelector("i").style.height = 0;
  }
}

/** One classification at a time; what was drawn meanwhile is classified next. */
let running = null;
let changed = false;
async function classify() {
  changed = true;
  if (running || models === null) return;
  running = (async () => {
    while (changed) {
      changed = false;
      const pixels = drawing();
      if (pixels === null) break;
      const start = performance.now();
      const probabilities = await models.digits.classify(pixels);
      element("digits-time").textContent = `${(performance.now() - start).toFixed(1)} ms`;
      showPixels(pixels);
      show([...probabilities]);
    }
  })();
  await running.finally(() => { running = null; });
}

const drawing = () => pixelsOf(pen.getImageData(0, 0, canvas.width, canvas.height));

/** Learn what the drawing is, and show what the network makes of it then. */
let teaching = false;
async function teach(digit) {
  const pixels = drawing();
  if (teaching || pixels === null || models === null) return;
  teaching = true;
  element("lesson").textContent = "learning …";
  try {
    const start = performance.now();
    const loss = await models.digits.learn(pixels, digit);
    const count = models.digits.drawn.labels.length;
    await classify();
    element("lesson").textContent =
      `has learned ${count} of your drawings; loss ${loss.toFixed(3)}, ${((performance.now() - start) / 1000).toFixed(2)} s`;
  } catch (error) {
    element("lesson").textContent = error.message;
  }
  teaching = false;
}

element("forget").addEventListener("click", async () => {
  if (teaching || models === null) return;
  models.digits.forget();
  element("lesson").textContent = "";
  await classify();
});

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  Object.assign(pen, { lineWidth: 26, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  pen.beginPath();
  pen.moveTo(...place(event));
  pen.lineTo(...place(event));
  pen.stroke();
  classify();
});
canvas.addEventListener("pointermove", (event) => {
  if (!canvas.hasPointerCapture(event.pointerId)) return;
  pen.lineTo(...place(event));
  pen.stroke();
  classify();
});
element("clear").addEventListener("click", clear);

// -- text -------------------------------------------------------------------------------------

let writing = false;

async function write() {
  const prompt = element("prompt").value;
  const [begin, rest] = [document.createElement("b"), document.createElement("span")];
  begin.textContent = prompt;
  element("text").replaceChildren(begin, rest);
  const start = performance.now();
  let count = 0;
  for await (const character of models.writer.write(prompt, Number(element("temperature").value))) {
    if (!writing) break;
    rest.textContent += character;
    count += 1;
    element("speed").textContent = `${count} characters, ${(1000 * count / (performance.now() - start)).toFixed(0)} per second`;
    if (count % 4 === 0) await new Promise((resolve) => setTimeout(resolve)); // let the browser draw
  }
}

element("writer").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (writing) {
    writing = false;
    return;
  }
  writing = true;
  element("write").textContent = "Stop";
  try {
    await write();
  } catch (error) {
    element("speed").textContent = error.message;
  }
  writing = false;
  element("write").textContent = "Write";
});
element("temperature").addEventListener("input", () => {
  element("temperature-value").textContent = Number(element("temperature").value).toFixed(1);
});

// -- the start --------------------------------------------------------------------------------

try {
  models = await loadModels(await chooseProvider());
  if (models.provider === "webgpu") say("runs on the graphics card, by WebGPU");
  else say(`runs on the processor, by WebAssembly: ${models.why}`, "fallback");
  element("write").disabled = false;
  classify();
} catch (error) {
  say(`the models do not load: ${error.message}`, "failed");
}
document.body.dataset.ready = String(models !== null);
