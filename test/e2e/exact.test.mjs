// Decision 11 through the whole product: what the cluster answers equals what
// one process computes on its own, token for token, whatever is batched,
// chunked, reused or evicted on the way.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { build, demo, get, metric, post, up, generate } from './lib/cluster.mjs';

// A small generator, so that a failing run can be had again.
function random(seed) {
  let s = seed >>> 0;
  return (bound) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return Math.floor((s / 2 ** 32) * bound);
  };
}

function prompts(count, vocab, longest, seed) {
  const next = random(seed);
  const ids = (n) => Array.from({ length: n }, () => 1 + next(vocab - 1));
  const shared = [ids(400), ids(150), ids(70)];
  return Array.from({ length: count }, (_, i) => {
    const kind = next(3);
    const length = i === 0 ? 1 : i === 1 ? longest : 1 + next(next(4) === 0 ? longest : 200);
    if (kind === 0) return ids(length);
    const base = shared[next(3)].slice(0, Math.max(1, length - 1));
    return [...base, ...ids(Math.max(1, length - base.length))].slice(0, longest);
  });
}

async function runAll(port, list, width, tokens) {
  const answers = new Array(list.length);
  let at = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    while (at < list.length) {
      const i = at++;
      const { status, json, text } = await post(port, '/v1/completions', { model: 'm', prompt: list[i], max_tokens: tokens, temperature: 0, detokenize: false, ignore_eos: true });
      assert.equal(status, 200, text);
      answers[i] = json.choices[0].token_ids;
    }
  }));
  return answers;
}

const COUNT = 200;
const LONGEST = 900;
const TOKENS = 8;

function models() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'baton-test-'));
  const make = (arch, type) => {
    const file = path.join(folder, `${arch}-${type}.gguf`);
    execFileSync(path.join(build, 'mkgguf'), [file, '--arch', arch, '--type', type, '--dim', '256', '--layers', '3', '--heads', '4', '--kv', '2', '--ffn', '512', '--vocab', '400', '--ctx', '1024', '--seed', '5']);
    return file;
  };
  return { folder, files: [['demo', demo, 2048], ['llama q4_k', make('llama', 'q4_k'), 400], ['qwen2 q8_0', make('qwen2', 'q8_0'), 400], ['qwen3 f16', make('qwen3', 'f16'), 400]] };
}

// [transfer T51]
test('token ids through the cluster equal those of one process', async (t) => {
  const { folder, files } = models();
  for (const [name, model, vocab] of files) {
    await t.test(name, async () => {
      const list = prompts(COUNT, vocab, LONGEST, 42);
      const expected = generateMany(model, list);
      const pool = Math.ceil((1.5 * (LONGEST + TOKENS)) / 32) * 32 + 64;
      let moved = 0;
      for (const [chunk, threads] of [[64, 2], [48, 4]]) {
        const cluster = await up(['--chunk-tokens', String(chunk), '--threads', String(threads), '--kv-tokens', String(pool), '--served-model-name', 'm'], { model });
        try {
          const answers = await runAll(cluster.port, list, 16, TOKENS);
          assert.deepEqual(answers, expected, `chunk ${chunk}`);
          const context = cluster.worker('context-0').port;
          const generation = cluster.worker('generation-0').port;
          assert.ok(await metric(context, 'baton_engine_cached_tokens_total') > 0, 'prefix hits');
          assert.ok(await metric(context, 'baton_engine_evicted_pages_total') > 0, 'evictions');
          assert.equal(await metric(generation, 'baton_engine_copied_kv_bytes_total'), 0);
          // Bytes moved are whole blocks.
          const blockBytes = blockBytesOf(model);
          for (const transfer of (await get(generation, '/transfers')).json.transfers) {
            assert.equal(transfer.backend, 'ucx');
            assert.equal(transfer.bytes, transfer.blocks * blockBytes);
            moved += transfer.bytes;
          }
        } finally {
          await cluster.stop();
        }
      }
      assert.ok(moved > 0);
    });
  }
  fs.rmSync(folder, { recursive: true });
});

function generateMany(model, list) {
  return list.map((ids) => generate(['--prompt-ids', JSON.stringify(ids), '--max-tokens', String(TOKENS), '--ignore-eos', '--threads', '1'], { model }).token_ids);
}

// What one block holds, as `inspect` derives it from the file.
function blockBytesOf(model) {
  const text = execFileSync(path.join(build, 'baton'), ['inspect', '--model', model], { encoding: 'utf8' });
  return Number(text.match(/blocks of (\d+) bytes/)[1]);
}
