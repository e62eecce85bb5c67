// The capacity policies through a real worker, with pools hardly larger than one
// request: whoever is put away, paused, evicted or brought back gets the tokens
// that one process gives alone. Models with sliding windows too, whose pages
// come free behind the window.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build, demo, metric, post, request, scratch, serve, until } from './lib/cluster.mjs';
import { generateAll, prompts, runAll } from './lib/prompts.mjs';

const COUNTS = { demo: 200 }; // all at once
const LONGEST = 400;
const TOKENS = 40;
const POLICIES = ['GUARANTEED_NO_EVICT', 'MAX_UTILIZATION', 'BOUNDED_OVERCOMMIT'];

function makeModel(folder, arch, args) {
  const file = path.join(folder, `${arch}.gguf`);
  execFileSync(path.join(build, 'mkgguf'), [file, '--arch', arch, '--type', 'q8_0', '--dim', '128', '--heads', '4', '--kv', '2', '--ffn', '256', '--vocab', '400', '--ctx', '1024', '--seed', '5', ...args]);
  return file;
}

// [engine T31] [engine T32]
test('every policy serves 200 at once from a pool for one', async (t) => {
  const folder = scratch();
  const models = [
    ['demo', demo, 2048],
    ['gemma3, window 64', makeModel(folder, 'gemma3', ['--layers', '6', '--window', '64']), 400],
    ['llama, window 48', makeModel(folder, 'llama', ['--layers', '3', '--window', '48']), 400],
  ];
  for (const [name, model, vocab] of models) {
    const list = prompts(COUNTS[name] || 100, vocab, LONGEST, 7);
    const expected = generateAll(model, list, TOKENS);
    let gaveWay = 0;
    let movedDown = 0;
    for (const policy of POLICIES) {
      for (const host of ['0', '16MiB']) {
        await t.test(`${name}, ${policy}, host ${host}`, async () => {
          const config = path.join(folder, 'worker.yaml');
          fs.writeFileSync(config, `model: ${model}\nserved_model_name: m\nmax_seq_len: 480\nkv_cache_config:\n  max_tokens: 640\n  host_cache_size: ${host}\nscheduler_config:\n  capacity_scheduler_policy: ${policy}\n`);
          const worker = await serve(['--config', config, '--role', 'mixed', '--chunk-tokens', '64', '--threads', '2'], { model });
          try {
            assert.deepEqual(await runAll(worker.port, list, list.length, TOKENS), expected);
            const away = await metric(worker.port, 'baton_engine_suspended_requests_total') + await metric(worker.port, 'baton_engine_paused_requests_total');
            if (policy === 'GUARANTEED_NO_EVICT') assert.equal(away, 0);
            gaveWay += away;
            movedDown += await metric(worker.port, 'baton_kv_pages_offloaded_total');
            await until('no page is used', async () => await metric(worker.port, 'baton_kv_pages_used') === 0);
          } finally {
            await worker.stop();
          }
        });
      }
    }
    assert.ok(gaveWay > 0, 'somebody had to give way');
    assert.ok(movedDown > 0, 'pages went a level down');
  }
  fs.rmSync(folder, { recursive: true });
});

// Chats seldom say how long their answer may be. By default one that is long does
// not keep others out, though it could take all that the pool holds.
test('an answer of unknown length keeps nobody out', async () => {
  const worker = await serve(['--role', 'mixed', '--kv-tokens', '1024', '--max-seq', '1024', '--threads', '1']);
  const long = request(worker.port, 'POST', '/v1/chat/completions', { model: 'demo', messages: [{ role: 'user', content: 'And' }], ignore_eos: true, stream: true });
  try {
    await until('the long one runs', async () => await metric(worker.port, 'baton_engine_running') === 1);
    const { status, json } = await post(worker.port, '/v1/completions', { model: 'demo', prompt: 'In the beginning', max_tokens: 3 });
    assert.deepEqual([status, json.usage.completion_tokens], [200, 3]);
    assert.equal(await metric(worker.port, 'baton_engine_running'), 1, 'the long one still runs');
  } finally {
    await worker.stop();
    await long.catch(() => {});
  }
});
