// Two workers and no front end: both legs of a request at once, generation first.
// KV leaves the context worker chunk by chunk, first tokens come with it, and the
// answer is that of one process.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { signAbort, signLeg } from './badinput/wire.mjs';
import { build, get, metric, post, scratch, serve, until } from './lib/cluster.mjs';

const folder = scratch();
const key = path.join(folder, 'key');
const windowed = path.join(folder, 'windowed.gguf');
before(() => {
  fs.writeFileSync(key, 'secret of this test', { mode: 0o600 });
  execFileSync(path.join(build, 'mkgguf'), ['--arch', 'gemma3', '--dim', '64', '--layers', '6', '--heads', '4', '--kv', '2', '--headdim', '16',
    '--ffn', '128', '--vocab', '400', '--ctx', '1024', '--window', '64', '--pattern', '3', '--type', 'f16', '--scale', '4', windowed]);
});
after(() => fs.rmSync(folder, { recursive: true }));

const secret = () => fs.readFileSync(key, 'utf8').trim();
let rid = 1099511627776 + Date.now() % 1000000;

async function pair(args = [], options = {}) {
  const worker = (role) => serve(['--role', role, '--auth-key-file', key, ...args], options);
  const [context, generation] = await Promise.all([worker('context'), worker('generation')]);
  const info = (await get(context.port, '/server_info')).json;
  return { context, generation, model: info.model, endpoint: info.disaggregated_params.ctx_info_endpoint[0] };
}

const signed = (header) => ({ headers: { 'x-baton-disagg-auth': header } });
const leg = (port, model, body, params) => post(port, '/v1/completions', { model, ...body, disaggregated_params: params }, signed(signLeg(secret(), params)));
const legs = (pair, id, body) => ({
  context: () => leg(pair.context.port, pair.model, { ...body, stream: false }, { request_type: 'context_only', disagg_request_id: id, schedule_style: 1 }),
  generation: () => leg(pair.generation.port, pair.model, body, { request_type: 'generation_only', ctx_request_id: id, disagg_request_id: id, schedule_style: 1, ctx_info_endpoint: [pair.endpoint] }),
});

// Both legs; the generation leg's answer is the client's.
async function ask(pair, body, contextFirst = false) {
  const both = legs(pair, ++rid, body);
  const order = contextFirst ? ['context', 'generation'] : ['generation', 'context'];
  const answers = {};
  await Promise.all(order.map(async (name) => { answers[name] = await both[name](); }));
  assert.equal(answers.context.status, 200, answers.context.text);
  assert.equal(answers.generation.status, 200, answers.generation.text);
  return answers.generation;
}

const idle = async (pair) => {
  for (const worker of [pair.context, pair.generation]) await until('no page is used', async () => await metric(worker.port, 'baton_kv_pages_used') === 0);
};
const stop = async (pair) => {
  assert.equal(await pair.generation.stop(), 0);
  assert.equal(await pair.context.stop(), 0);
};
const ids = (kind, count) => Array.from({ length: count }, (_, i) => 5 + (kind * 53 + i * 7 + i * i * (1 + kind % 3)) % 380);

for (const [name, options] of [['full attention', {}], ['windows', { model: windowed }]]) {
  test(`answers are those of one process: ${name}`, async () => {
    const two = await pair(['--chunk-tokens', '64'], options);
    const prompts = Array.from({ length: 8 }, (_, i) => [...ids(i % 3, 90), ...ids(10 + i, 11 + 31 * i)]);
    const body = (prompt, more = {}) => ({ prompt, max_tokens: 24, temperature: 0, ignore_eos: true, logprobs: 2, ...more });
    const handed = await Promise.all(prompts.map((prompt, i) => ask(two, body(prompt), i % 2 === 1)));
    for (let i = 0; i < prompts.length; i++) {
      const whole = (await post(two.generation.port, '/v1/completions', { model: two.model, ...body(prompts[i]) })).json;
      assert.equal(handed[i].json.choices[0].text, whole.choices[0].text, `prompt ${i}`);
      assert.deepEqual(handed[i].json.choices[0].logprobs, whole.choices[0].logprobs, `prompt ${i}`);
      assert.equal(handed[i].json.usage.completion_tokens, 24);
    }
    const choices = (await ask(two, body(prompts[3], { n: 3 }))).json.choices;
    assert.deepEqual(new Set(choices.map((c) => c.text)), new Set([handed[3].json.choices[0].text]));
    const stream = await ask(two, body(prompts[4], { stream: true, logprobs: undefined }));
    const text = stream.text.split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)).choices[0]?.text ?? '').join('');
    assert.equal(text, handed[4].json.choices[0].text);
    assert.ok(await metric(two.generation.port, 'baton_handoff_bytes_total') > 0);
    assert.equal(await metric(two.generation.port, 'baton_engine_prefill_tokens_total') > 0, true, 'of the whole requests alone');
    await idle(two);
    await stop(two);
  });
}

test('one token is an answer', async () => {
  const two = await pair();
  const body = { prompt: ids(1, 70), max_tokens: 1, temperature: 0, ignore_eos: true };
  const whole = (await post(two.context.port, '/v1/completions', { model: two.model, ...body })).json;
  const { json } = await ask(two, body);
  assert.equal(json.choices[0].text, whole.choices[0].text);
  assert.equal(json.choices[0].finish_reason, 'length');
  assert.equal(json.usage.completion_tokens, 1);
  await idle(two);
  await stop(two);
});

test('an abort on either side ends both, and nothing is held', async () => {
  const two = await pair();
  for (const side of ['context', 'generation']) {
    const id = ++rid;
    const both = legs(two, id, { prompt: ids(2, 40), max_tokens: 8 });
    // One leg alone waits for the other, which never comes.
    const waiting = both[side]();
    await until('the leg is there', async () => (await post(two[side].port, '/v1/disagg/abort', { disagg_request_id: id }, signed(signAbort(secret(), id)))).status === 200);
    assert.notEqual((await waiting).status, 200);
  }
  await idle(two);
  await stop(two);
});
