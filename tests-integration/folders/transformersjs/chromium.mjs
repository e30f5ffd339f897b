// Runs the jobs of FOLDER/jobs.json in a page in Chromium, by WebAssembly, and writes FOLDER/found-chromium.json.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { launch, serve } from "../../../tools/browser/browser.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const [folder] = process.argv.slice(2);
const jobs = JSON.parse(fs.readFileSync(path.join(folder, "jobs.json"), "utf8"));
const { address, server } = await serve(HERE, {
  "/models/": folder,
  "/transformers/": path.join(HERE, "node_modules", "@huggingface", "transformers", "dist"),
  "/ort/": path.join(HERE, "node_modules", "onnxruntime-web", "dist"),
});

/** In the page. */
async function runInPage(jobs) {
  const transformers = await import("/transformers/transformers.min.js");
  const { results } = await import("/pipelines.mjs");
  transformers.env.backends.onnx.wasm.wasmPaths = "/ort/";
  transformers.env.backends.onnx.wasm.numThreads = 1;
  transformers.env.useBrowserCache = false;
  return { version: transformers.env.version, found: await results(transformers, "/models/", jobs) };
}

const browser = await launch({ gpu: false });
const page = await browser.newPage();
page.on("pageerror", (error) => console.error(String(error)));
await page.goto(`${address}/page.html`);
fs.writeFileSync(path.join(folder, "found-chromium.json"), JSON.stringify(await page.evaluate(runInPage, jobs)));
await browser.close();
server.close();
