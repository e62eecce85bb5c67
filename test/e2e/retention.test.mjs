// What clients ask the cache to keep (engine.md 1.10), by the names they know
// from TensorRT-LLM: through a worker, and through a front end, which hands the
// field on as it is.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { serve, up, post, metric } from './lib/cluster.mjs';

const PROMPT = 256;
const prompt = (kind) => Array.from({ length: PROMPT }, (_, i) => 10 + (kind * 37 + i * 11 + i * i) % 1900);
const keep = { kv_cache_retention_config: { token_range_retention_configs: [{ token_start: 0, token_end: PROMPT, priority: 90, duration_ms: 600000 }], decode_retention_priority: 0 } };

// Tokens of the prompt that need not be computed.
async function cached(worker, kind, extra = {}) {
  const before = await metric(worker.port, 'baton_engine_cached_tokens_total');
  const { status, text } = await post(worker.port, '/v1/completions', { model: 'demo', prompt: prompt(kind), max_tokens: 2, temperature: 0, ...extra });
  assert.equal(status, 200, text);
  return await metric(worker.port, 'baton_engine_cached_tokens_total') - before;
}

test('a prompt that is to be kept outlives others that are not', async () => {
  const worker = await serve(['--kv-tokens', '1024', '--max-seq', '512']);
  await cached(worker, 1, keep);
  await cached(worker, 2);
  for (let kind = 10; kind < 20; kind++) assert.ok(await cached(worker, kind) < 32);
  assert.ok(await metric(worker.port, 'baton_engine_evicted_pages_total') > 0, 'pages had to go');
  assert.ok(await cached(worker, 1) >= PROMPT - 32, 'the kept one is found');
  assert.ok(await cached(worker, 2) < 32, 'the other one is gone');
  assert.equal(await worker.stop(), 0);
});

test('a rule that cannot be is refused by name, by a front end too', async () => {
  const cluster = await up();
  const ask = async (config) => {
    const { status, json } = await post(cluster.port, '/v1/completions', { model: 'demo', prompt: [5, 6], max_tokens: 2, kv_cache_retention_config: config });
    return [status, json.error?.message];
  };
  const [status, message] = await ask({ token_range_retention_configs: [{ token_start: 9, token_end: 3, priority: 1 }] });
  assert.equal(status, 400);
  assert.match(message, /kv_cache_retention_config.*\[0\]: token_end: 3 must be after token_start 9/);
  assert.equal((await ask(keep.kv_cache_retention_config))[0], 200);
  assert.equal(await cluster.stop(), 0);
});
