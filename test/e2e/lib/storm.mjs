// Storms over real processes: workers on fixed addresses behind a front end,
// clients whose every answer is held against what one process says, and what has
// to be true when the weather is over.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { Child, build, demo, get, metric, root, route, serve, sleep, until } from './cluster.mjs';
import { generateAll } from './prompts.mjs';

const HANG_MS = 90000; // longer than any deadline that a storm leaves in force
const CLEAR = [429, 502, 503, 504]; // what a client may hear when a worker goes

export function random(seed) {
  let s = seed >>> 0;
  return (bound) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return Math.floor((s / 2 ** 32) * bound);
  };
}

// Not one that the kernel gives to clients, else the restarted worker may find
// its place taken.
const given = new Set();
async function freePort() {
  for (;;) {
    const port = 20000 + Math.floor(Math.random() * 12000);
    const isFree = !given.has(port) && await new Promise((done) => {
      const probe = net.createServer().once('error', () => done(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => done(true)));
    });
    if (isFree) {
      given.add(port);
      return port;
    }
  }
}

// ---- what is asked, and what one process answers -----------------------------

const ids = (seed, count) => Array.from({ length: count }, (_, i) => 3 + ((seed * 7919 + i * 104729 + i * i * (seed % 5)) % 1900));

// Some share their beginnings, so that pages are reused while others move.
export const PROMPTS = [1, 40, 130, 260, 261, 420, 600, 700].flatMap((length, i) => [ids(i, length), [...ids(3, Math.min(length, 200)), ...ids(50 + i, length >> 1)]]);
const TOKENS = 64;
const expected = generateAll(demo, PROMPTS, TOKENS);
const expectedOf = (i) => expected[i];

// ---- one client --------------------------------------------------------------

// Looks at the processes while a client still hangs.
let onHang = async () => {};

const body = (prompt, tokens, more) => ({ model: 'demo', prompt, max_tokens: tokens, temperature: 0, ignore_eos: true, ...more });

function outcomeOf(status, text, isCut) {
  if (isCut) return { kind: 'cut', text };
  if (status === 200) return { kind: 'ok', text };
  let error;
  try { error = JSON.parse(text).error; } catch { /* not clear */ }
  return CLEAR.includes(status) && error?.message ? { kind: 'error', status, text: error.message } : { kind: 'unclear', status, text };
}

// One request: { done: outcome, leave() }. Kinds of outcome: ok, error (a clear
// one), left (our own doing), cut, unclear, hang.
export function ask(port, json, headers = {}) {
  const data = JSON.stringify(json);
  const call = {};
  call.done = new Promise((done) => {
    const req = http.request({ port, host: '127.0.0.1', method: 'POST', path: '/v1/completions', agent: false, headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data), ...headers } });
    const end = (outcome) => {
      clearTimeout(timer);
      done(outcome);
    };
    const timer = setTimeout(async () => {
      end({ kind: 'hang', text: await onHang() });
      req.destroy();
    }, HANG_MS);
    call.leave = () => { end({ kind: 'left' }); req.destroy(); };
    req.on('response', (res) => {
      let text = '';
      res.on('data', (d) => { text += d; call.hasBytes = true; });
      res.on('close', () => end(outcomeOf(res.statusCode, text, !res.complete)));
      res.on('error', () => {});
    });
    req.on('error', (error) => end({ kind: 'cut', text: String(error) }));
    req.end(data);
  });
  return call;
}

// Token ids of prompt i's answer, as one body.
async function askWhole(port, i, tokens, headers) {
  const outcome = await ask(port, body(PROMPTS[i], tokens, { detokenize: false }), headers).done;
  if (outcome.kind === 'ok') {
    const got = JSON.parse(outcome.text).choices[0].token_ids;
    if (JSON.stringify(got) !== JSON.stringify(expectedOf(i).slice(0, tokens))) return { kind: 'wrong', text: `prompt ${i}, ${tokens} tokens: ${got}` };
  }
  return outcome;
}

