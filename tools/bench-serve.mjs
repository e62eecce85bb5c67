// The front end's own cost: latency it adds to a tiny request, its CPU per
// request of one leg, of two, and per relayed chunk. Then tokens a second of
// context + generation worker beside two mixed workers, same threads, behind
// the same front end.
import { execFileSync } from 'node:child_process';
import { argsOf, baton, children, metric, route, serve, until, up } from '../test/e2e/lib/cluster.mjs';
import { cpuSeconds, freshPrompt, keepAlive, main, median, record, streamWell } from './bench-lib.mjs';

const LATENCY_RUNS = 300;
const LOAD_RUNS = 5;
const REQUESTS = 400;

function load(port, args) {
  const text = execFileSync(baton, ['bench', 'serve', '--url', `127.0.0.1:${port}`, '--json', ...args.map(String)], { encoding: 'utf8' });
  const result = JSON.parse(text);
  if (result.failed > 0) throw new Error(`${result.failed} requests failed under load`);
  return result;
}
const tiny = (outputs) => ['--requests', REQUESTS, '--concurrency', 8, '--input-words', 4, '--output-tokens', outputs];

// One token needs no hand-off: the front end asks one worker only.
async function compareLatency(frontPort, workerPort) {
  const agent = keepAlive();
  const ask = async (port) => (await streamWell(port, { model: 'demo', prompt: freshPrompt(4, 2000), max_tokens: 1 }, { agent })).totalMs;
  const direct = [];
  const through = [];
  for (let i = 0; i < LATENCY_RUNS; i++) {
    direct.push(await ask(workerPort));
    through.push(await ask(frontPort));
  }
  record({ bench: 'serve', name: 'tiny request through the front end', value: median(through), unit: 'ms', against: 'the worker asked directly', ratio: median(direct) / median(through), runs: LATENCY_RUNS });
  record({ bench: 'serve', name: 'latency the front end adds', value: median(through) - median(direct), unit: 'ms', runs: LATENCY_RUNS });
}

function compareRate(frontPort, workerPort) {
  const direct = [];
  const through = [];
  for (let i = 0; i < LOAD_RUNS; i++) {
    direct.push(load(workerPort, tiny(1)).request_throughput);
    through.push(load(frontPort, tiny(1)).request_throughput);
  }
  record({ bench: 'serve', name: 'tiny requests through the front end', value: median(through), unit: 'requests/s', against: 'the worker asked directly', ratio: median(through) / median(direct), runs: LOAD_RUNS });
}

async function frontCpu(cluster, name, count, task, aim) {
  const pid = children(cluster.child.pid).find((id) => argsOf(id)[1] === 'route');
  const values = [];
  for (let i = 0; i < LOAD_RUNS; i++) {
    const before = cpuSeconds(pid);
    const done = (await task()) ?? count;
    values.push((cpuSeconds(pid) - before) * 1e6 / done);
  }
  record({ bench: 'serve', name: `front end's CPU per ${name}`, value: median(values), unit: 'us', aim, runs: LOAD_RUNS });
}

async function measureFront() {
  const cluster = await up(['--threads', '2']);
  const worker = cluster.worker('context-0').port;
  await compareLatency(cluster.port, worker);
  compareRate(cluster.port, worker);
  await frontCpu(cluster, 'request of one leg', REQUESTS + 1, () => { load(cluster.port, tiny(1)); });
  await frontCpu(cluster, 'request of two legs', REQUESTS + 1, () => { load(cluster.port, tiny(2)); });
  await frontCpu(cluster, 'relayed chunk', 0, async () => (await streamWell(cluster.port, { model: 'demo', prompt: freshPrompt(16, 2000), max_tokens: 900 })).chunks, 21);
  await cluster.stop();
}

// A front end whose generation workers are gone gives whole requests to the
// rest: here, to two mixed workers.
async function frontOfMixed() {
  const options = ['--threads', '1', '--workers-on-host', '4', '--strict-internal-auth', 'false'];
  const mixed = [await serve(options), await serve(options)];
  const lost = await serve([...options, '--role', 'generation']);
  const front = await route(mixed.map((worker) => worker.port), [lost.port]);
  await lost.stop('SIGKILL');
  await until('it is seen gone', async () => {
    await streamWell(front.port, { model: 'demo', prompt: freshPrompt(4, 2000), max_tokens: 4 }).catch(() => {});
    return (await Promise.all(mixed.map((worker) => metric(worker.port, 'baton_engine_decode_tokens_total')))).every((count) => count > 0);
  }, 30000);
  return { front, stop: () => Promise.all([front, ...mixed].map((one) => one.stop())) };
}

async function compareThroughput() {
  const cluster = await up(['--threads', '2']);
  const whole = await frontOfMixed();
  const pick = (list, key) => median(list.map((run) => run[key]));
  for (const [name, args] of [['chat-like', ['--input-words', 100, '--output-tokens', 64]], ['prompt-heavy', ['--input-words', 500, '--output-tokens', 16]]]) {
    const runs = { ours: [], theirs: [] };
    for (let i = 0; i < LOAD_RUNS; i++) {
      const options = ['--requests', 60, '--concurrency', 8, '--seed', i + 1, ...args];
      runs.theirs.push(load(whole.front.port, options));
      runs.ours.push(load(cluster.port, options));
    }
    const ours = pick(runs.ours, 'output_throughput');
    record({ bench: 'serve', name: `${name} load through the cluster`, value: ours, unit: 'tokens/s', against: 'two mixed workers', ratio: ours / pick(runs.theirs, 'output_throughput'), runs: LOAD_RUNS });

    record({ bench: 'serve', name: `${name} load, 99 % of token gaps under`, value: pick(runs.ours, 'p99_itl_ms'), unit: 'ms', against: 'two mixed workers', ratio: pick(runs.theirs, 'p99_itl_ms') / pick(runs.ours, 'p99_itl_ms'), runs: LOAD_RUNS });
  }
  await cluster.stop();
  await whole.stop();
}

await main(async () => {
  await measureFront();
  await compareThroughput();
});
