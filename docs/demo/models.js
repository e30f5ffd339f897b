// The models: loading them, on the graphics card where there is one, what they compute, and what one of them learns.
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

const ARRAYS = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array };

/** The numbers of elements of tensors with these sizes. */
const sizeOf = (dims) => dims.reduce((product, dim) => product * dim, 1);

/** How many steps a drawing is learned in, and how many examples each of them sees: some that were drawn, the others from the data set. */
const [STEPS, DRAWN, OTHERS] = [30, 8, 24];

/** Images of 8 × 8 pixels between 0 and 1 → probabilities of the ten digits. Its last layers learn in the page. */
export class Digits {
  static async load(ort, described, provider) {
    const model = new Digits();
    const options = { executionProviders: [provider] };
    const bytes = await (await fetched(`./${described.states}`)).arrayBuffer();
    Object.assign(model, {
      ort, described, bytes, session: await session(ort, described.file, options), step: await session(ort, described.step, options),
    });
    model.forget();
    return model;
  }

  /** Go back to the weights that the page came with. */
  forget() {
    this.drawn = { images: [], labels: [] };
    let offset = 0;
    this.states = Object.fromEntries(this.described.pairs.map(({ input, type, dims }) => {
      const array = new ARRAYS[type](this.bytes.slice(offset, offset += 4 * sizeOf(dims)));
      return [input, new this.ort.Tensor(type, array, dims)];
    }));
  }

  async classify(pixels) {
    const feeds = { images: new this.ort.Tensor("float32", pixels, [1, 8, 8, 1]) };
    for (const name of this.session.inputNames) feeds[name] ??= this.states[name];
    return (await run(this.session, feeds)).probabilities.data;
  }

  /** Take a step of training on a batch of images and their digits; resolves to the loss. */
  async train(images, labels) {
    const feeds = {
      images: new this.ort.Tensor("float32", Float32Array.from(images.flatMap((image) => [...image])), [images.length, 8, 8, 1]),
      labels: new this.ort.Tensor("int32", Int32Array.from(labels), [labels.length]),
    };
    const results = await run(this.step, { ...feeds, ...this.states });
    for (const { input, output } of this.described.pairs) this.states[input] = results[output];
    return results.loss.data[0];
  }

  /** Learn that a drawing is a digit, without forgetting the others; resolves to the last loss. */
  async learn(pixels, digit, random = Math.random) {
    this.drawn.images.push(pixels);
    this.drawn.labels.push(digit);
    const { examples } = this.described;
    let loss = NaN;
    for (let step = 0; step < STEPS; step++) {
      const own = Array.from({ length: DRAWN }, (_, i) => (this.drawn.labels.length - 1 + i) % this.drawn.labels.length);
      const others = Array.from({ length: OTHERS }, () => Math.floor(random() * examples.labels.length));
      const chosen = (key) => [...own.map((i) => this.drawn[key][i]), ...others.map((i) => examples[key][i])];
      loss = await this.train(chosen("images"), chosen("labels"));
    }
    return loss;
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
    this.states = this.described.states.map(({ type, dims }) => new this.ort.Tensor(type, new ARRAYS[type](sizeOf(dims)), dims));
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
