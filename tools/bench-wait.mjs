// What waiting for a prefix saves: eight prompts that share 8192 tokens and come
// within 10 ms, asked of a mixed worker that lets them wait for the one that
// computes the prefix, and of one that does not. A turn takes up to 32768 tokens:
// where one prompt fills every turn alone, prompts come one after the other and
// nobody computes anything twice, with or without. All eight come while another
// prompt is computed, so that one pass sees them together, as on a busy worker.
import { serve, sleep } from '../test/e2e/lib/cluster.mjs';
import { freshPrompt, keepAlive, main, median, metrics, now, randomModel, record, streamWell } from './bench-lib.mjs';

const RUNS = 3;
const PROMPTS = 8;
const SHARED = 8192;
const OWN = 64;
const AHEAD = 1024; // tokens of the prompt that is computed when they come
const DISTINCT = SHARED + PROMPTS * OWN;
const VOCAB = 2000;

async function start(model, waits) {
  return serve(['--threads', '1', '--max-seq', '16384', '--kv-tokens', '131072', '--chunk-tokens', '32768', '--prefix-wait', String(waits)], { model });
}

const prefilled = async (worker) => (await metrics(worker.port)).baton_engine_prefill_tokens_total;

// { tokens computed, ms to the last first token, ms in which they were sent }
async function crowd(worker, agent) {
  const shared = freshPrompt(SHARED, VOCAB);
  // No two go on with the same token: none finds a part of another's block.
  const prompts = Array.from({ length: PROMPTS }, (_, i) => [...shared, 300 + i, ...freshPrompt(OWN - 1, VOCAB)]);
  const ask = (prompt) => streamWell(worker.port, { model: 'demo-16k', prompt, max_tokens: 1 }, { agent });
  const before = await prefilled(worker);
  const ahead = ask(freshPrompt(AHEAD, VOCAB));
  await sleep(10);
  const begin = now();
  const asked = prompts.map(ask);
  const sent = now() - begin;
  const answers = await Promise.all(asked);
  await ahead;
  await sleep(50); // counters follow at a turn's end
  return { tokens: (await prefilled(worker)) - before - AHEAD, last: Math.max(...answers.map((one) => one.firstMs)), sent };
}

await main(async () => {
  const model = randomModel('demo-16k', ['--dim', '192', '--layers', '5', '--heads', '6', '--kv', '2', '--headdim', '32', '--ffn', '512', '--vocab', '2048', '--type', 'q8_0', '--ctx', '16384']);
  const workers = { with: await start(model, true), without: await start(model, false) };
  const agent = keepAlive();
  const runs = { with: [], without: [] };
  for (let i = 0; i < RUNS; i++) {
    for (const [name, worker] of Object.entries(workers)) runs[name].push(await crowd(worker, agent));
  }
  const sent = Math.max(...Object.values(runs).flat().map((run) => run.sent));
  if (sent > 10) console.error(`the prompts were sent within ${sent.toFixed(1)} ms, not 10`);
  const pick = (name, key) => median(runs[name].map((run) => run[key]));
  const most = Math.max(...runs.with.map((run) => run.tokens));
  const name = `${PROMPTS} prompts sharing ${SHARED} tokens`;
  record({ bench: 'wait', name: `${name}: prefilled over distinct tokens`, value: most / DISTINCT, unit: 'times', goal: 1.1, runs: RUNS });
  record({ bench: 'wait', name: `${name}: the same without waiting`, value: pick('without', 'tokens') / DISTINCT, unit: 'times', runs: RUNS });
  record({ bench: 'wait', name: `${name}: first token of the last`, value: pick('with', 'last'), unit: 'ms', against: 'without waiting', ratio: pick('without', 'last') / pick('with', 'last'), goal: 2, runs: RUNS });
  const { baton_engine_waited_prefix_tokens_total: saved } = await metrics(workers.with.port);
  if (saved !== undefined) console.error(`tokens that waiters found done: ${saved}`);
  for (const worker of Object.values(workers)) await worker.stop();
});
