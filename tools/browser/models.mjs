// Runs models in a browser for tools/browser_runtime.py: a request per line of the input, an answer per line of the output.
// `models.mjs node` runs them in this process instead, by WebAssembly.
//
// Request: {model, provider: "wasm" | "webgpu", feeds: {name: tensor}, optimise, log, time}; tensor: {type, dims, data}. Bytes are in base64.
// Answer: {outputs: [tensor]}, or {error}; with log also {log: [line]}, what ONNX Runtime said when it loaded the model; with a time in
// milliseconds, in which the model is run again and again, also {milliseconds}, of a run.
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

import { launch, serve } from "./browser.mjs";

const SECONDS = 60;
const LATE = `no answer in ${SECONDS} seconds`;
const inNode = process.argv[2] === "node";
const { address } = await serve(path.dirname(fileURLToPath(import.meta.url)));
const browser = inNode ? null : await launch({ gpu: true });
const library = inNode ? "onnxruntime-web" : "/ort/ort.webgpu.min.mjs";
let page = inNode ? { evaluate: (run, request) => run(request), close: async () => undefined } : null;
let lines = [];

async function opened() {
  if (page === null) {
    page = await browser.newPage();
    page.on("console", (message) => lines.push(message.text()));
    await page.goto(`${address}/models.html`);
  }
  return page;
}

/** In the page: load a model and run it once, or for a time. */
async function runInPage({ library, model, provider, feeds, optimise, log, time }) {
  const ARRAYS = {
    float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
    int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  };
  const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const text = (array) => btoa(Array.from(array, (byte) => String.fromCharCode(byte)).join(""));
  const ort = await import(library);
  ort.env.wasm.numThreads = 1;
  if (library.startsWith("/")) ort.env.wasm.wasmPaths = "/ort/";
  ort.env.logLevel = log ? "verbose" : "fatal";
  const session = await ort.InferenceSession.create(bytes(model), {
    executionProviders: [provider], graphOptimizationLevel: optimise ? "all" : "disabled",
    logSeverityLevel: log ? 0 : 4, logVerbosityLevel: log ? 1 : 0,
  });
  try {
    const tensors = {};
    for (const name of session.inputNames) {
      const { type, dims, data } = feeds[name];
      const raw = bytes(data);
      tensors[name] = new ort.Tensor(type, new ARRAYS[type](raw.buffer), dims);
    }
    const results = await session.run(tensors);
    const outputs = session.outputNames.map((name) => {
      const { type, dims, data } = results[name];
      return { type, dims: [...dims], data: text(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) };
    });
    let milliseconds = Infinity;
    // As tools/runtime_worker.py does: the best of several rounds of 20 ms.
    for (const end = performance.now() + time; performance.now() < end; ) {
      const start = performance.now();
      let runs = 0;
      for (; performance.now() < start + 20; runs++) await session.run(tensors);
      milliseconds = Math.min(milliseconds, (performance.now() - start) / runs);
    }
    return { outputs, milliseconds };
  } finally {
    await session.release();
  }
}

async function answer(request) {
  lines = [];
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(LATE)), SECONDS * 1000));
  try {
    const found = await Promise.race([(await opened()).evaluate(runInPage, { library, ...request }), late]);
    return request.log ? { ...found, log: lines } : found;
  } catch (error) {
    const message = String(error.message ?? error);
    if (message.includes(LATE)) {
      // A module that does not end holds its page; it goes with the browser, when this process ends.
      process.stdout.write(`${JSON.stringify({ error: message })}\n`, () => process.exit(1));
      return new Promise(() => undefined);
    }
    if (!message.includes("ERROR_CODE")) {
      // What ended in another way than by an error of ONNX Runtime leaves a module that may be of no use.
      await page?.close().catch(() => undefined);
      if (!inNode) page = null;
    }
    return { error: message };
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
await browser?.close();
process.exit(0);
