// The official client against a whole cluster: context worker, generation
// worker, front end.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import OpenAI from 'openai';
import { argsOf, baton, children, demo, get, metric, post, scratch, serve, sleep, until, up } from './lib/cluster.mjs';

let cluster;
let client;
const model = 'demo';
before(async () => {
  cluster = await up(['--max-batch', '16']);
  client = new OpenAI({ baseURL: `${cluster.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(() => cluster?.stop());

const busyPages = async () => {
  let sum = 0;
  for (const worker of cluster.workers) {
    sum += await metric(worker.port, 'baton_kv_pages_used') + await metric(worker.port, 'baton_kv_pages_leased');
  }
  return sum;
};

test('a completion crosses from context to generation over UCX', async () => {
  const answer = await client.completions.create({ model, prompt: 'In the beginning', max_tokens: 12, temperature: 0 });
  assert.equal(answer.object, 'text_completion');
  assert.equal(answer.choices.length, 1);
  assert.equal(answer.choices[0].finish_reason, 'length');
  assert.ok(answer.choices[0].text.length > 0);
  assert.equal(answer.usage.completion_tokens, 12);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 12);
  const transfers = (await get(cluster.worker('generation-0').port, '/transfers')).json.transfers;
  assert.ok(transfers.length > 0);
  assert.equal(transfers.at(-1).backend, 'auto');
  // The sender tells the same bytes, once they have gone.
  const { disagg_request_id: id, bytes, lane } = transfers[0];
  const sent = async () => (await get(cluster.worker('context-0').port, '/transfers')).json.transfers.find((transfer) => transfer.disagg_request_id === id);
  await until('the sender has seen the end', async () => (await sent()).result === 'ok');
  assert.ok(bytes > 0);
  assert.deepEqual([(await sent()).bytes, (await sent()).lane], [bytes, lane]);
});

test('no client-visible body holds internal fields', async () => {
  const { text } = await post(cluster.port, '/v1/completions', { model, prompt: 'And God said', max_tokens: 4 });
  for (const word of ['disaggregated_params', 'prompt_token_ids', 'encoded_opaque_state', 'first_gen_tokens']) {
    assert.ok(!text.includes(word), word);
  }
});

test('chat answers and streams the same text', async () => {
  const messages = [{ role: 'user', content: 'Who made the heaven and the earth?' }];
  const whole = await client.chat.completions.create({ model, messages, max_tokens: 16, temperature: 0 });
  assert.equal(whole.choices[0].message.role, 'assistant');
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 16, temperature: 0, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let usage;
  let finish;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(usage.prompt_tokens, whole.usage.prompt_tokens);
});

test('usage counts the prompt once and says what was cached', async () => {
  const prompt = `${'And it came to pass in those days that '.repeat(12)}he went up`;
  const first = await client.completions.create({ model, prompt, max_tokens: 4, temperature: 0 });
  const second = await client.completions.create({ model, prompt, max_tokens: 4, temperature: 0 });
  assert.equal(first.usage.prompt_tokens, second.usage.prompt_tokens);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens >= 32);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens);
  assert.equal(first.choices[0].text, second.choices[0].text);
});

test('a stop string ends the text before it, wherever the pieces fall', async () => {
  const free = await client.completions.create({ model, prompt: 'In the beginning', max_tokens: 40, temperature: 0 });
  const text = free.choices[0].text;
  const stop = text.slice(20, 24);
  const at = text.indexOf(stop);
  const cut = await client.completions.create({ model, prompt: 'In the beginning', max_tokens: 40, temperature: 0, stop: [stop] });
  assert.equal(cut.choices[0].text, text.slice(0, at));
  assert.equal(cut.choices[0].finish_reason, 'stop');
});

test('n choices share one prefill and differ by seed and index only', async () => {
  const ask = () => client.completions.create({ model, prompt: 'The lord', n: 3, max_tokens: 10, temperature: 1, seed: 7 });
  const [a, b] = [await ask(), await ask()];
  assert.equal(a.choices.length, 3);
  assert.deepEqual(a.choices.map((c) => c.text), b.choices.map((c) => c.text));
  assert.ok(new Set(a.choices.map((c) => c.text)).size > 1);
  assert.equal(a.usage.completion_tokens, 30);
});

test('logprobs are sums of one distribution', async () => {
  const answer = await client.completions.create({ model, prompt: 'In the beginning', max_tokens: 5, temperature: 0, logprobs: 4 });
  const logprobs = answer.choices[0].logprobs;
  assert.equal(logprobs.tokens.length, 5);
  for (let i = 0; i < 5; i++) {
    const top = Object.values(logprobs.top_logprobs[i]);
    assert.ok(Math.abs(Math.max(...top) - logprobs.token_logprobs[i]) < 1e-4);
    assert.ok(top.reduce((s, l) => s + Math.exp(l), 0) <= 1.0001);
  }
  const chat = await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Speak' }], max_tokens: 3, logprobs: true, top_logprobs: 2, temperature: 0 });
  assert.equal(chat.choices[0].logprobs.content.length, 3);
  assert.equal(chat.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

// [serve T37]
test('the first token appears exactly once', async () => {
  const long = await client.completions.create({ model, prompt: 'And the king', max_tokens: 8, temperature: 0 });
  for (const max of [1, 2]) {
    const short = await client.completions.create({ model, prompt: 'And the king', max_tokens: max, temperature: 0 });
    assert.equal(short.usage.completion_tokens, max);
    assert.ok(long.choices[0].text.startsWith(short.choices[0].text));
  }
});

test('errors carry status, type and the field', async () => {
  await assert.rejects(client.completions.create({ model: 'nobody', prompt: 'x' }), (e) => e.status === 404 && e.code === 'model_not_found');
  await assert.rejects(client.completions.create({ model, prompt: 'x', temperature: -1 }), (e) => e.status === 400 && /temperature/.test(e.message));
  await assert.rejects(client.completions.create({ model, prompt: 'x', unheard_of: 1 }), (e) => e.status === 400 && /unheard_of/.test(e.message));
  await assert.rejects(client.completions.create({ model, prompt: 'word '.repeat(3000) }), (e) => e.status === 400 && /token/.test(e.message));
  const fine = await client.completions.create({ model, prompt: 'x', max_tokens: 1 });
  assert.equal(fine.choices.length, 1);
});

// [serve T89]
test('an abort in mid-stream frees both sides', async () => {
  const abort = new AbortController();
  const stream = await client.completions.create({ model, prompt: 'In the beginning', max_tokens: 900, stream: true, ignore_eos: true }, { signal: abort.signal });
  let seen = 0;
  await assert.rejects(async () => {
    for await (const _ of stream) {
      if (++seen === 3) abort.abort();
    }
    throw new Error('aborted');
  });
  await until('both sides free', async () => (await busyPages()) === 0, 3000);
});

test('an abort in the middle of a long prefill frees both sides', async () => {
  const prompt = 'and the word of the king was in the land of his people '.repeat(60).slice(0, 3000);
  const abort = new AbortController();
  const pending = client.completions.create({ model, prompt, max_tokens: 4 }, { signal: abort.signal });
  await sleep(5);
  abort.abort();
  await assert.rejects(pending);
  await until('both sides free', async () => (await busyPages()) === 0, 3000);
});

test('many at once all end well', async () => {
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => client.completions.create({ model, prompt: `Chapter ${i}: and he said unto`, max_tokens: 8, temperature: 0 })));
  assert.ok(answers.every((a) => a.usage.completion_tokens === 8 || a.choices[0].finish_reason === 'stop'));
  await until('idle', async () => (await busyPages()) === 0, 3000);
});

test('one model can be asked for, another one is a 404', async () => {
  assert.equal((await client.models.retrieve(model)).id, model);
  const worker = await get(cluster.worker('context-0').port, `/v1/models/${model}`);
  assert.deepEqual([worker.status, worker.json.object, worker.json.id], [200, 'model', model]);
  await assert.rejects(client.models.retrieve('org/nobody'), (e) => e.status === 404 && e.code === 'model_not_found' && /org\/nobody/.test(e.message));
});

// What people type: curl says that a body is a form unless it is told better.
test('curl -d without a header is served, a page in a browser is not', () => {
  const body = JSON.stringify({ model, prompt: 'And God said', max_tokens: 2 });
  const curl = (...args) => JSON.parse(execFileSync('curl', ['-s', `${cluster.url}/v1/completions`, '-d', body, ...args], { encoding: 'utf8' }));
  assert.equal(curl().choices.length, 1);
  assert.equal(curl('-H', 'Content-Type:').choices.length, 1);
  assert.match(curl('-H', 'Origin: http://evil.example').error.message, /^Content-Type: /);
  assert.match(curl('-H', 'Content-Type: text/plain').error.message, /^Content-Type: /);
});

test('a client may ask for less time', async () => {
  const { status, json } = await post(cluster.port, '/v1/completions', { model, prompt: 'word '.repeat(900), max_tokens: 100, ignore_eos: true }, { headers: { 'x-baton-deadline-ms': '1' } });
  assert.equal(status, 504, JSON.stringify(json));
});

// What the first client would wait for has been done before anybody is told of
// the cluster: KV has gone to each generation worker, also behind an API key.
test('a fresh cluster has worked before its first client', async () => {
  const fresh = await up(['--generation', '2', '--api-key', 'k']);
  try {
    for (const name of ['generation-0', 'generation-1']) {
      assert.ok(await metric(fresh.worker(name).port, 'baton_handoff_bytes_total') > 0, name);
    }
    for (const worker of fresh.workers) {
      await until('no page is leased', async () => await metric(worker.port, 'baton_kv_pages_leased') === 0);
      assert.equal(await metric(worker.port, 'baton_request_failures_total'), 0);
    }
  } finally {
    await fresh.stop();
  }
});

// The line of every process of `up` can be read by every user of the host.
test('a key from a file guards the cluster and is in no command line', async () => {
  const folder = scratch();
  const file = path.join(folder, 'key');
  fs.writeFileSync(file, 'a hushed key\n', { mode: 0o604 });
  const guarded = await up(['--api-key-file', file]);
  try {
    assert.equal((await get(guarded.port, '/v1/models')).status, 401);
    const headers = { authorization: 'Bearer a hushed key' };
    assert.equal((await get(guarded.port, '/v1/models', { headers })).status, 200);
    for (const pid of [guarded.child.pid, ...children(guarded.child.pid)]) {
      assert.ok(argsOf(pid).length > 0);
      assert.ok(!argsOf(pid).join(' ').includes('hushed'), argsOf(pid).join(' '));
    }
    assert.match(guarded.child.errors, /--api-key-file .* other users of this host/);
  } finally {
    await guarded.stop();
    fs.rmSync(folder, { recursive: true });
  }
});

test('inspect reads the config of a front end and prints its limits', () => {
  const folder = scratch();
  const file = path.join(folder, 'route.yaml');
  fs.writeFileSync(file, 'max_inflight: 33\napi_key: hush\ncontext_servers: {urls: ["a:1", "b:2"]}\ngeneration_servers: {urls: ["c:3"]}\n');
  const text = execFileSync(baton, ['inspect', '--config', file], { encoding: 'utf8' });
  fs.rmSync(folder, { recursive: true });
  assert.match(text, /^open requests +33 at most$/m);
  assert.match(text, /^servers +2 context, 1 generation/m);
  assert.match(text, /^context_servers = \[a:1, b:2\]/m);
  assert.match(text, /^api_key = \(set\)/m);
  assert.match(execFileSync(baton, ['inspect'], { encoding: 'utf8' }), /^logit_bias +1024 members at most$/m);
});

// Proof: what ends a start before the model is read is said with the same words
// and status; what a running worker holds of its own is a warning.
test('inspect of a worker config finds what serve would', async () => {
  const folder = scratch();
  const file = path.join(folder, 'worker.yaml');
  const run = (command, yaml) => {
    fs.writeFileSync(file, `model: ${demo}\n${yaml}\n`);
    return spawnSync(baton, [command, '--config', file], { encoding: 'utf8' });
  };
  const worker = await serve(['--strict-internal-auth', 'false', '--threads', '1']);
  try {
    for (const [yaml, words] of [[`auth_key_file: ${folder}/none`, 'auth_key_file: '], ['port: 8000\ntransfer_port: 8000', '`port` and `transfer_port` must differ'],
      ['cache_transceiver_config: {allowed_peer_hosts: "10.0.0.0/99"}', 'allowed_peer_hosts']]) {
      const [inspected, served] = [run('inspect', yaml), run('serve', yaml)];
      assert.equal(inspected.status, 3, inspected.stderr);
      assert.equal(served.status, 3);
      assert.ok(inspected.stderr.includes(words), inspected.stderr);
      assert.equal(inspected.stderr.replace(/^baton inspect/, ''), served.stderr.replace(/^baton serve/, ''));
    }
    const open = run('inspect', `port: ${worker.port}`);
    assert.equal(open.status, 0, open.stderr);
    assert.match(open.stderr, /no --auth-key-file: every hand-off will be refused/);
    assert.ok(open.stderr.includes(`not to be had now: \`port\`: port ${worker.port} is in use`), open.stderr);
    const good = run('inspect', 'strict_internal_auth: false');
    assert.equal(good.status, 0);
    assert.equal(good.stderr, '');
  } finally {
    await worker.stop();
    fs.rmSync(folder, { recursive: true });
  }
});

