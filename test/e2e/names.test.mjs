// Hosts given by name while the name service is silent: workers and front end go
// on with everything else, and end when they are told to. Skipped where no
// namespaces may be made.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { root } from './lib/cluster.mjs';

let skip = false;
try {
  execFileSync('unshare', ['-nm', 'sh', '-c', 'ip link set lo up && mount --bind /etc/hosts /etc/resolv.conf'], { stdio: 'ignore' });
} catch {
  skip = 'no namespaces here';
}

test('a silent name service holds up nothing but who needs the name', { skip }, (t) => {
  const { status, stdout, stderr } = spawnSync('unshare', ['-nm', process.execPath, path.join(root, 'test/e2e/lib/names.mjs')], { encoding: 'utf8', timeout: 200000 });
  t.diagnostic(stdout.trim());
  assert.equal(status, 0, stderr);
});
