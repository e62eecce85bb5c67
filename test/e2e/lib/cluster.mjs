// Starts real clusters and workers for tests, talks to them, and proves that
// nothing of them is left behind.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const build = path.resolve(root, process.env.BATON_BUILD || 'build');
export const baton = path.join(build, 'baton');
export const demo = path.join(root, 'models/demo.gguf');
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const limit = (ms) => new Promise((done) => setTimeout(done, ms, 'late').unref());

// What a failed test left running would keep its file from ending, and what it
// left on disk would stay: both go with the process, whatever ends it.
const running = new Set();
const folders = new Set();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.once(signal, () => process.exit(1));
if (process.env.NODE_TEST_CONTEXT) {
  const { after } = await import('node:test');
  after(() => running.forEach((child) => child.kill('SIGKILL')));
}

// A folder that is gone when the test file ends.
export function scratch() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'baton-test-'));
  folders.add(folder);
  return folder;
}

// A child whose output is kept; ends with the test process.
export class Child {
  constructor(args, options = {}) {
    this.lines = [];
    this.errors = '';
    this.process = spawn(options.program || baton, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: root, env: { ...process.env, ...options.env } });
    running.add(this.process);
    let rest = '';
    this.process.stdout.on('data', (data) => {
      rest += data;
      const parts = rest.split('\n');
      rest = parts.pop();
      this.lines.push(...parts);
      this.rest = rest;
    });
    this.process.stderr.on('data', (data) => { this.errors += data; });
    this.exit = new Promise((done) => this.process.on('exit', (code, signal) => {
      running.delete(this.process);
      this.code = code ?? signal;
      done(this.code);
    }));
  }

  get pid() { return this.process.pid; }

  async line(pattern, ms = 60000) {
    const end = Date.now() + ms;
    for (;;) {
      const found = this.lines.map((line) => line.match(pattern)).find(Boolean);
      if (found) return found;
      if (this.code !== undefined) throw new Error(`ended with ${this.code} before ${pattern}: ${this.errors}`);
      if (Date.now() > end) throw new Error(`no line ${pattern} in ${ms} ms: ${this.lines.join('\n')}\n${this.errors}`);
      await sleep(5);
    }
  }

  async stop(signal = 'SIGTERM', ms = 60000) {
    if (this.code === undefined) this.process.kill(signal);
    const code = await Promise.race([this.exit, limit(ms)]);
    if (code === 'late') {
      this.process.kill('SIGKILL');
      throw new Error(`did not end in ${ms} ms after ${signal}: ${this.errors}`);
    }
    return code;
  }
}

const portOf = (match) => Number(new URL(match[1]).port);

// `baton up`: { url, port, workers: [{name, pid, port}], child }.
export async function up(args = [], options = {}) {
  const model = options.model || demo;
  const child = new Child(['up', '--model', model, '--port', '0', ...args], options);
  const match = await child.line(/^ready (http:\S+)/);
  const cluster = { child, url: match[1], port: portOf(match) };
  cluster.workers = children(child.pid).map((pid) => ({ pid, args: argsOf(pid) })).filter((w) => w.args[1] === 'serve')
    .map((w) => ({ pid: w.pid, name: w.args[w.args.indexOf('--name') + 1], port: listeningPort(w.pid) }));
  cluster.worker = (name) => cluster.workers.find((w) => w.name === name);
  cluster.stop = (signal) => child.stop(signal);
  return cluster;
}

// One `baton serve`; options.prefix are arguments of a program that runs it.
export async function serve(args = [], options = {}) {
  const child = new Child([...(options.prefix ?? []), 'serve', '--model', options.model || demo, ...args], options);
  const match = await child.line(/^ready (http:\S+)/);
  return { child, url: match[1], port: portOf(match), pid: child.pid, stop: (signal) => child.stop(signal) };
}

// One front end over given workers.
export async function route(context, generation, args = [], options = {}) {
  const file = path.join(scratch(), 'route.yaml');
  const list = (ports) => `\n  num_instances: ${ports.length}\n  urls: [${ports.map((p) => `"127.0.0.1:${p}"`).join(', ')}]\n`;
  fs.writeFileSync(file, `hostname: 127.0.0.1\nport: 0\ncontext_servers:${list(context)}generation_servers:${list(generation)}${options.yaml || ''}`, { mode: options.mode ?? 0o600 });
  const child = new Child(['route', '--config', file, ...args], options);
  const match = await child.line(/^ready (http:\S+)/);
  fs.rmSync(path.dirname(file), { recursive: true });
  folders.delete(path.dirname(file));
  return { child, url: match[1], port: portOf(match), stop: (signal) => child.stop(signal) };
}

