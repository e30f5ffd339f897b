// What transformers.js computes with the models of a folder, in Node.js and in pages: jobs → results, in order.
//
// Job: {task, model, dtype, …}, the inputs by task: image-classification {pixels, width, height}, feature-extraction {texts},
// text-generation {prompt, others, count}. Result: {labels, scores}, {dims, data}, or {tokens, text, alone, together, speed}: what is
// written after the prompt, and after the other prompts, one by one and all in one batch.

async function classified({ RawImage }, pipe, { pixels, width, height }) {
  const image = new RawImage(new Uint8ClampedArray(pixels), width, height, 3);
  const found = await pipe(image, { top_k: 1000 });
  return { labels: found.map(({ label }) => label), scores: found.map(({ score }) => score) };
}

async function extracted(_, pipe, { texts }) {
  const features = await pipe(texts);
  return { dims: [...features.dims], data: [...features.data] };
}

async function generated(_, pipe, { prompt, others, count }) {
  const options = { max_new_tokens: count, do_sample: false };
  const [{ generated_text: text }] = await pipe(prompt, options);
  const inputs = pipe.tokenizer(prompt, { add_special_tokens: false });
  const times = [];
  let tokens;
  for (let i = 0; i < 3; i++) {
    const start = performance.now();
    const output = await pipe.model.generate({ ...inputs, ...options });
    times.push(performance.now() - start);
    tokens = Array.from(output.data, Number);
  }
  const alone = [];
  for (const one of others) alone.push((await pipe(one, options))[0].generated_text);
  const together = others.length ? (await pipe(others, options)).map(([found]) => found.generated_text) : [];
  return { tokens, text, alone, together, speed: 1000 * count / Math.min(...times) };
}

const RUN = { "image-classification": classified, "feature-extraction": extracted, "text-generation": generated };

/** The results of all jobs, with the models below `place`, the url or the path of a folder. */
export async function results(transformers, place, jobs) {
  const { env, pipeline } = transformers;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = place;
  const found = [];
  for (const job of jobs) {
    const pipe = await pipeline(job.task, job.model, { dtype: job.dtype ?? undefined });
    found.push(await RUN[job.task](transformers, pipe, job));
    await pipe.dispose();
  }
  return found;
}
