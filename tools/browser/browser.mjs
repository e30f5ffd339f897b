// Chromium without a window, and a server for the files that its pages load.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ORT = path.join(HERE, "node_modules", "onnxruntime-web", "dist");
const TYPES = {
  ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};
const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];

/** WebGPU computed by the processor, for machines without a graphics card. */
const WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-unsafe-swiftshader",
                "--use-angle=swiftshader", "--enable-features=Vulkan"];
const QUIET = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
               "--disable-sync"];

/** The program of an installed Chromium or Chrome; null where there is none. $CHROMIUM names it, if it is set. */
export function findBrowser() {
  return [process.env.CHROMIUM, ...PLACES].find((place) => place && fs.existsSync(place)) ?? null;
}

/** Start the browser, with or without WebGPU. */
export function launch({ gpu }) {
  const without = ["--disable-features=WebGPU", "--disable-gpu"];
  return chromium.launch({ executablePath: findBrowser(), args: [...QUIET, ...(gpu ? WEBGPU : without)] });
}

/** Serve a folder, and others below the paths of `mounts`, such as ONNX Runtime Web; resolves to the server and its address. */
export async function serve(folder, mounts = { "/ort/": ORT }) {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const mount = Object.keys(mounts).find((prefix) => name.startsWith(prefix)) ?? "/";
    const root = mounts[mount] ?? folder;
    const file = path.join(root, path.normalize(name.slice(mount.length) || "index.html"));
    if (!file.startsWith(root) || !fs.existsSync(file) || !fs.statSync(file).isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.setHeader("Content-Type", TYPES[path.extname(file)] ?? "application/octet-stream");
    fs.createReadStream(file).pipe(response);
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return { server, address: `http://127.0.0.1:${server.address().port}` };
}

// `node browser.mjs --find` prints which program it would start.
if (process.argv[2] === "--find") {
  process.stdout.write(findBrowser() ?? "");
  process.exitCode = findBrowser() === null ? 3 : 0;
}