// The same as a stream; an error event in it is a clear end, too few tokens or
// no [DONE] is none.
async function askStream(port, i, tokens, headers) {
  const outcome = await ask(port, body(PROMPTS[i], tokens, { detokenize: false, stream: true }), headers).done;
  if (outcome.kind !== 'ok') return outcome;
  const events = outcome.text.split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)));
  const error = events.find((e) => e.error);
  const got = events.flatMap((e) => e.choices?.[0]?.token_ids ?? []);
  const wanted = expectedOf(i).slice(0, tokens);
  if (JSON.stringify(got) !== JSON.stringify(wanted.slice(0, got.length))) return { kind: 'wrong', text: `stream of prompt ${i}: ${got}` };
  if (error) return { kind: 'error', status: 200, text: error.error.message };
  return got.length === tokens && /data: \[DONE\]\s*$/.test(outcome.text) ? outcome : { kind: 'cut', text: outcome.text.slice(-200) };
}

// ---- the cluster -------------------------------------------------------------

export class Storm {
  // options: { style, lane, contexts, generations, args, place }. `place` says of
  // a worker how it is started elsewhere than here: { program, prefix, args }.
  static async open(options) {
    const storm = new Storm();
    const { style = 'context_first', lane = 'auto', contexts = 2, generations = 2, args = [], yaml = '' } = options;
    storm.args = ['--backend', lane, '--strict-internal-auth', 'false', '--threads', '1', '--queue-limit', '2048', ...args];
    storm.workers = await Promise.all([...Array(contexts + generations).keys()].map(async (i) => {
      const role = i < contexts ? 'context' : 'generation';
      return { role, name: `${role}-${i < contexts ? i : i - contexts}`, port: await freePort(), transferPort: await freePort(), restarts: 0 };
    }));
    storm.place = options.place ?? (() => ({ args: [] }));
    storm.tally = {};
    storm.faults = [];
    onHang = () => storm.autopsy();
    await Promise.all(storm.workers.map((worker) => storm.start(worker)));
    const ports = (role) => storm.workers.filter((w) => w.role === role).map((w) => w.port);
    storm.front = await route(ports('context'), ports('generation'), ['--schedule-style', style], { yaml });
    return storm;
  }

  worker(name) { return this.workers.find((w) => w.name === name); }

  async start(worker) {
    const { args, ...options } = this.place(worker);
    worker.part = await serve(['--role', worker.role, '--name', worker.name, '--port', String(worker.port), '--transfer-port', String(worker.transferPort), ...this.args, ...args], options);
    worker.restarts++;
  }

  // A worker that is told to end does so well.
  async end(worker, signal) {
    const { child } = worker.part;
    const code = await child.stop(signal);
    if (signal !== 'SIGKILL' && code !== 0) this.faults.push(`${worker.name} ended with ${code} after ${signal}: ${child.errors.slice(-2000)}`);
  }

  async restart(worker, signal = 'SIGKILL', awayMs = 0) {
    await this.end(worker, signal);
    await sleep(awayMs);
    await this.start(worker);
  }

  async freeze(worker, ms) {
    process.kill(worker.part.pid, 'SIGSTOP');
    await sleep(ms);
    process.kill(worker.part.pid, 'SIGCONT');
  }

  note(outcome) {
    const key = outcome.kind === 'error' ? `error ${outcome.status}` : outcome.kind;
    this.tally[key] = (this.tally[key] || 0) + 1;
    if (!['ok', 'error', 'left'].includes(outcome.kind)) this.faults.push(`${outcome.kind} ${outcome.status ?? ''} ${outcome.text ?? ''}`.slice(0, 500));
    return outcome;
  }

  // `width` clients, each with one request after the other, until stop().
  load(width, next, { leaves = 0, deadlines = false } = {}) {
    let isOver = false;
    const client = async () => {
      while (!isOver) {
        const i = next(PROMPTS.length);
        const tokens = 1 + next(TOKENS);
        const headers = deadlines ? { 'x-baton-deadline-ms': String(1000 + next(4000)) } : {};
        let outcome;
        if (next(100) < leaves) {
          const call = ask(this.front.port, body(PROMPTS[i], 1000, { stream: next(2) === 0 }), headers);
          const timer = setTimeout(call.leave, next(300));
          outcome = await call.done;
          clearTimeout(timer);
        } else {
          outcome = await (next(2) === 0 ? askWhole : askStream)(this.front.port, i, tokens, headers);
        }
        this.note(outcome);
        if (outcome.kind === 'error') await sleep(10 + next(30));
      }
    };
    const clients = Array.from({ length: width }, client);
    return { stop: async () => { isOver = true; await Promise.all(clients); } };
  }

