// How soon a cluster is itself again: from a cancel in the middle of a transfer
// to all its pages free on both sides; from the death of either peer in the middle
// of one to the other's pages free; from a death to the front end's knowing it, and
// to the last new request that was answered with anything but 200; and what the
// first request of a fresh cluster waits beside the hundredth.
//
// The context worker's link (its fault decorator's) is slow, so that a transfer
// lasts seconds. Pages are watched over /metrics; two answers apart is how exact a
// time is, and is told. [transfer T25] [serve T31 T89]
import fs from 'node:fs';
import path from 'node:path';
import { get, route, serve, sleep, up } from '../test/e2e/lib/cluster.mjs';
import { folder, freshPrompt, keepAlive, main, median, metrics, now, randomModel, record, stream, streamWell } from './bench-lib.mjs';

const RUNS = 7;
const TOKENS = 1600;
const LINK = 13e6; // bytes a second: the prompt's 26 MB in two seconds
const VOCAB = 2000;
const KEY = 'secret of this benchmark';
const keyFile = path.join(folder, 'recover.key');
const linkFile = path.join(folder, 'recover-link.yaml');
const agent = keepAlive();
const gaps = []; // ms between two answers of a worker that is watched

const worker = (role, model, more = []) => serve(['--role', role, '--threads', '1', '--max-batch', '4', '--kv-tokens', '8192', '--auth-key-file', keyFile, ...more], { model });
const front = (contexts, generations) => route(contexts.map((one) => one.port), generations.map((one) => one.port), [], { yaml: `internal_request_auth_key: ${KEY}\n` });

const isFree = (page) => page.baton_kv_pages_leased === 0 && page.baton_kv_pages_used === 0;

// Asks until it is so; ms since `begin`.
async function until(one, begin, check) {
  let last = null;
  for (;;) {
    const page = await metrics(one.port, agent);
    const time = now();
    if (last !== null) gaps.push(time - last);
    last = time;
    if (check(page)) return time - begin;
    if (time - begin > 30000) throw new Error('nothing changes any more');
    await sleep(1);
  }
}

async function openPair(model) {
  const pair = { id: path.basename(model, '.gguf') };
  [pair.context, pair.generation] = await Promise.all([worker('context', model, ['--config', linkFile]), worker('generation', model)]);
  pair.front = await front([pair.context], [pair.generation]);
  return pair;
}

async function closePair(pair) {
  for (const one of [pair.front, pair.context, pair.generation]) await one.stop().catch(() => {});
}

// A request whose KV is on its way: { request, asked }.
async function inTransfer(pair, delay) {
  const before = (await metrics(pair.generation.port, agent)).baton_handoff_bytes_total;
  const one = {};
  one.asked = stream(pair.front.port, { model: pair.id, prompt: freshPrompt(TOKENS, VOCAB), max_tokens: 4 }, { mayBreak: true, onRequest: (request) => { one.request = request; } });
  await until(pair.generation, now(), (page) => page.baton_kv_pages_leased > 0);
  await sleep(delay);
  const page = await metrics(pair.generation.port, agent);
  if (page.baton_kv_pages_leased === 0 || page.baton_handoff_bytes_total !== before) throw new Error('the transfer is over already');
  return one;
}

async function cancel(pair, delay) {
  const one = await inTransfer(pair, delay);
  const begin = now();
  one.request.destroy();
  const times = await Promise.all([until(pair.context, begin, isFree), until(pair.generation, begin, isFree)]);
  await one.asked;
  return Math.max(...times);
}

// { killed, gone } in ms since the kill and since the process was gone, which is
// when quiet can be proven; less than nothing where it was not needed.
async function kill(model, victim, other) {
  const pair = await openPair(model);
  const one = await inTransfer(pair, 300);
  const begin = now();
  let gone = begin;
  pair[victim].child.exit.then(() => { gone = now(); });
  process.kill(pair[victim].pid, 'SIGKILL');
  const killed = await until(pair[other], begin, (page) => page.baton_kv_pages_leased === 0);
  one.request.destroy();
  await one.asked;
  await closePair(pair);
  return { killed, gone: Math.max(0, begin + killed - gone) };
}

function report(name, times, goal = null) {
  record({ bench: 'recover', name, value: median(times) / 1000, unit: 's', goal, runs: times.length });
}

