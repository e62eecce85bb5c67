// What comes to a worker's transfer port without the internal key, or from
// another model: refused by name, counted, and without effect on anybody else.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { build, demo, get, metric, post, route, serve, sleep, until } from './lib/cluster.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'baton-test-'));
const keys = { one: path.join(folder, 'one'), two: path.join(folder, 'two') };
const models = [5, 6].map((seed) => path.join(folder, `model-${seed}.gguf`));
before(() => {
  process.setMaxListeners(40); // one for each child
  for (const [name, file] of Object.entries(keys)) fs.writeFileSync(file, `the key called ${name}\n`);
  for (const [i, file] of models.entries()) {
    execFileSync(path.join(build, 'mkgguf'), [file, '--arch', 'llama', '--type', 'f16', '--dim', '64', '--layers', '2', '--heads', '4', '--kv', '2', '--ffn', '128', '--vocab', '512', '--ctx', '512', '--seed', `${5 + i}`]);
  }
});
after(() => fs.rmSync(folder, { recursive: true }));

// No front end has a key here: what is under test is between the workers.
const worker = (role, key, model) => serve(['--role', role, '--strict-internal-auth', 'false', '--threads', '1', '--served-model-name', 'm', '--max-seq', '512',
  ...(key ? ['--auth-key-file', keys[key]] : [])], { model: model || demo });
const ask = (port, prompt = 'And it came to pass', tokens = 8) => post(port, '/v1/completions', { model: 'm', prompt, max_tokens: tokens, temperature: 0, ignore_eos: true });
const info = async ({ port }) => (await get(port, '/server_info')).json;
const transferPort = async (child) => Number((await info(child)).disaggregated_params.ctx_info_endpoint[0].match(/:(\d+)$/)[1]);
const stop = async (...children) => { for (const child of children) assert.equal(await child.stop(), 0, child.child.errors); };
// Both legs at once: the generation worker is told nothing but whom to ask.
const front = (context, generation) => route([context.port], [generation.port], ['--schedule-style', 'generation_first']);

// The context worker feeds `good`, before and after it was asked by `bad`: only
// requests of that pair fail. [transfer T64]
async function refuses({ context, good, bad, words, counter }) {
  const [right, wrong] = [await front(context, good), await front(context, bad)];
  assert.equal((await ask(right.port)).status, 200);
  const refused = await ask(wrong.port);
  assert.equal(refused.status, 502, refused.text);
  assert.equal((await ask(right.port, 'And then', 4)).status, 200);
  await until('both have said why', () => [context, bad].every(({ child }) => words.test(child.errors)));
  assert.ok(await metric(context.port, counter) + await metric(bad.port, counter) >= 1);
  assert.equal(await metric(bad.port, 'baton_handoff_bytes_total'), 0);
  assert.ok(await metric(good.port, 'baton_handoff_bytes_total') > 0);
  for (const { port } of [context, good, bad]) {
    await until('nothing is held', async () => await metric(port, 'baton_kv_pages_used') === 0 && await metric(port, 'baton_kv_pages_leased') === 0);
  }
  await stop(right, wrong, context, good, bad);
}

const denied = 'baton_transfer_peers_denied_total';
for (const [key, words] of [['two', /internal auth key differs: the sender's is not the receiver's/], [null, /internal auth key differs: the sender has one, the receiver has none/]]) {
  test(`a generation worker with ${key ? 'another' : 'no'} key is fed nothing`, async () => {
    await refuses({ context: await worker('context', 'one'), good: await worker('generation', 'one'), bad: await worker('generation', key), words, counter: denied });
  });
}

test('a context worker without a key feeds nobody who has one', async () => {
  await refuses({ context: await worker('context'), good: await worker('generation'), bad: await worker('generation', 'one'), words: /internal auth key differs: the receiver has one, the sender has none/, counter: denied });
});

