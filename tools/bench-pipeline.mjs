// What sending KV while it is computed saves on a slow link. A context worker's
// link (its fault decorator's) carries a chunk in 2/3 and in 3/2 of the time that
// computing one takes. What is left of the transfer when the prompt is computed,
// beside what transfer.md 3.1 foretells, t + max(0, (n - 1)(t - c)); and the first
// token's time beside context-first, which sends all of it when the prompt is done.
//
//   exposed  first token less the time of the prefill itself, as the context
//            worker tells it, less the same on a link as fast as it is
//   t        bytes of a chunk over the link's speed
//   c        time of one more chunk: later chunks look back further, so it is the
//            mean of all but the first
//
// A prompt of one chunk has nothing to gain; three in a hundred is chance. How long
// a context worker holds a prompt's pages says how many prompts it can have.
//
// [transfer T91 T92 T100]
import fs from 'node:fs';
import path from 'node:path';
import { route, serve, until } from '../test/e2e/lib/cluster.mjs';
import { folder, freshPrompt, keepAlive, main, median, metrics, now, randomModel, record, streamWell } from './bench-lib.mjs';

const VOCAB = 2000;
const KEY = 'secret of this benchmark';
const keyFile = path.join(folder, 'pipeline.key');
const LINKS = { 'fast link': 2 / 3, 'slow link': 3 / 2 }; // t over c

const start = (role, shape, more = []) => serve(['--role', role, '--threads', '1', '--max-seq', String(shape.tokens + 256), '--kv-tokens', String(2 * shape.tokens + 1024), '--max-batch', '4',
  '--chunk-tokens', String(shape.chunk), '--turn-ms-max', '10000', '--block-reuse', 'false', '--backend', 'ucx', '--auth-key-file', keyFile, ...more], { model: shape.model });

async function startLimited(shape, bytesPerSecond) {
  const file = path.join(folder, 'pipeline-link.yaml');
  fs.writeFileSync(file, `cache_transceiver_config:\n  fault_link_bytes: ${Math.round(bytesPerSecond)}\n`);
  const worker = await start('context', shape, ['--config', file]);
  fs.rmSync(file);
  return worker;
}

// A front end over one context worker and the generation worker.
const front = (context, generation, style) => route([context.port], [generation.port], ['--schedule-style', style], { yaml: `internal_request_auth_key: ${KEY}\n` });

// { first, prefill, rest } in ms of one prompt, rest what the prefill is not, and
// the page seconds that the context worker held it, a page second less at most.
async function ask(cluster, target, count) {
  const told = () => metrics(target.worker.port, cluster.agent);
  const before = await told();
  const { firstMs } = await streamWell(target.port, { model: cluster.id, prompt: freshPrompt(count, VOCAB), max_tokens: 2 }, { agent: cluster.agent });
  await until('all pages are free', async () => {
    for (const worker of cluster.workers) {
      const page = await metrics(worker.port, cluster.agent);
      if (page.baton_kv_pages_used + page.baton_kv_pages_leased > 0) return false;
    }
    return true;
  }, 60000);
  const after = await until('the context worker counts the prompt', async () => {
    const page = await told();
    return page.baton_prefill_seconds_count > before.baton_prefill_seconds_count && page;
  });
  const prefill = (after.baton_prefill_seconds_sum - before.baton_prefill_seconds_sum) * 1000;
  const held = after.baton_kv_page_seconds_total - before.baton_kv_page_seconds_total;
  return { first: firstMs, prefill, rest: firstMs - prefill, held };
}

async function openCluster(shape) {
  const [generation, context] = await Promise.all([start('generation', shape), start('context', shape)]);
  const cluster = { id: path.basename(shape.model, '.gguf'), agent: keepAlive(), generation, workers: [generation, context], fronts: [], links: {} };
  cluster.open = async (worker, style) => {
    const one = await front(worker, generation, style);
    cluster.fronts.push(one);
    return { port: one.port, worker };
  };
  cluster.base = await cluster.open(context, 'generation_first');
  return cluster;
}

// Links as slow as the machine's own speed asks for.
async function addLinks(cluster, shape) {
  const handedOver = async () => (await metrics(cluster.generation.port, cluster.agent)).baton_handoff_bytes_total;
  await ask(cluster, cluster.base, shape.tokens); // warm
  const before = await handedOver();
  const whole = await ask(cluster, cluster.base, shape.tokens);
  const bytes = (await handedOver() - before) / shape.count;
  if (!(bytes > 0)) throw new Error('no KV travelled');
  const one = await ask(cluster, cluster.base, shape.chunk);
  cluster.laterShare = 1 - one.prefill / whole.prefill;
  const chunkMs = whole.prefill * cluster.laterShare / (shape.count - 1);
  for (const [name, share] of Object.entries(LINKS)) {
    const ms = chunkMs * share;
    const worker = await startLimited(shape, bytes / ms * 1000);
    cluster.workers.push(worker);
    const link = { ms, speed: bytes / ms * 1000, pipelined: await cluster.open(worker, 'generation_first'), whole: await cluster.open(worker, 'context_first') };
    await ask(cluster, link.pipelined, shape.chunk);
    await ask(cluster, link.whole, shape.chunk);
    cluster.links[name] = link;
  }
}

