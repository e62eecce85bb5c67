// A context and a generation worker whose KV blocks hold different numbers of
// tokens, behind a front end: answers are those of one process, whichever block
// is larger, over shared memory and over TCP, in both schedule styles, for a model
// that sees all and for one with windows.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { build, get, metric, post, route, scratch, serve, until } from './lib/cluster.mjs';
import { generateAll, prompts, runAll } from './lib/prompts.mjs';

const folder = scratch();
const windowed = path.join(folder, 'windowed.gguf');
before(() => execFileSync(path.join(build, 'mkgguf'), ['--arch', 'gemma3', '--dim', '64', '--layers', '6', '--heads', '4', '--kv', '2', '--headdim', '16',
  '--ffn', '128', '--vocab', '2048', '--ctx', '1024', '--window', '70', '--pattern', '3', '--type', 'f16', '--scale', '4', windowed]));
after(() => fs.rmSync(folder, { recursive: true }));

const OPTIONS = ['--strict-internal-auth', 'false', '--threads', '1', '--served-model-name', 'm', '--max-seq', '1024', '--chunk-tokens', '64'];

async function cluster({ context, generation, backend, style, model }) {
  const worker = (role, tokens) => serve(['--role', role, '--tokens-per-block', `${tokens}`, '--backend', backend, ...OPTIONS], { model });
  const made = { context: await worker('context', context), generation: await worker('generation', generation) };
  made.front = await route([made.context.port], [made.generation.port], ['--schedule-style', style]);
  made.workers = [made.context, made.generation];
  made.stop = async () => {
    for (const child of [made.front, made.generation, made.context]) assert.equal(await child.stop(), 0);
  };
  return made;
}

// What one process says, once for a model.
const list = prompts(24, 2048, 700, 21);
const expected = new Map();
function expectedOf(model) {
  if (!expected.has(model)) expected.set(model, generateAll(model, list, 8));
  return expected.get(model);
}

async function assertHandedOver(made, style) {
  assert.equal(await metric(made.front.port, 'baton_front_generation_first_fallbacks_total'), 0);
  assert.equal(await metric(made.front.port, 'baton_front_full_restarts_total'), 0);
  const { text } = await get(made.front.port, '/metrics');
  assert.match(text, new RegExp(`^baton_front_handoffs_total\\{style="${style}"\\} ${list.length}$`, 'm'));
  assert.ok(await metric(made.generation.port, 'baton_handoff_bytes_total') > 0);
  assert.equal(await metric(made.generation.port, 'baton_engine_prefill_tokens_total'), 0, 'nothing was computed twice');
  for (const { port } of made.workers) {
    await until('nothing is held', async () => await metric(port, 'baton_kv_pages_used') === 0 && await metric(port, 'baton_kv_pages_leased') === 0);
  }
}

const cases = [];
for (const [context, generation] of [[16, 32], [32, 16]]) {
  for (const backend of ['ucx', 'tcp']) {
    for (const style of ['context_first', 'generation_first']) cases.push({ context, generation, backend, style });
  }
}
cases.push({ context: 8, generation: 64, backend: 'ucx', style: 'generation_first', isWindowed: true });
cases.push({ context: 64, generation: 8, backend: 'tcp', style: 'generation_first', isWindowed: true });
cases.push({ context: 16, generation: 32, backend: 'ucx', style: 'context_first', isWindowed: true });

// [transfer T39 T40 T41 T42 T44 T51]
for (const { isWindowed, ...options } of cases) {
  const { context, generation, backend, style } = options;
  test(`${context} tokens a block to ${generation}, ${backend}, ${style}${isWindowed ? ', windows' : ''}`, async () => {
    const model = isWindowed ? windowed : undefined;
    const made = await cluster({ ...options, model });
    try {
      assert.deepEqual(await runAll(made.front.port, list, 6, 8), expectedOf(model));
      await assertHandedOver(made, style);
    } finally {
      await made.stop();
    }
  });
}

test('conversations find their beginnings in blocks of either size', async () => {
  const made = await cluster({ context: 16, generation: 32, backend: 'ucx', style: 'generation_first' });
  try {
    const ask = async (port, prompt) => {
      const { status, json, text } = await post(port, '/v1/completions', { model: 'm', prompt, max_tokens: 12, temperature: 0, detokenize: false, ignore_eos: true });
      assert.equal(status, 200, text);
      return json;
    };
    let talk = list[1].slice(0, 333);
    for (let turn = 0; turn < 4; turn++) {
      const moved = await metric(made.generation.port, 'baton_handoff_bytes_total');
      const { choices, usage } = await ask(made.front.port, talk);
      const bytes = await metric(made.generation.port, 'baton_handoff_bytes_total') - moved;
      assert.deepEqual(choices[0].token_ids, generateAll(undefined, [talk], 12)[0], `turn ${turn}`);
      if (turn > 0) {
        assert.ok(usage.prompt_tokens_details.cached_tokens > 300, 'the context worker knows the beginning');
        assert.ok(bytes < made.first / 3, `the generation worker knows it too: ${bytes} of ${made.first}`);
      } else {
        made.first = bytes;
      }
      talk = [...talk, ...choices[0].token_ids, ...list[3].slice(0, 7 + turn)];
    }
  } finally {
    await made.stop();
  }
});