async function measureTransfers(model) {
  const pair = await openPair(model);
  await streamWell(pair.front.port, { model: pair.id, prompt: freshPrompt(64, VOCAB), max_tokens: 2 });
  const times = [];
  for (let i = 0; i < RUNS; i++) times.push(await cancel(pair, 100 + 150 * i));
  await closePair(pair);
  report('cancel in mid-transfer to all pages free', times, 0.1);
  for (const [victim, other] of [['context', 'generation'], ['generation', 'context']]) {
    const deaths = [];
    for (let i = 0; i < 3; i++) deaths.push(await kill(model, victim, other));
    report(`${victim} worker killed in mid-transfer to the other's pages free`, deaths.map((one) => one.killed));
    report(`the same since the ${victim} worker was gone, the proof of quiet`, deaths.map((one) => one.gone), 0.1);
  }
}

// Requests of which none waits for another, until the end; { begin, status } each.
function askAlways(port) {
  const all = { results: [], isOver: false, running: [] };
  const one = async (begin) => {
    const { status, isWhole } = await stream(port, { model: 'demo', prompt: freshPrompt(32, VOCAB), max_tokens: 2 }, { mayBreak: true });
    all.results.push({ begin, isGood: status === 200 && isWhole });
  };
  all.end = (async () => {
    while (!all.isOver) {
      all.running.push(one(now()));
      await sleep(20);
    }
    await Promise.all(all.running);
  })();
  return all;
}

// { noticed, routedAway } in ms after the death of one of two.
async function die(role, isBusy) {
  const contexts = await Promise.all([0, 1].map(() => worker('context', undefined)));
  const generations = await Promise.all([0, 1].map(() => worker('generation', undefined)));
  const door = await front(contexts, generations);
  for (let i = 0; i < 8; i++) await streamWell(door.port, { model: 'demo', prompt: freshPrompt(32, VOCAB), max_tokens: 2 });
  const asking = isBusy ? askAlways(door.port) : null;
  await sleep(500);
  const victim = (role === 'context' ? contexts : generations)[1];
  const isReady = async () => (await get(door.port, '/cluster_info', { agent })).json.servers.find((one) => one.address === `127.0.0.1:${victim.port}`).state === 'ready';
  if (!await isReady()) throw new Error('a worker was not ready');
  const begin = now();
  process.kill(victim.pid, 'SIGKILL');
  while (await isReady() && now() - begin < 10000) await sleep(1);
  const result = { noticed: now() - begin };
  if (isBusy) {
    await sleep(1500);
    asking.isOver = true;
    await asking.end;
    const bad = asking.results.filter((one) => one.begin > begin && !one.isGood);
    result.routedAway = Math.max(0, ...bad.map((one) => one.begin - begin));
  }
  for (const one of [door, ...contexts, ...generations]) await one.stop().catch(() => {});
  return result;
}

async function measureDeaths() {
  for (const role of ['context', 'generation']) {
    const idle = [];
    const busy = [];
    for (let i = 0; i < 3; i++) {
      idle.push(await die(role, false));
      busy.push(await die(role, true));
    }
    report(`${role} worker's death to the front end's knowing, idle`, idle.map((one) => one.noticed), 1);
    report(`${role} worker's death to the front end's knowing, under load`, busy.map((one) => one.noticed), 1);
    report(`${role} worker's death to the last new request that failed`, busy.map((one) => one.routedAway), 1);
  }
}

async function measureFirst() {
  const runs = [];
  for (let i = 0; i < 6; i++) {
    const cluster = await up(['--threads', '2']);
    const times = [];
    for (let k = 0; k < 100; k++) times.push((await streamWell(cluster.port, { model: 'demo', prompt: freshPrompt(256, VOCAB), max_tokens: 2 })).firstMs);
    await cluster.stop();
    if (i > 0) runs.push({ first: times[0], late: median(times.slice(90)) }); // at first the client is cold, too
  }
  const value = median(runs.map((run) => run.first / run.late));
  record({ bench: 'recover', name: `first request's first token (${median(runs.map((run) => run.first)).toFixed(1)} ms) over the hundredth's (${median(runs.map((run) => run.late)).toFixed(1)} ms)`, value, unit: 'times', goal: 1.2, runs: runs.length });
}

await main(async () => {
  process.setMaxListeners(200); // a child adds one
  fs.writeFileSync(keyFile, KEY, { mode: 0o600 });
  fs.writeFileSync(linkFile, `cache_transceiver_config:\n  fault_link_bytes: ${LINK}\n`);
  const wide = randomModel('wide-kv', ['--dim', '256', '--layers', '8', '--heads', '8', '--kv', '8', '--headdim', '64', '--ffn', '704', '--vocab', '2048', '--type', 'q8_0']);
  await measureTransfers(wide);
  record({ bench: 'recover', name: 'between two answers of a worker that is watched', value: median(gaps) / 1000, unit: 's', runs: gaps.length });
  await measureDeaths();
  await measureFirst();
  fs.rmSync(keyFile);
  fs.rmSync(linkFile);
});
