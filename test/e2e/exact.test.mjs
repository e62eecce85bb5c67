// Decision 11 through the whole product: what the cluster answers equals what
// one process computes on its own, token for token, whatever is batched,
// chunked, reused or evicted on the way.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build, demo, get, metric, scratch, up } from './lib/cluster.mjs';
import { generateAll, prompts, runAll } from './lib/prompts.mjs';

const COUNT = 200;
const LONGEST = 900;
const TOKENS = 8;

function models() {
  const folder = scratch();
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
      const expected = generateAll(model, list, TOKENS);
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
            assert.equal(transfer.backend, 'auto');
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

// What one block holds, as `inspect` derives it from the file.
function blockBytesOf(model) {
  const text = execFileSync(path.join(build, 'baton'), ['inspect', '--model', model], { encoding: 'utf8' });
  return Number(text.match(/blocks of (\d+) bytes/)[1]);
}
