// Runs the jobs of FOLDER/jobs.json in Node.js, and writes FOLDER/found-node.json.
import fs from "node:fs";
import path from "node:path";

import * as transformers from "@huggingface/transformers";

import { results } from "./pipelines.mjs";

const [folder] = process.argv.slice(2);
const jobs = JSON.parse(fs.readFileSync(path.join(folder, "jobs.json"), "utf8"));
const found = await results(transformers, `${folder}/`, jobs);
fs.writeFileSync(path.join(folder, "found-node.json"), JSON.stringify({ version: transformers.env.version, found }));
