// Drives the page of docs/demo in a folder with its models: demo.mjs FOLDER [PICTURE]. Reads wanted.json there, and writes what the
// page computed to found.json, by provider.
import fs from "node:fs";
import path from "node:path";

import { launch, serve } from "./browser.mjs";

const [folder, picture] = process.argv.slice(2);
const wanted = JSON.parse(fs.readFileSync(path.join(folder, "wanted.json"), "utf8"));
const { address } = await serve(folder);

/** In the page: what the models compute, by the page's own module. */
async function computeInPage({ probabilities, logits, losses }) {
  const { chooseProvider, loadModels } = await import("./models.js");
  const { digits, writer, provider } = await loadModels(await chooseProvider());
  const found = { provider, logits: [], text: logits.prompt };
  const classified = async () => {
    const rows = [];
    for (const image of probabilities.images) rows.push([...await digits.classify(Float32Array.from(image))]);
    return rows;
  };
  found.probabilities = await classified();
  found.losses = [];
  for (const { images, labels } of losses.batches) found.losses.push(await digits.train(images, labels));
  digits.forget();
  const stroke = Float32Array.from({ length: 64 }, (_, i) => (i % 8 === 3 || i % 8 === 4 ? 1 : 0));
  const before = performance.now();
  await digits.learn(stroke, 7);
  found.seconds = (performance.now() - before) / 1000;
  found.after = await classified();
  const { characters } = writer.described;
  const start = performance.now();
  for (let i = 0; i < logits.wanted.length; i++) {
    const row = [...await writer.step(characters.indexOf(found.text[i]))];
    found.logits.push(row);
    if (i + 1 === found.text.length) found.text += characters[row.indexOf(Math.max(...row))];
  }
  return { ...found, speed: 1000 * logits.wanted.length / (performance.now() - start) };
}

/** Draw strokes on the canvas with the mouse: lists of points between 0 and 1. */
async function draw(page, strokes) {
  const box = await page.locator("#drawing").boundingBox();
  for (const stroke of strokes) {
    const points = stroke.map(([x, y]) => [box.x + x * box.width, box.y + y * box.height]);
    await page.mouse.move(...points[0]);
    await page.mouse.down();
    for (const point of points) await page.mouse.move(...point, { steps: 4 });
    await page.mouse.up();
  }
}

/** What the page shows, and what its models compute; null where the page fell back to another provider than `gpu` asks for. */
async function visit(gpu) {
  const browser = await launch({ gpu });
  const page = await browser.newPage({ viewport: { width: 1100, height: 780 }, deviceScaleFactor: 1 });
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(address);
  await page.waitForSelector("body[data-ready]", { timeout: 120_000 });
  await draw(page, [[[0.5, 0.12], [0.5, 0.88]]]);
  await page.waitForFunction(() => document.getElementById("digit").textContent !== "?", null, { timeout: 60_000 });
  await page.waitForTimeout(1000);
  const drawn = await page.textContent("#digit");
  const taught = await teach(page, 7);
  await page.click("#forget");
  await page.waitForFunction(() => document.getElementById("digit").textContent !== "7", null, { timeout: 60_000 });
  const again = await page.textContent("#digit");
  const status = await page.textContent("#status");
  if (picture && gpu) await takePicture(page);
  const found = await page.evaluate(computeInPage, wanted);
  await browser.close();
  if (errors.length) throw new Error(errors.join("\n"));
  return { ...found, drawn, taught, again, status };
}

/** The digit that the page sees after it was taught which one the drawing is. */
async function teach(page, digit) {
  await page.click(`#bars li:nth-child(${digit + 1}) button`);
  await page.waitForFunction(() => document.getElementById("lesson").textContent.includes("loss"), null, { timeout: 120_000 });
  return page.textContent("#digit");
}

async function takePicture(page) {
  await page.click("#clear");
  await draw(page, [[[0.28, 0.3], [0.34, 0.17], [0.5, 0.12], [0.66, 0.2], [0.68, 0.33], [0.58, 0.5], [0.4, 0.68], [0.27, 0.86], [0.72, 0.86]]]);
  await page.click("#write");
  await page.waitForFunction(() => document.getElementById("write").textContent === "Write", null, { timeout: 300_000 });
  await page.screenshot({ path: picture });
}

const results = { wasm: await visit(false) };
const gpu = await visit(true);
if (gpu.provider === "webgpu") results.webgpu = gpu;
else results.without = gpu.status;
fs.writeFileSync(path.join(folder, "found.json"), JSON.stringify(results));
process.exit(0);
