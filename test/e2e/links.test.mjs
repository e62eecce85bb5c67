// KV over TCP between two hosts whose link fails: it goes away for a moment and
// takes with it what is on the way, comes back, is replaced by another one, is a
// different one each way. TCP mends what is short; what is long ends clearly.
// Every host is a network namespace; skipped where none may be made.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { baton, children, get, post, root, route, serve } from './lib/cluster.mjs';

const isFull = process.env.STORM === 'full' || process.env.BATON_TIER === 'full';
// The longer one outlasts the ten heartbeats after which a connection is given up.
const OUTAGE_MS = isFull ? 13000 : 2000;

let skip = false;
try {
  execFileSync('unshare', ['-n', 'sh', '-c', 'ip link add a0 type veth peer name b0'], { stdio: 'ignore' });
} catch {
  skip = 'no network namespaces here';
}

for (const style of ['context_first', 'generation_first']) {
  // [transfer T86]
  test(`the link between two hosts fails: ${style}`, { skip }, (t) => {
    const { status, stdout, stderr } = spawnSync('unshare', ['-n', process.execPath, path.join(root, 'test/e2e/lib/links.mjs'), style, String(OUTAGE_MS)], { encoding: 'utf8', timeout: 200000 });
    t.diagnostic(stdout.trim());
    assert.equal(status, 0, stderr);
  });
}

const OPEN = ['--strict-internal-auth', 'false', '--threads', '1'];
let skipPids = false;
try {
  execFileSync('unshare', ['--pid', '--fork', '--mount-proc', 'true'], { stdio: 'ignore' });
} catch {
  skipPids = 'no process namespaces here';
}

// Containers that share IPC and not PIDs: memory could be mapped, but nobody could
// prove that a writer is dead. [transfer T87]
test('who cannot see each other\'s processes meets by tcp', { skip: skipPids }, async () => {
  const apart = { program: 'unshare', prefix: ['--pid', '--fork', '--mount-proc', '--kill-child=SIGTERM', baton] };
  const [context, near, far] = await Promise.all([serve(['--role', 'context', ...OPEN]), serve(['--role', 'generation', ...OPEN]), serve(['--role', 'generation', ...OPEN], apart)]);
  const front = await route([context.port], [near.port, far.port]);
  const laneOf = async (worker) => (await get(worker.port, '/transfers')).json.transfers[0].lane;
  for (let i = 0; i < 4; i++) {
    const { status } = await post(front.port, '/v1/completions', { model: 'demo', prompt: `${i}: In the beginning God created the heaven and the earth.`, max_tokens: 4 });
    assert.equal(status, 200);
  }
  assert.deepEqual([await laneOf(near), await laneOf(far)], ['sysv', 'tcp']);
  process.kill(children(far.pid)[0], 'SIGTERM'); // unshare itself takes none
  assert.equal(await far.child.exit, 0);
  for (const one of [front, near, context]) await one.stop();
});