test('inspect FILE says what a model holds, and whether it is served or why not', () => {
  const folder = scratch();
  const inspect = (file) => spawnSync(baton, ['inspect', file], { encoding: 'utf8' });
  try {
    const good = inspect(demo);
    assert.equal(good.status, 0);
    assert.match(good.stdout, /^architecture +llama$/m);
    assert.match(good.stdout, /^layers +5 of 192 values, feed-forward 512$/m);
    assert.match(good.stdout, /^tokenizer +gpt2, splits as gpt-2, 2048 tokens$/m);
    assert.match(good.stdout, /^chat template +yes$/m);
    assert.match(good.stdout, /^tensors +47, 2\.4 MiB: 11 F32 36 Q8_0$/m);
    assert.match(good.stdout, /^served by baton +yes$/m);
    // Of an architecture that nobody here computes: told all the same.
    const other = path.join(folder, 'other.gguf');
    fs.writeFileSync(other, Buffer.from(fs.readFileSync(demo).toString('latin1').replace(/(general\.architecture[^]{12})llama/, '$1mamba'), 'latin1'));
    const refused = inspect(other);
    assert.equal(refused.status, 3);
    assert.match(refused.stdout, /^architecture +mamba$/m);
    assert.match(refused.stdout, /^tensors +47/m);
    assert.match(refused.stdout, /^served by baton +no: .*"mamba" is not supported/m);
    assert.match(refused.stderr, /"mamba" is not supported/);
    const cut = path.join(folder, 'cut.gguf');
    fs.writeFileSync(cut, fs.readFileSync(demo).subarray(0, 100000));
    assert.equal(inspect(cut).status, 3);
    assert.match(inspect(cut).stderr, /leave the file/);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test('models, health, version and metrics answer', async () => {
  const models = await client.models.list();
  assert.ok(models.data.some((m) => m.id === model));
  assert.equal((await get(cluster.port, '/health')).status, 200);
  assert.match((await get(cluster.port, '/version')).json.version, /^\d+\./);
  assert.ok((await get(cluster.port, '/metrics')).text.includes('# TYPE'));
  assert.equal((await get(cluster.port, '/nowhere')).status, 404);
  assert.equal((await get(cluster.port, '/v1/completions')).status, 405);
});
