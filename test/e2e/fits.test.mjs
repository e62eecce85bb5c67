// Workers of one front end that were not started alike: no request's fate
// hangs on whose turn it is.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { get, post, route, scratch, serve, until } from './lib/cluster.mjs';

const OPEN = ['--strict-internal-auth', 'false', '--threads', '1', '--kv-tokens', '1024'];
const start = (role, ...args) => serve(['--role', role, ...OPEN, ...args]);
const complete = (front, body) => post(front.port, '/v1/completions', { model: 'demo', prompt: 'In the beginning', max_tokens: 4, temperature: 0, ...body });
const statuses = async (front, count, body) => (await Promise.all(Array.from({ length: count }, () => complete(front, body)))).map((answer) => answer.status);

// Proof: of two generation workers one answers to another name only. Asked in
// turn, it would refuse every second request; as a misfit it is asked for none.
for (const [what, args, key] of [['name', ['--served-model-name', 'other'], 'served_model_names ["other"]'], ['chat form', ['--chat-template', 'llama3'], 'chat_template "llama3"'], ['transfer backend', ['--backend', 'tcp'], 'transfer_backend "tcp"']]) {
  test(`a worker of another ${what} gets no requests and is named`, async () => {
    const workers = await Promise.all([start('context'), start('generation'), start('generation', ...args)]);
    const [context, generation, other] = workers;
    const front = await route([context.port], [generation.port, other.port]);
    try {
      const misfits = async () => (await get(front.port, '/cluster_info')).json.servers.filter((server) => server.state === 'misfit');
      await until('it is found', async () => (await misfits()).length === 1);
      assert.equal((await misfits())[0].address, `127.0.0.1:${other.port}`);
      assert.ok((await misfits())[0].misfit.includes(key), (await misfits())[0].misfit);
      assert.ok(front.child.errors.includes(`worker 127.0.0.1:${other.port} gets no requests`));
      assert.deepEqual(await statuses(front, 6, {}), Array(6).fill(200));
      assert.match((await get(other.port, '/metrics')).text, /baton_requests_total\{route="completions"\} 0/);
    } finally {
      await Promise.all([front, ...workers].map((part) => part.stop()));
    }
  });
}

// Proof: a worker comes back within a probe's interval and serves under another
// name, then under the right one again: it is a misfit, then it is not, and no
// request hears of either, also those that it was asked at once.
test('a worker that comes back as another one is known at once', async () => {
  const [context, generation, first] = await Promise.all([start('context'), start('generation'), start('generation')]);
  const port = String(first.port);
  const front = await route([context.port], [generation.port, first.port]);
  let other = first;
  const stateOf = async () => (await get(front.port, '/cluster_info')).json.servers.find(({ address }) => address.endsWith(`:${port}`)).state;
  try {
    await until('all are known', async () => await stateOf() === 'ready');
    for (let i = 0; i < 6; i++) {
      other.child.process.kill('SIGKILL');
      await other.child.exit;
      other = await start('generation', '--port', port, ...(i % 2 === 0 ? ['--served-model-name', 'other'] : []));
      assert.deepEqual(await statuses(front, 6, {}), Array(6).fill(200));
      await until(`it is ${i % 2 === 0 ? 'a misfit' : 'ready'}`, async () => await stateOf() === (i % 2 === 0 ? 'misfit' : 'ready'), 5000);
      assert.deepEqual(await statuses(front, 6, {}), Array(6).fill(200));
    }
  } finally {
    await Promise.all([front, context, generation, other].map((part) => part.stop()));
  }
});

// Proof: strict workers without a key would refuse every hand-off; they say so,
// and requests are served whole. Where only the front end has none, its log says that.
test('workers without a key are asked whole', async () => {
  const workers = await Promise.all(['context', 'generation'].map((role) => serve(['--role', role, '--threads', '1', '--kv-tokens', '1024'])));
  const front = await route([workers[0].port], [workers[1].port]);
  try {
    assert.equal((await get(workers[0].port, '/server_info')).json.hand_off, false);
    assert.deepEqual(await statuses(front, 4, {}), Array(4).fill(200));
    assert.match(front.child.errors, /takes part in no hand-off/);
    assert.doesNotMatch(front.child.errors, /refused a hand-off/);
  } finally {
    await Promise.all([front, ...workers].map((part) => part.stop()));
  }
});

