// What a worker tells about its cache, against hashes computed here from the
// ids of the prompts (serve.md 3.3, engine.md 1.12).
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { serve, post, get, metric } from './lib/cluster.mjs';

const BLOCK = 32;
const MASK = (1n << 64n) - 1n;

// v1_block_key, in 64-bit words.
function mix32(value, seed) {
  let v = BigInt(value);
  for (let i = 0; i < 2; i++) v = (((v >> 16n) ^ v) * 0x45d9f3bn) & 0xffffffffn;
  v = ((v >> 16n) ^ v) + 0x9e3779b9n & 0xffffffffn;
  return seed ^ (v + ((seed << 6n) & MASK) + (seed >> 2n) & MASK);
}
function mix64(value, seed) {
  let v = ((value ^ (value >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  v = ((v ^ (v >> 27n)) * 0x94d049bb133111ebn) & MASK;
  v ^= v >> 31n;
  return seed ^ (v + 0x9e3779b9n + ((seed << 6n) & MASK) + (seed >> 2n) & MASK);
}
function v1(parent, ids, salt) {
  let seed = BigInt(ids.length) ^ ((parent * 0xbf58476d1ce4e5b9n) & MASK);
  if (parent === 0n && salt !== undefined) seed = mix64(salt, seed);
  for (const id of ids) seed = mix32(id, seed);
  return seed;
}
const blocksOf = (ids) => Array.from({ length: Math.floor(ids.length / BLOCK) }, (_, i) => ids.slice(i * BLOCK, (i + 1) * BLOCK));
function chainV1(ids, salt) {
  let parent = 0n;
  return blocksOf(ids).map((block) => String(parent = v1(parent, block, salt)));
}
function chainV2(ids) {
  let digest = createHash('sha256').update(Buffer.from([0])).digest();
  return blocksOf(ids).map((block) => {
    const words = Buffer.alloc(8 * BLOCK);
    block.forEach((id, i) => words.writeBigUInt64LE(BigInt(id), 8 * i));
    digest = createHash('sha256').update(digest).update(words).digest();
    return digest.toString('hex');
  });
}
const saltId = (salt) => createHash('sha256').update(salt).digest().readBigUInt64LE(0);

// 64-bit numbers stay what they are: as texts.
async function poll(worker, body) {
  const { status, text } = await post(worker.port, '/kv_cache_events', body ?? {});
  assert.equal(status, 200, text);
  return JSON.parse(text.replace(/(?<=[:[,])\d{10,}(?=[,\]}])/g, '"$&"'));
}
const ofType = (events, type) => events.filter((event) => event.data.type === type);
const storedHashes = (events) => ofType(events, 'stored').flatMap((event) => event.data.blocks.map((block) => String(block.block_hash)));
const prompt = (kind, count) => Array.from({ length: count }, (_, i) => 10 + (kind * 37 + i * 11 + i * i) % 1900);
async function complete(worker, ids, extra = {}) {
  const { status, text } = await post(worker.port, '/v1/completions', { model: 'demo', prompt: ids, max_tokens: 1, temperature: 0, ...extra });
  assert.equal(status, 200, text);
}

test('the sums here are those of the specification', () => {
  assert.equal(v1(0n, [1, 2, 3, 4]), 924206229973855n);
  assert.equal(v1(924206229973855n, [5, 6, 7, 8]), 2728178455351807326n);
  assert.equal(v1(0n, [1, 2, 3, 4], 123n), 6280297290684427985n);
});

test('blocks are told once, by the hashes of their ids, and a resync lists them', async () => {
  const worker = await serve(['--event-buffer-max-size', '1000']);
  const info = (await get(worker.port, '/server_info')).json;
  assert.equal(info.kv_cache_hash_algo, 'v1_block_key');
  const ids = prompt(1, 3 * BLOCK + 5);
  await complete(worker, ids);
  const events = await poll(worker);
  assert.deepEqual(events.map((event) => event.event_id), events.map((_, i) => i + 1));
  assert.deepEqual(ofType(events, 'created')[0].data.num_blocks_per_cache_level, [info.kv_pools[0].num_blocks_per_cache_level[0]]);
  assert.deepEqual(storedHashes(events), chainV1(ids));
  const [first] = ofType(events, 'stored');
  assert.equal(first.hash_algo, 'v1_block_key');
  assert.equal(first.data.parent_hash, null);
  await complete(worker, ids);
  assert.deepEqual(await poll(worker), []);

  // Other prompts branch off where they differ; another salt shares nothing.
  const other = [...ids.slice(0, BLOCK), ...prompt(2, BLOCK + 3)];
  await complete(worker, other);
  const branch = await poll(worker);
  assert.deepEqual(storedHashes(branch), chainV1(other).slice(1));
  assert.equal(ofType(branch, 'stored')[0].data.parent_hash, chainV1(ids)[0]);
  await complete(worker, ids, { cache_salt: 'tenant' });
  const salted = await poll(worker, { tokens: true });
  assert.deepEqual(storedHashes(salted), chainV1(ids, saltId('tenant')));
  assert.deepEqual(ofType(salted, 'stored').flatMap((event) => event.data.blocks.flatMap((block) => block.tokens.map((token) => token.token_id))), ids.slice(0, 3 * BLOCK));

  const [mark, ...all] = await poll(worker, { resync: true });
  assert.equal(mark.data.type, 'resync');
  assert.deepEqual(storedHashes(all).sort(), [...new Set([...chainV1(ids), ...chainV1(other), ...chainV1(ids, saltId('tenant'))])].sort());
  assert.equal(await worker.stop(), 0);
});

test('v2_sha256 names are whole digests', async () => {
  const worker = await serve(['--event-buffer-max-size', '1000', '--kv-cache-hash-algo', 'v2_sha256']);
  const ids = prompt(3, 2 * BLOCK + 1);
  await complete(worker, ids);
  assert.deepEqual(storedHashes(await poll(worker)), chainV2(ids));
  assert.equal(await worker.stop(), 0);
});

test('what is evicted is removed, what the buffer cannot hold is a gap', async () => {
  const worker = await serve(['--event-buffer-max-size', '12', '--kv-tokens', '256', '--max-seq', '128', '--max-batch', '1']);
  const known = new Set();
  const follow = (events) => {
    for (const { data } of events) {
      if (data.type === 'stored') data.blocks.forEach((block) => known.add(String(block.block_hash)));
      if (data.type === 'removed') data.block_hashes.forEach((hash) => assert.ok(known.delete(String(hash)), 'a removed block was known'));
      if (data.type === 'gap') assert.fail('nothing was lost');
    }
  };
  for (let kind = 0; kind < 6; kind++) {
    await complete(worker, prompt(10 + kind, 3 * BLOCK + 2));
    follow(await poll(worker));
  }
  assert.ok(await metric(worker.port, 'baton_engine_evicted_pages_total') > 0);
  assert.ok(known.size <= 8);
  const listed = async () => storedHashes(await poll(worker, { resync: true })).sort();
  assert.deepEqual(await listed(), [...known].sort());
  for (let kind = 0; kind < 8; kind++) await complete(worker, prompt(30 + kind, 3 * BLOCK + 2));
  const [gap] = await poll(worker);
  assert.equal(gap.data.type, 'gap');
  assert.ok(gap.data.lost > 0);
  assert.equal(await metric(worker.port, 'baton_kv_events_lost_total'), gap.data.lost);
  known.clear();
  (await listed()).forEach((hash) => known.add(hash));
  await complete(worker, prompt(50, 3 * BLOCK + 2));
  follow(await poll(worker));
  assert.deepEqual(await listed(), [...known].sort());
  assert.equal(await worker.stop(), 0);
});

test('without a buffer there are no events, and it says so', async () => {
  const worker = await serve();
  const { status, json } = await post(worker.port, '/kv_cache_events', {});
  assert.equal(status, 400);
  assert.match(json.error.message, /event_buffer_max_size is 0/);
  assert.equal(await worker.stop(), 0);
});