async function runRound(cluster, shape, runs) {
  const base = await ask(cluster, cluster.base, shape.tokens);
  for (const [name, link] of Object.entries(cluster.links)) {
    const pipelined = await ask(cluster, link.pipelined, shape.tokens);
    const whole = await ask(cluster, link.whole, shape.tokens);
    const chunkMs = pipelined.prefill * cluster.laterShare / (shape.count - 1);
    const formula = link.ms + Math.max(0, (shape.count - 1) * (link.ms - chunkMs));
    const alone = [await ask(cluster, link.pipelined, shape.chunk), await ask(cluster, link.whole, shape.chunk)];
    runs[name].push({ pipelined: pipelined.first, whole: whole.first, formula, exposed: pipelined.rest - base.rest, base: base.first, alone: alone[1].first / alone[0].first, aloneMs: alone.map((one) => one.first), held: pipelined.held, wholeHeld: whole.held });
  }
}

async function measure(shape) {
  const begin = now();
  const cluster = await openCluster(shape);
  await addLinks(cluster, shape);
  const runs = Object.fromEntries(Object.keys(LINKS).map((name) => [name, []]));
  for (let i = 0; i < shape.rounds; i++) await runRound(cluster, shape, runs);
  for (const [name, link] of Object.entries(cluster.links)) {
    const pick = (value) => median(runs[name].map(value));
    const what = `${shape.tokens} tokens in ${shape.count} chunks, ${name} ${(link.speed / 1e6).toFixed(2)} MB/s`;
    const formula = pick((run) => run.formula);
    record({ bench: 'pipeline', name: `exposed, ${what}`, value: pick((run) => run.exposed), unit: 'ms', against: `formula ${formula.toFixed(1)} ms`, ratio: pick((run) => run.formula / run.exposed), goal: 1 / 1.15, runs: shape.rounds });
    record({ bench: 'pipeline', name: `held by the context worker, ${what}`, value: pick((run) => run.held), unit: 'page s', against: `context-first ${pick((run) => run.wholeHeld)} page s`, ratio: pick((run) => run.wholeHeld / run.held), runs: shape.rounds });
    record({ bench: 'pipeline', name: `first token, ${what}`, value: pick((run) => run.pipelined), unit: 'ms', against: `context-first ${pick((run) => run.whole).toFixed(1)} ms, fast link ${pick((run) => run.base).toFixed(1)}`, ratio: pick((run) => run.whole / run.pipelined), goal: 1, runs: shape.rounds });
  }
  const alone = Object.values(runs).flat();
  record({ bench: 'pipeline', name: `first token, ${shape.chunk} tokens in one chunk`, value: median(alone.map((run) => run.aloneMs[0])), unit: 'ms', against: `context-first ${median(alone.map((run) => run.aloneMs[1])).toFixed(1)} ms`, ratio: median(alone.map((run) => run.alone)), goal: 0.97, runs: alone.length });
  for (const one of [...cluster.fronts, ...cluster.workers]) await one.stop();
  console.error(`${shape.tokens} tokens: ${((now() - begin) / 1000).toFixed(0)} s`);
}

await main(async () => {
  process.setMaxListeners(100); // a child adds one
  fs.writeFileSync(keyFile, KEY, { mode: 0o600 });
  const model = (name, context, args) => randomModel(name, [...args, '--vocab', '2048', '--type', 'q8_0', '--ctx', String(context)]);
  const demo = ['--dim', '192', '--heads', '6', '--kv', '2', '--headdim', '32', '--ffn', '512'];
  // The longer the prompt the fewer layers and heads: seconds each on a CPU.
  await measure({ model: model('demo-16k', 16384, [...demo, '--layers', '5']), tokens: 1024, chunk: 256, count: 4, rounds: 15 });
  await measure({ model: model('demo-16k-2-layers', 16384, [...demo, '--layers', '2']), tokens: 8192, chunk: 512, count: 16, rounds: 5 });
  await measure({ model: model('narrow-40k', 40960, ['--dim', '64', '--layers', '2', '--heads', '1', '--kv', '1', '--headdim', '32', '--ffn', '256']), tokens: 32768, chunk: 1024, count: 32, rounds: 3 });
  fs.rmSync(keyFile);
});
