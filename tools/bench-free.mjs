// How soon what nobody waits for is free again: from a client's hang-up to
// both workers' pages free, in the middle of a stream and of a long prefill;
// and from kill -9 of a worker to the answer of the last client that waited.
// [serve T31 T89] [transfer T25]
import { children, argsOf, demo, sleep, up } from '../test/e2e/lib/cluster.mjs';
import { freshPrompt, keepAlive, main, median, metrics, now, randomModel, record, stream } from './bench-lib.mjs';

const RUNS = 9;

// Polls until no worker holds a page for anybody; seconds since `begin`.
async function untilFree(cluster, begin, agent) {
  for (const worker of cluster.workers) {
    for (;;) {
      const page = await metrics(worker.port, agent);
      if (page.baton_kv_pages_used === 0 && page.baton_kv_pages_leased === 0 && page.baton_engine_running === 0) break;
      if (now() - begin > 30000) throw new Error(`${worker.name} still holds pages`);
      await sleep(1);
    }
  }
  return (now() - begin) / 1000;
}

async function hangUpInStream(cluster, agent) {
  let left = 0;
  await stream(cluster.port, { model: 'demo', prompt: freshPrompt(64, 2000), max_tokens: 900 }, { mayBreak: true, onChunk: (req, count) => {
    if (count >= 20 && left === 0) {
      left = now();
      req.destroy();
    }
  } });
  if (left === 0) throw new Error('the stream ended before the hang-up');
  return untilFree(cluster, left, agent);
}

async function hangUpInPrefill(cluster, id, agent) {
  let left = 0;
  const context = cluster.worker('context-0').port;
  const asked = stream(cluster.port, { model: id, prompt: freshPrompt(900, 8000), max_tokens: 4 }, { mayBreak: true, onRequest: async (req) => {
    const before = (await metrics(context, agent)).baton_engine_prefill_tokens_total;
    while ((await metrics(context, agent)).baton_engine_prefill_tokens_total === before) await sleep(2);
    left = now();
    req.destroy();
  } });
  const { firstMs } = await asked;
  if (firstMs !== null) throw new Error('the prefill ended before the hang-up');
  return untilFree(cluster, left, agent);
}

async function killUnderLoad(victim) {
  const cluster = await up(['--threads', '2']);
  let isOver = false;
  const ended = [];
  const clients = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      const begin = now();
      const { totalMs, isWhole, status } = await stream(cluster.port, { model: 'demo', prompt: freshPrompt(64, 2000), max_tokens: 24 }, { mayBreak: true });
      ended.push({ begin, end: begin + totalMs, isWhole, status });
      if (!isWhole || status !== 200) await sleep(20);
    }
  });
  while (ended.length < 24) await sleep(10);
  const killed = now();
  process.kill(children(cluster.child.pid).find((pid) => argsOf(pid).includes(victim)), 'SIGKILL');
  await sleep(3000);
  isOver = true;
  await Promise.all(clients);
  await cluster.stop();
  const waited = ended.filter((one) => one.begin < killed && one.end > killed);
  return Math.max(...waited.map((one) => one.end - killed)) / 1000;
}

await main(async () => {
  const agent = keepAlive();
  const small = await up(['--threads', '2'], { model: demo });
  const streams = [];
  for (let i = 0; i < RUNS; i++) streams.push(await hangUpInStream(small, agent));
  await small.stop();
  record({ bench: 'free', name: 'hang-up in a stream to pages free', value: median(streams), unit: 's', goal: 0.3, runs: RUNS });

  const model = randomModel('params-150m', ['--dim', '1024', '--layers', '12', '--heads', '16', '--kv', '4', '--ffn', '2816', '--vocab', '8192', '--type', 'q8_0', '--ctx', '2048']);
  const large = await up(['--threads', '2'], { model });
  const prefills = [];
  for (let i = 0; i < RUNS; i++) prefills.push(await hangUpInPrefill(large, 'params-150m', agent));
  await large.stop();
  record({ bench: 'free', name: 'hang-up in a prefill of 900 to pages free', value: median(prefills), unit: 's', goal: 0.3, runs: RUNS });

  for (const victim of ['context-0', 'generation-0']) {
    const times = [];
    for (let i = 0; i < 3; i++) times.push(await killUnderLoad(victim));
    record({ bench: 'free', name: `kill -9 of ${victim} to the last answer`, value: Math.max(...times), unit: 's', goal: 1, runs: times.length });
  }
});
