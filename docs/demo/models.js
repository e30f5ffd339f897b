// The two models: loading them, on the graphics card where there is one, and what they compute.
//
// models.json, which the exporter writes beside the models, names their inputs, outputs and states.

const ORT = "./ort/ort.webgpu.min.mjs";

/** Where models can run in this browser: {provider: "webgpu" | "wasm", why}; `why` says what is missing for WebGPU. */
export async function chooseProvider(wanted = new URLSearchParams(location.search).get("provider")) {
  if (wanted === "wasm") return { provider: "wasm", why: "as the address of the page asks for" };
  if (!navigator.gpu) return { provider: "wasm", why: "this browser has no WebGPU" };
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  if (adapter === null) return { provider: "wasm", why: "this browser offers no graphics card to WebGPU" };
  return { provider: "webgpu", why: "" };
}

/** Load both models; falls back to WebAssembly where WebGPU fails. */
export async function loadModels(found) {
  const described = await (await fetched("./models.json")).json();
  try {
    return await open(described, found);
  } catch (error) {
    if (found.provider === "wasm") throw error;
    return await open(described, { provider: "wasm", why: `WebGPU failed: ${error.message}` });
  }
}

async function open(described, { provider, why }) {
  const ort = await import(ORT);
  ort.env.wasm.numThreads = 1; // more need headers that file servers do not send
  ort.env.logLevel = "error";
  const digits = await Digits.load(ort, described.digits, provider);
  const writer = await Writer.load(ort, described.writer, provider);
  await digits.classify(new Float32Array(64)); // the first run compiles what WebGPU needs
  return { digits, writer, provider, why };
}

async function fetched(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path} cannot be loaded: ${response.status} ${response.statusText}`);
  return response;
}

async function session(ort, file, options) {
  const bytes = new Uint8Array(await (await fetched(`./${file}`)).arrayBuffer());
  return ort.InferenceSession.create(bytes, options);
}

/** One run at a time: the module cannot begin one while another waits for the graphics card. */
let turn = Promise.resolve();
function run(session, feeds) {
  const result = turn.then(() => session.run(feeds));
  turn = result.catch(() => undefined);
  return result;
}

/** Images of 8 × 8 pixels between 0 and 1 → probabilities of the ten digits. */
export class Digits {
  static async load(ort, described, provider) {
    const model = new Digits();
    Object.assign(model, { ort, described, session: await session(ort, described.file, { executionProviders: [provider] }) });
    return model;
  }

  async classify(pixels) {
    const { input, probabilities } = this.described;
    const image = new this.ort.Tensor("float32", pixels, [1, 8, 8, 1]);
    return (await run(this.session, { [input]: image }))[probabilities].data;
  }
}

/** Text, character by character; states go from one run to the next without leaving the runtime. */
export class Writer {
  static async load(ort, described, provider) {
    const states = Object.fromEntries(described.states.map(({ output }) => [output, "gpu-buffer"]));
    const options = { executionProviders: [provider], ...(provider === "webgpu" ? { preferredOutputLocation: states } : {}) };
    const model = new Writer();
    Object.assign(model, { ort, described, session: await session(ort, described.file, options) });
    model.begin();
    return model;
  }

  /** Forget what was written. */
  begin() {
    this.position = 0;
    this.release();
    this.states = this.described.states.map(({ type, dims }) => {
      const size = dims.reduce((product, dim) => product * dim, 1);
      return new this.ort.Tensor(type, new { float32: Float32Array, int32: Int32Array, uint32: Uint32Array }[type](size), dims);
    });
  }

  release() {
    for (const state of this.states ?? []) state.dispose();
  }

  /** Logits of the character that comes after this one. */
  async step(character) {
    const { inputs, states, logits } = this.described;
    const feeds = {
      [inputs.character]: new this.ort.Tensor("int32", Int32Array.of(character), [1, 1]),
      [inputs.position]: new this.ort.Tensor("int32", Int32Array.of(this.position), []),
    };
    states.forEach(({ input }, index) => { feeds[input] = this.states[index]; });
    const results = await run(this.session, feeds);
    this.release();
    this.states = states.map(({ output }) => results[output]);
    this.position += 1;
    return results[logits].data;
  }

  /** The characters after a prompt, as they are drawn; at temperature 0 the most probable ones. */
  async *write(prompt, temperature, random = Math.random) {
    const { characters, length } = this.described;
    this.begin();
    let logits = null;
    for (const character of prompt.slice(0, length - 1)) {
      const index = characters.indexOf(character);
      if (index >= 0) logits = await this.step(index);
    }
    if (logits === null) throw new Error("Begin with a few characters of English text.");
    while (this.position < length) {
      const next = draw(logits, temperature, random);
      yield characters[next];
      if (this.position + 1 >= length) return;
      logits = await this.step(next);
    }
  }
}

/** An index, drawn in proportion to exp(logit / temperature). */
function draw(logits, temperature, random) {
  let [best, score] = [0, -Infinity];
  for (let i = 0; i < logits.length; i++) {
    const noise = temperature > 0 ? -Math.log(-Math.log(random())) * temperature : 0;
    if (logits[i] + noise > score) [best, score] = [i, logits[i] + noise];
  }
  return best;
}
