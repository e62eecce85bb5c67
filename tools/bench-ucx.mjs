// How fast a hand-off's bytes move beside UCX's own benchmark, turn about in one
// run: writes over shared memory, no digest, beside its put of 32 and 64 MiB, and
// writes of 1 MiB over TCP, digest and answer included, beside its tagged messages
// of that size. Its ends have a CPU each, as ours have. It moves one buffer again
// and again, we another part of 768 MiB each time.
//
// ucx_perftest is in Debian's ucx-utils; without it there is nothing to measure.
import { execFile, execFileSync, spawn } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { build } from '../test/e2e/lib/cluster.mjs';
import { main, median, record } from './bench-lib.mjs';

const ROUNDS = 3;
const MIB = 1024 * 1024;
const PORT = 13377;
const run = promisify(execFile);

const pinned = (cpu, args) => ['-c', String(cpu), 'ucx_perftest', '-p', String(PORT), ...args];

// GB/s of one of its tests.
async function perftest(transport, test, size, count) {
  const env = { ...process.env, UCX_TLS: transport, UCX_WARN_UNUSED_ENV_VARS: 'n' };
  const server = spawn('taskset', pinned(1, []), { env, stdio: 'ignore' });
  const ended = new Promise((done) => server.once('exit', done));
  try {
    for (let tries = 0; ; tries++) {
      const client = await run('taskset', pinned(0, ['127.0.0.1', '-t', test, '-s', String(size), '-n', String(count), '-w', '3', '-f', '-v']), { env, timeout: 120000 }).catch((error) => error);
      const last = client.stdout?.trim().split('\n').at(-1).split(',').map(Number);
      if (last?.length > 5 && last[5] > 0) return last[5] * MIB / 1e9;
      if (tries === 20) throw new Error(`ucx_perftest ${test}: ${client.stdout}${client.stderr}`);
      await new Promise((done) => setTimeout(done, 100)); // it may not listen yet
    }
  } finally {
    server.kill('SIGKILL');
    await ended;
  }
}

// { name: GB/s } of ours.
async function ours() {
  const { stdout } = await run(path.join(build, 'test/transfer_bench'), [], { timeout: 300000 });
  return Object.fromEntries(stdout.trim().split('\n').map((line) => JSON.parse(line)).filter((line) => line.unit === 'GB/s').map((line) => [line.name, line.value]));
}

const PAIRS = [
  { name: 'shared memory, 1 MiB, no digest', against: 'ucx_perftest put of 32 MiB', goal: 1.2, theirs: () => perftest('sysv,self', 'ucp_put_bw', 32 * MIB, 60) },
  { name: 'shared memory, 1 MiB, no digest', against: 'ucx_perftest put of 64 MiB', goal: 1.2, theirs: () => perftest('sysv,self', 'ucp_put_bw', 64 * MIB, 30) },
  { name: 'tcp, 1 MiB', against: 'ucx_perftest tagged messages of 1 MiB', goal: 1, theirs: () => perftest('tcp', 'tag_bw', MIB, 2000) },
];

await main(async () => {
  execFileSync('ucx_perftest', ['-h'], { stdio: 'ignore' });
  const figures = PAIRS.map(() => ({ ours: [], theirs: [] }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, pair] of PAIRS.entries()) figures[i].theirs.push(await pair.theirs());
    const mine = await ours();
    for (const [i, pair] of PAIRS.entries()) figures[i].ours.push(mine[pair.name]);
  }
  for (const [i, pair] of PAIRS.entries()) {
    const value = median(figures[i].ours), theirs = median(figures[i].theirs);
    record({ bench: 'ucx', name: pair.name, value, unit: 'GB/s', against: `${pair.against} ${theirs.toFixed(2)} GB/s`, ratio: value / theirs, goal: pair.goal, runs: ROUNDS });
  }
});
