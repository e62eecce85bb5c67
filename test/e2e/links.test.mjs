// KV over TCP between two hosts whose link fails: it goes away for a moment and
// takes with it what is on the way, comes back, is replaced by another one, is a
// different one each way. TCP mends what is short; what is long ends clearly.
// Every host is a network namespace; skipped where none may be made.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { root } from './lib/cluster.mjs';

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