test('a generation worker with another model of the same shape is fed nothing', async () => {
  const [context, good, bad] = [await worker('context', 'one', models[0]), await worker('generation', 'one', models[0]), await worker('generation', 'one', models[1])];
  const [ours, same, other] = [await info(context), await info(good), await info(bad)];
  assert.match(ours.model_mark, /^[0-9a-f]{64}$/);
  assert.match(ours.tokenizer_mark, /^[0-9a-f]{64}$/);
  assert.equal(ours.model_mark, same.model_mark);
  assert.notEqual(ours.model_mark, other.model_mark);
  assert.equal(ours.tokenizer_mark, other.tokenizer_mark);
  const words = new RegExp(`model_mark: ${ours.model_mark.slice(0, 16)} at the sender, ${other.model_mark.slice(0, 16)} at the receiver`);
  // A front end sends it nothing.
  const pair = await route([context.port], [good.port, bad.port], ['--schedule-style', 'generation_first']);
  await until('it is named', () => /gets no requests: it serves another model/.test(pair.child.errors));
  for (let i = 0; i < 4; i++) assert.equal((await ask(pair.port, `And then ${i}`, 4)).status, 200);
  assert.equal(await metric(bad.port, 'baton_handoff_bytes_total'), 0);
  assert.ok(await metric(good.port, 'baton_handoff_bytes_total') > 0);
  // One that does not look would: the context worker feeds it nothing.
  const body = { model: 'm', max_tokens: 4, temperature: 0 };
  const leg = await post(context.port, '/v1/completions', { ...body, prompt: 'And it was so', disaggregated_params: { request_type: 'context_only', disagg_request_id: 1099511627781 } });
  assert.equal(leg.status, 200, leg.text);
  const pull = ({ port }) => post(port, '/v1/completions', { ...body, prompt: leg.json.prompt_token_ids, disaggregated_params: { ...leg.json.choices[0].disaggregated_params, request_type: 'generation_only' } });
  const refused = await pull(bad);
  assert.equal(refused.status, 502, refused.text);
  assert.equal((await pull(good)).status, 200);
  await until('both have said why', () => [context, bad].every(({ child }) => words.test(child.errors)));
  assert.equal(await metric(bad.port, 'baton_handoff_bytes_total'), 0);
  assert.ok(await metric(context.port, 'baton_transfer_peers_refused_total') >= 1);
  await stop(pair, context, good, bad);
});

// ---- strangers: bare sockets

// Its end is told; nothing of it ends the test.
function stranger(port, words) {
  const socket = net.connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.gone = new Promise((done) => socket.on('close', done));
  socket.on('connect', () => { if (words) socket.write(words); });
  socket.resume();
  return socket;
}
const random = (() => { let state = 7; return (n) => { state = (state * 1103515245 + 12345) % 2147483648; return state % n; }; })();
const garbage = (size) => Buffer.from(Array.from({ length: size }, () => random(256)));
// The start of a frame, of this version or an older one, that never ends.
const half = (version) => { const bytes = garbage(40); bytes.write('BTN1'); bytes.writeUInt16LE(version, 4); return bytes; };
const long = garbage(70000);
const resident = (pid) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]) * 1024;
const descriptors = (pid) => fs.readdirSync(`/proc/${pid}/fd`).length;

test('a thousand strangers who say nothing, half or nonsense change nothing for others', async () => {
  const [context, generation] = [await worker('context', 'one'), await worker('generation', 'one')];
  const made = await front(context, generation);
  const port = await transferPort(context);
  const words = [null, () => garbage(200), () => half(3), () => half(2), () => 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', () => long];
  const before = { memory: resident(context.pid), files: descriptors(context.pid) };
  // The first hand-off has to greet in the middle of the crowd.
  const crowd = [], statuses = [];
  const asking = (async () => { for (let i = 0; i < 12; i++) statuses.push((await ask(made.port, `Verse ${i}: and`)).status); })();
  for (let i = 0; i < 1000; i++) {
    const say = words[i % words.length];
    crowd.push(stranger(port, say && say()));
    if (i % 20 === 19) await sleep(2);
  }
  const most = descriptors(context.pid);
  await asking;
  assert.deepEqual(statuses, Array(12).fill(200));
  assert.ok(most < before.files + 400, `${before.files} files, then ${most}`);
  await Promise.all(crowd.map((socket) => socket.gone));
  await until('their files are closed', () => descriptors(context.pid) < before.files + 20);
  assert.ok(resident(context.pid) < before.memory + (64 << 20));
  assert.ok(await metric(context.port, 'baton_transfer_strangers_cut_total') > 500);
  assert.ok(await metric(context.port, 'baton_transfer_peers_refused_total') > 0, 'the older version is refused by name');
  assert.equal(await metric(context.port, denied), 0);
  const told = context.child.errors.split('\n').filter((line) => /stranger|refused/.test(line));
  assert.match(told.join('\n'), /version 2, this side speaks 3/);
  assert.ok(told.length < 100, `${told.length} lines`);
  assert.equal((await ask(made.port, 'And after all')).status, 200);
  await stop(made, context, generation);
});

test('who connects and falls silent is gone after its two seconds', async () => {
  const context = await worker('context', 'one');
  const port = await transferPort(context);
  const silent = Array.from({ length: 5 }, () => stranger(port));
  await Promise.all(silent.map((socket) => socket.gone));
  assert.equal(await metric(context.port, 'baton_transfer_strangers_cut_total'), 5);
  assert.match(context.child.errors, /did not say in time who it is/);
  await stop(context);
});
