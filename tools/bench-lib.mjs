// What the cluster's benchmarks share: a line per figure, medians, a streaming
// client that keeps time, models with random weights, what a process uses.
//
// A line of build/bench/results.jsonl: bench, name, value (a median), unit;
// `against` names the peer or limit measured beside it in the same run, and
// `ratio` is ours over theirs with more being better (null where there is
// none); `goal` must be met, `aim` is hoped for: both are held against the
// ratio where there is one, else against the value; `runs` were measured.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { build, get } from '../test/e2e/lib/cluster.mjs';

export const folder = path.join(build, 'bench');
export const MIB = 1024 * 1024;
fs.mkdirSync(folder, { recursive: true });

const digits = (value) => (value === null || value === undefined ? null : Number(value.toPrecision(5)));

export function record(line) {
  const { bench, name, value, unit, against = null, ratio = null, goal = null, aim = null, runs } = line;
  const text = JSON.stringify({ bench, name, value: digits(value), unit, against, ratio: digits(ratio), goal: digits(goal), aim: digits(aim), runs });
  fs.appendFileSync(path.join(folder, 'results.jsonl'), `${text}\n`);
  console.log(text);
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export const now = () => performance.now(); // ms

// One benchmark run: what cannot be measured is told, and ends with 1.
export async function main(task) {
  try {
    await task();
    process.exit(0);
  } catch (error) {
    console.error(`not measured: ${error.stack}`);
    process.exit(1);
  }
}

// The same words in every run, others in every prompt.
let seed = 20240607;
export function chance(count) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * count);
}

// Ids from `first` on, so that none of them is special.
export const freshPrompt = (count, vocab, first = 300) => Array.from({ length: count }, () => first + chance(vocab - first));

export const keepAlive = () => new http.Agent({ keepAlive: true, maxSockets: 64 });

// Sends a streaming completion: { status, firstMs, totalMs, chunks }, counted
// from before the request is written. `onChunk(response, count)` may hang up.
export function stream(port, body, options = {}) {
  return new Promise((done, fail) => {
    const begin = now();
    const data = JSON.stringify({ temperature: 0, ignore_eos: true, ...body, stream: true });
    const result = { chunks: 0, firstMs: null };
    const req = http.request({ port, host: '127.0.0.1', method: 'POST', path: '/v1/completions', agent: options.agent || false,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data) } }, (res) => {
      result.status = res.statusCode;
      result.headMs = now() - begin;
      res.on('data', (part) => {
        result.firstMs ??= now() - begin;
        result.chunks += part.toString().split('\n').filter((l) => l.startsWith('data: {')).length;
        options.onChunk?.(req, result.chunks);
      });
      res.on('close', () => done({ ...result, totalMs: now() - begin, isWhole: res.complete }));
      res.on('error', () => {});
    });
    req.on('error', (error) => (options.mayBreak ? done({ ...result, totalMs: now() - begin, isWhole: false }) : fail(error)));
    options.onRequest?.(req);
    req.end(data);
  });
}

export async function streamWell(port, body, options) {
  const result = await stream(port, body, options);
  if (result.status !== 200 || !result.isWhole) throw new Error(`a completion was answered with ${result.status}`);
  return result;
}

// A model with random weights, written once: build/bench/NAME.gguf.
export function randomModel(name, args) {
  const file = path.join(folder, `${name}.gguf`);
  if (!fs.existsSync(file)) {
    execFileSync(path.join(build, 'mkgguf'), [`${file}.new`, ...args], { stdio: 'ignore' });
    fs.renameSync(`${file}.new`, file);
  }
  return file;
}

// Metrics of one page: { name: value summed over labels }.
export async function metrics(port, agent) {
  const { text } = await get(port, '/metrics', { agent });
  const values = {};
  for (const line of text.split('\n')) {
    const match = line.match(/^([a-z_]+)(?:\{[^}]*\})? (\S+)$/);
    if (match) values[match[1]] = (values[match[1]] || 0) + Number(match[2]);
  }
  return values;
}

// Seconds a process was on a CPU, all its threads.
export function cpuSeconds(pid) {
  return fs.readdirSync(`/proc/${pid}/task`).reduce((sum, id) => sum + Number(fs.readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]), 0) / 1e9;
}

// Private memory in bytes: all of it (as smaps_rollup counts), the part in
// shared memory segments (KV pool and transfer queues), the part that is the
// model file's own pages.
export function privateMemory(pid, model) {
  const sum = { total: 0, segments: 0, model: 0 };
  let kind = 'total';
  for (const line of fs.readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) {
      kind = /\/SYSV|\/dev\/shm|\/memfd/.test(line) ? 'segments' : line.includes(model) ? 'model' : 'total';
    }
    const match = line.match(/^Private_(?:Clean|Dirty):\s+(\d+) kB/);
    if (match) {
      sum.total += Number(match[1]) * 1024;
      if (kind !== 'total') sum[kind] += Number(match[1]) * 1024;
    }
  }
  return sum;
}