// Proof: the front end's log says of the keys what is so, and not once a request.
test('a front end says whose key is missing or another', async () => {
  const folder = scratch();
  const key = path.join(folder, 'key');
  fs.writeFileSync(key, 'the key\n', { mode: 0o600 });
  const workers = await Promise.all(['context', 'generation'].map((role) => serve(['--role', role, '--threads', '1', '--kv-tokens', '1024', '--auth-key-file', key])));
  for (const [line, said, unsaid] of [['', /x-baton-disagg-auth: is required; there is no internal_request_auth_key here/, /the same key/],
    ['internal_request_auth_key: other', /x-baton-disagg-auth: does not match; internal_request_auth_key here and its --auth-key-file do not hold the same key/, /there is no/]]) {
    const front = await route([workers[0].port], [workers[1].port], [], { yaml: line });
    try {
      assert.deepEqual(await statuses(front, 30, {}), Array(30).fill(502));
      assert.match(front.child.errors, said);
      assert.equal(front.child.errors.match(/refused a hand-off/g).length, 10);
      assert.doesNotMatch(front.child.errors, unsaid);
    } finally {
      await front.stop();
    }
  }
  await Promise.all(workers.map((worker) => worker.stop()));
});

// Proof: a file that holds a key and that others may read is warned of.
test('a config of a front end that holds a key is as private as one', async () => {
  const worker = await start('mixed');
  for (const [yaml, mode, isWarned] of [['internal_request_auth_key: a', 0o644, true], ['api_key: a', 0o640, true], ['internal_request_auth_key: a', 0o600, false], ['', 0o644, false]]) {
    const front = await route([worker.port], [worker.port], [], { yaml, mode });
    await front.stop();
    assert.equal(/--config \S+route\.yaml: other users of this host can get at it; chmod 600/.test(front.child.errors), isWarned, `${yaml} ${mode}`);
  }
  await worker.stop();
});

// Proof: without a front end that would keep them apart, a pair whose backends
// differ, a pair that can talk, and an end: each says in /server_info how it
// stands with the other, and why KV does not move.
test('a worker says with whom its KV moves, by what, and why not', async () => {
  const [context, generation, tcp] = await Promise.all([start('context', '--drain-timeout-ms', '500'), start('generation'), start('generation', '--backend', 'tcp')]);
  const prompt = 'In the beginning God created the heaven and the earth. And the earth was without form, and void';
  let rid = 1099511627800;
  const handOff = async (to) => {
    const params = { request_type: 'context_only', disagg_request_id: ++rid };
    const leg = (await complete(context, { prompt, disaggregated_params: params })).json;
    return (await complete(to, { prompt: leg.prompt_token_ids, disaggregated_params: { ...leg.choices[0].disaggregated_params, request_type: 'generation_only' } })).status;
  };
  const peersOf = async (worker) => (await get(worker.port, '/server_info')).json.peers.map(({ kv, state, lane, reason }) => [kv, state, lane ?? reason]);
  try {
    assert.deepEqual(await peersOf(context), []);
    assert.equal(await handOff(generation), 200);
    assert.equal(await handOff(tcp), 502);
    const reason = "backend: 'auto' at the sender, 'tcp' at the receiver";
    const lane = (await peersOf(generation))[0][2];
    assert.ok(['sysv', 'posix', 'tcp'].includes(lane), lane);
    assert.deepEqual(await peersOf(generation), [['from', 'connected', lane]]);
    assert.deepEqual(await peersOf(tcp), [['from', 'refused', reason]]);
    assert.deepEqual((await peersOf(context)).sort(), [['to', 'connected', lane], ['to', 'refused', reason]]);
    await generation.stop();
    await until('the end is told', async () => (await peersOf(context)).some(([, state]) => state === 'ended'));
  } finally {
    await Promise.all([context, generation, tcp].map((part) => part.stop()));
  }
});

// Proof: one worker of each role takes 64 tokens at most. What fits into that
// passes in whatever pair it lands, what does not is refused in each with the
// same limit, and the answer ends at it everywhere.
test('the smallest limit holds for all', async () => {
  const workers = await Promise.all([start('context'), start('context', '--max-seq', '64'), start('generation'), start('generation', '--max-seq', '64')]);
  const [context, small, generation, smaller] = workers;
  const front = await route([context.port, small.port], [generation.port, smaller.port]);
  try {
    await until('all are known', async () => (await get(front.port, '/cluster_info')).json.servers.every((server) => server.state === 'ready'));
    assert.equal((await get(front.port, '/cluster_info')).json.max_seq_len, 64);
    assert.match(front.child.errors, /takes 64 tokens at most \(max_seq_len\)/);
    const long = Array(100).fill(5);
    for (let i = 0; i < 5; i++) {
      const [refused, ended, models] = await Promise.all([
        complete(front, { prompt: long }),
        complete(front, { prompt: long.slice(0, 50), max_tokens: 500, ignore_eos: true }),
        get(front.port, '/v1/models')]);
      assert.equal(refused.status, 400);
      assert.match(refused.json.error.message, /has 100 tokens; prompt and answer together are at most 64/);
      assert.deepEqual([ended.status, ended.json.usage?.completion_tokens], [200, 14]);
      assert.equal(models.json.data[0].max_model_len, 64);
    }
  } finally {
    await Promise.all([front, ...workers].map((part) => part.stop()));
  }
});
