// A model with windowed layers: its pages lie in two pools, both are handed over,
// and whatever the policy its answers are those of one process.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { baton, build, generate, metric, post, scratch, serve, until, up } from './lib/cluster.mjs';

const folder = scratch();
const model = path.join(folder, 'windowed.gguf');
before(() => execFileSync(path.join(build, 'mkgguf'), ['--arch', 'gemma3', '--dim', '64', '--layers', '6', '--heads', '4', '--kv', '2', '--headdim', '16',
  '--ffn', '128', '--vocab', '400', '--ctx', '1024', '--window', '64', '--pattern', '3', '--type', 'f16', '--scale', '4', model]));
after(() => fs.rmSync(folder, { recursive: true }));

const prompt = (kind, count) => Array.from({ length: count }, (_, i) => 5 + (kind * 53 + i * 7 + i * i * (1 + kind % 3)) % 380);
// Some share their beginning, some are longer than the window many times over.
const prompts = Array.from({ length: 10 }, (_, i) => [...prompt(i % 3, 150 + 20 * (i % 3)), ...prompt(10 + i, 11 + 17 * i)]);
const length = 80;
const answerOf = async (port, ids) => {
  const { status, json, text } = await post(port, '/v1/completions', { model: 'windowed', prompt: ids, max_tokens: length, temperature: 0, ignore_eos: true });
  assert.equal(status, 200, text);
  return json.choices[0].text;
};

test('inspect shows both pools', () => {
  const text = execFileSync(baton, ['inspect', '--model', model], { encoding: 'utf8' });
  assert.match(text, /^KV pool 0 +256 blocks of \d+ bytes, [\d.]+ MiB$/m);
  assert.match(text, /^KV pool 1 +\d+ blocks of \d+ bytes, [\d.]+ MiB, window of 64 tokens$/m);
});

const policies = [
  ['--capacity-policy', 'GUARANTEED_NO_EVICT'],
  ['--capacity-policy', 'MAX_UTILIZATION', '--host-cache-size', '8MiB'],
  ['--capacity-policy', 'MAX_UTILIZATION', '--shortest-first', 'false', '--prefix-wait', 'false'],
  ['--capacity-policy', 'BOUNDED_OVERCOMMIT', '--partial-reuse', 'false'],
  ['--capacity-policy', 'MAX_UTILIZATION', '--block-reuse-policy', 'per_request'],
];
for (const policy of policies) {
  test(`answers are exact under pressure: ${policy.join(' ')}`, async () => {
    // Room for hardly more than two of the ten at a time.
    const worker = await serve(['--kv-tokens', '960', '--max-seq', '480', '--max-batch', '8', ...policy], { model });
    const answers = await Promise.all(prompts.map((ids) => answerOf(worker.port, ids)));
    for (let i = 0; i < prompts.length; i++) assert.equal(answers[i], expected(prompts[i]), `prompt ${i}`);
    assert.ok(new Set(answers).size > 5, 'the model says different things');
    await until('no page is used', async () => await metric(worker.port, 'baton_kv_pages_used') === 0);
    const count = (name) => metric(worker.port, `baton_engine_${name}_requests_total`);
    const gaveWay = await count('suspended') + await count('paused');
    if (policy[1] === 'GUARANTEED_NO_EVICT') assert.equal(gaveWay, 0);
    if (policy[1] === 'MAX_UTILIZATION') assert.ok(gaveWay > 0, 'some gave way');
    if (policy.includes('--host-cache-size')) assert.ok(await metric(worker.port, 'baton_kv_pages_offloaded_total') > 0);
    assert.equal(await worker.stop(), 0);
  });
}
const known = new Map();
function expected(ids) {
  const key = JSON.stringify(ids);
  if (!known.has(key)) {
    known.set(key, generate(['--prompt-ids', key, '--max-tokens', `${length}`, '--temperature', '0', '--ignore-eos'], { model }).text);
  }
  return known.get(key);
}

test('a cluster hands both pools over', async () => {
  const cluster = await up([], { model });
  const answers = await Promise.all(prompts.map((ids) => answerOf(cluster.port, ids)));
  for (let i = 0; i < prompts.length; i++) assert.equal(answers[i], expected(prompts[i]), `prompt ${i}`);
  let bytes = 0;
  for (const worker of cluster.workers) bytes += await metric(worker.port, 'baton_handoff_bytes_total');
  assert.ok(bytes > 0, 'KV was handed over');
  assert.equal(await cluster.stop(), 0);
});