export function children(pid) {
  return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).filter((id) => {
    try {
      return Number(fs.readFileSync(`/proc/${id}/stat`, 'utf8').replace(/^.*\) /, '').split(' ')[1]) === pid;
    } catch { return false; }
  });
}

export function argsOf(pid) {
  try { return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1); } catch { return []; }
}

export function alive(pid) {
  try { return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')); } catch { return false; }
}

// The lowest listening TCP port of a process is not its HTTP port for sure: ask each.
function listeningPort(pid) {
  const inodes = new Set(fs.readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try { return fs.readlinkSync(`/proc/${pid}/fd/${fd}`).match(/^socket:\[(\d+)\]/)?.[1]; } catch { return null; }
  }).filter(Boolean));
  const ports = fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1).map((line) => line.trim().split(/\s+/))
    .filter((f) => f[3] === '0A' && inodes.has(f[9])).map((f) => parseInt(f[1].split(':')[1], 16));
  for (const port of ports) {
    try {
      const out = execFileSync('curl', ['-s', '-m', '1', `http://127.0.0.1:${port}/version`], { encoding: 'utf8' });
      if (out.includes('version')) return port;
    } catch { /* the transfer port does not speak HTTP */ }
  }
  throw new Error(`process ${pid} has no HTTP port among ${ports}`);
}

// All shared memory that could be ours: SysV segments, /dev/shm, temporary files.
export function leftovers() {
  // A segment whose maker lives is somebody's, not a leftover.
  const sysv = fs.readFileSync('/proc/sysvipc/shm', 'utf8').split('\n').slice(1).filter(Boolean).map((l) => l.trim().split(/\s+/)).filter((f) => !alive(Number(f[4]))).map((f) => f[1]);
  const shm = fs.existsSync('/dev/shm') ? fs.readdirSync('/dev/shm') : [];
  const temp = fs.readdirSync(os.tmpdir()).filter((name) => /^(baton|ucx)/i.test(name));
  return [...sysv.map((s) => `sysv ${s}`), ...shm.map((s) => `/dev/shm/${s}`), ...temp.map((s) => `tmp ${s}`)].sort();
}

export function request(port, method, target, body, options = {}) {
  return new Promise((done, fail) => {
    const data = body === undefined ? undefined : typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const headers = { ...(data !== undefined ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data) } : {}), ...options.headers };
    const req = http.request({ port, host: '127.0.0.1', method, path: target, headers, agent: options.agent || false }, (res) => {
      const parts = [];
      res.on('data', (d) => parts.push(d));
      res.on('end', () => {
        const text = Buffer.concat(parts).toString();
        let json;
        try { json = JSON.parse(text); } catch { json = undefined; }
        done({ status: res.statusCode, headers: res.headers, text, json });
      });
      res.on('error', fail);
    });
    req.on('error', fail);
    options.onRequest?.(req);
    req.end(data);
  });
}

export const post = (port, target, body, options) => request(port, 'POST', target, body, options);
export const get = (port, target, options) => request(port, 'GET', target, undefined, options);

// A metric's value from a Prometheus page, summed over its label sets.
export async function metric(port, name) {
  const { text } = await get(port, '/metrics');
  const lines = text.split('\n').filter((l) => l.startsWith(`${name} `) || l.startsWith(`${name}{`));
  if (lines.length === 0) throw new Error(`no metric ${name} in\n${text}`);
  return lines.reduce((sum, l) => sum + Number(l.slice(l.lastIndexOf(' ') + 1)), 0);
}

export async function until(what, check, ms = 10000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await sleep(10);
  }
}

// `baton generate --json`.
export function generate(args, options = {}) {
  const out = execFileSync(baton, ['generate', '--json', '--model', options.model || demo, ...args], { encoding: 'utf8', maxBuffer: 1 << 28 });
  return JSON.parse(out);
}