  // Requests of `tokens` tokens, all left one after the other as fast as we can.
  async leaveAll(count, tokens, next, isReady) {
    const calls = Array.from({ length: count }, () => ask(this.front.port, body(PROMPTS[next(PROMPTS.length)], tokens, { stream: true })));
    await isReady(calls);
    for (const call of calls) call.leave();
    for (const call of calls) this.note(await call.done);
  }

  // The same in a process that is killed. Answers how long that took, in ms.
  async killClients(count, tokens, next) {
    const { port } = this.front;
    const child = new Child([path.join(root, 'test/e2e/lib/leavers.mjs'), String(port), String(count), JSON.stringify(body(PROMPTS[next(PROMPTS.length)], tokens, { stream: true }))], { program: process.execPath });
    await until('all are open', async () => await metric(port, 'baton_front_requests_open') >= count, 60000);
    const began = performance.now();
    await child.stop('SIGKILL');
    return performance.now() - began;
  }

  // Every gauge of work or held memory of every process, by its name, if not 0.
  async busy() {
    const names = /^(baton_requests_open|baton_engine_(waiting|running|receiving|sending)|baton_kv_pages_(leased|used)|baton_front_requests_open|baton_kv_pool_pages\{.*state="used"\}) (.*)$/;
    const pages = await Promise.all(this.processes().map(async ([name, , port]) => (await get(port, '/metrics')).text.split('\n').map((l) => l.match(names)).filter((m) => m && Number(m.at(-1)) !== 0).map((m) => `${name} ${m[0]}`)));
    return pages.flat();
  }

  // After the storm: all is zero long before a deadline could have made it so,
  // and a probe has the right tokens soon.
  async calm(t, { ms = 20000 } = {}) {
    let left = [];
    const began = performance.now();
    await until('all is zero', async () => { left = await this.busy(); return left.length === 0; }, ms).catch(() => assert.deepEqual(left, [], 'all is zero'));
    const idle = performance.now() - began;
    const start = performance.now();
    let outcome;
    await until('a probe is served', async () => { outcome = await askWhole(this.front.port, 5, 16); return outcome.kind === 'ok'; }, 10000).catch(() => assert.equal(outcome.kind, 'ok', outcome.text));
    t?.diagnostic(`zero after ${idle.toFixed(0)} ms, probe ${(performance.now() - start).toFixed(0)} ms, ${JSON.stringify(this.tally)}`);
    this.verdict();
  }

  // [name, pid, port] of every process.
  processes() {
    return [...this.workers.map((w) => [w.name, w.part.pid, w.port]), ['front', this.front.child.pid, this.front.port]];
  }

  // What is under way where, and where each thread is, for whoever must find out
  // why a client hangs. Returns the file's name.
  async autopsy() {
    const file = path.join(build, `storm-hang-${Date.now()}.txt`);
    const say = (text) => fs.appendFileSync(file, `${text}\n`);
    for (const [name, pid, port] of this.processes()) {
      say(`==== ${name}, process ${pid}`);
      for (const page of ['/metrics', '/transfers', '/health']) say(await get(port, page).then(({ text }) => text.replace(/^(#.*|.*_bucket.*)\n/gm, ''), String));
      try {
        say(execFileSync('gdb', ['-p', String(pid), '-batch', '-ex', 'thread apply all bt'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
      } catch (error) {
        say(`no gdb: ${error.message}`);
      }
    }
    for (const { name, part } of this.workers) say(`==== ${name} said\n${part.child.errors.slice(-4000)}`);
    say(`==== front said\n${this.front.child.errors.slice(-20000)}`);
    return file;
  }

  verdict() {
    for (const { part, name } of this.workers) assert.doesNotMatch(part.child.errors, /CHECK|Sanitizer/, name);
    assert.doesNotMatch(this.front.child.errors, /CHECK|Sanitizer/, 'front');
    assert.deepEqual(this.faults, []);
  }

  async close() {
    for (const { part } of this.workers) if (part.child.code === undefined) process.kill(part.pid, 'SIGCONT');
    const codes = await Promise.all([this.front, ...this.workers.map((w) => w.part)].map((part) => part.stop().catch((error) => String(error))));
    return codes;
  }
}
