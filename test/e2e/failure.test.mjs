// Workers die with kill -9 under load: every client gets an answer or an error
// soon, nothing hangs, and the restarted worker is used again.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { alive, argsOf, children, demo, get, leftovers, metric, post, request, scratch, sleep, until, up } from './lib/cluster.mjs';

const workerPid = (cluster, name) => children(cluster.child.pid).find((pid) => {
  const args = argsOf(pid);
  return args[args.indexOf('--name') + 1] === name;
});

// A killed process gives its memory back a moment after it is seen dead.
const nothingMore = async (before) => {
  const more = () => leftovers().filter((name) => !before.includes(name));
  await until('nothing more is left', () => more().length === 0, 5000).catch(() => assert.deepEqual(more(), []));
};

async function load(port, stopAt, results) {
  let i = 0;
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (Date.now() < stopAt()) {
      const started = Date.now();
      try {
        const { status } = await post(port, '/v1/completions', { model: 'demo', prompt: `Verse ${i++}: and it came to pass that the king`, max_tokens: 24, temperature: 0, ignore_eos: true });
        results.push({ started, ended: Date.now(), status });
      } catch (error) {
        results.push({ started, ended: Date.now(), status: 0, error: String(error) });
      }
      if (results.at(-1).status !== 200) await sleep(20);
    }
  }));
}

// On a free port too: its clients know the one it had.
test('kill -9 of the front end: it comes back on its port', async () => {
  const cluster = await up(['--threads', '1']);
  try {
    const pid = workerPid(cluster, 'front');
    process.kill(pid, 'SIGKILL');
    await until('a new front end', () => { const now = workerPid(cluster, 'front'); return now && now !== pid; }, 15000);
    await until('it answers', async () => { try { return (await get(cluster.port, '/health')).status === 200; } catch { return false; } }, 15000);
    assert.equal((await post(cluster.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 2 })).status, 200);
  } finally {
    await cluster.stop();
  }
});

for (const victim of ['context-0', 'generation-0']) {
  test(`kill -9 of ${victim} under load`, async () => {
    const cluster = await up(['--threads', '2']);
    try {
      const results = [];
      let end = Date.now() + 60000;
      const running = load(cluster.port, () => end, results);
      await until('some answers', () => results.length > 20);
      const pid = workerPid(cluster, victim);
      const killed = Date.now();
      process.kill(pid, 'SIGKILL');
      await until('a new worker', () => { const now = workerPid(cluster, victim); return now && now !== pid; }, 15000);
      const port = cluster.worker(victim).port;
      await until('it is healthy', async () => { try { return (await get(port, '/health')).status === 200; } catch { return false; } }, 15000);
      // It is used again: its own counter moves.
      await until('it is used again', async () => await metric(port, 'baton_engine_requests_started_total') > 3, 20000);
      end = 0;
      await running;
      // Whoever was waiting at the death heard of it within ten times the
      // promised second (liveness, not speed).
      for (const r of results.filter((r) => r.started <= killed && r.ended >= killed)) {
        assert.ok(r.ended - killed < 10000, `answered after ${r.ended - killed} ms`);
        assert.notEqual(r.status, 0, r.error);
      }
      assert.ok(results.filter((r) => r.started > killed + 5000 && r.status === 200).length > 0 || results.at(-1).status === 200);
      const last = await post(cluster.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 2 });
      assert.equal(last.status, 200);
    } finally {
      await cluster.stop();
    }
  });
}

test('a stream whose generation worker dies ends with a visible error', async () => {
  const cluster = await up();
  try {
    let text = '';
    const ended = new Promise((done) => {
      request(cluster.port, 'POST', '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 900, ignore_eos: true, stream: true }, {
        onRequest: (req) => req.on('response', (res) => {
          res.on('data', (d) => { text += d; });
          res.on('close', done);
        }),
      }).catch(() => {});
    });
    await until('a chunk', () => text.includes('data:'));
    process.kill(workerPid(cluster, 'generation-0'), 'SIGKILL');
    await ended;
    assert.ok(!text.includes('[DONE]'));
    assert.match(text, /"error"/);
    await until('its supervisor says how it ended', () => / generation-0 was killed by signal 9; again in /.test(cluster.child.errors));
  } finally {
    await cluster.stop();
  }
});

// [transfer T77]
test('a context request that nobody pulls gives its pages back', async () => {
  const { serve } = await import('./lib/cluster.mjs');
  const worker = await serve(['--role', 'context', '--kv-transfer-timeout-ms', '500', '--strict-internal-auth', 'false']);
  try {
    const { status, json } = await post(worker.port, '/v1/completions', { model: 'demo', prompt: 'In the beginning God created the heaven and the earth. And the earth was without form, and void', max_tokens: 8, disaggregated_params: { request_type: 'context_only', disagg_request_id: 1099511627780 } });
    assert.equal(status, 200);
    assert.equal(json.choices[0].disaggregated_params.ctx_request_id, 1099511627780);
    assert.ok(await metric(worker.port, 'baton_kv_pages_leased') > 0);
    await until('pages free', async () => await metric(worker.port, 'baton_kv_pages_leased') === 0, 10000);
  } finally {
    await worker.stop();
  }
});

// [transfer T77] [serve T96] The sender's clock ends long before the generation
// worker has room for the hand-off: that is no client's error.
test('a hand-off that waited longer than its sender keeps it is answered all the same', async () => {
  const { generate, route, serve } = await import('./lib/cluster.mjs');
  const options = ['--strict-internal-auth', 'false', '--threads', '1', '--kv-transfer-timeout-ms', '60'];
  const [context, generation] = await Promise.all([serve(['--role', 'context', ...options]), serve(['--role', 'generation', '--max-seq', '1024', '--kv-tokens', '1024', '--capacity-policy', 'GUARANTEED_NO_EVICT', ...options])]);
  const front = await route([context.port], [generation.port]);
  try {
    const prompts = ['In the beginning', 'And it came to pass', 'The Lord said'];
    const expected = prompts.map((prompt) => generate(['--prompt', prompt, '--max-tokens', '6', '--threads', '1']).text);
    const ask = (body) => post(front.port, '/v1/completions', { model: 'demo', temperature: 0, ...body });
    const long = ask({ prompt: 'Verse', max_tokens: 1000, ignore_eos: true });
    await until('the long one decodes', async () => await metric(generation.port, 'baton_engine_decode_tokens_total') > 0);
    const short = await Promise.all(prompts.map((prompt) => ask({ prompt, max_tokens: 6 })));
    assert.deepEqual(short.map(({ status, json, text }) => [status, json?.choices?.[0].text ?? text]), expected.map((text) => [200, text]));
    assert.equal((await long).status, 200);
    assert.ok(await metric(generation.port, 'baton_handoffs_recomputed_total') >= 1, 'one of them came too late');
    for (const worker of [context, generation]) await until('pages free', async () => await metric(worker.port, 'baton_kv_pages_leased') === 0, 10000);
  } finally {
    await Promise.all([front, context, generation].map((part) => part.stop()));
  }
});

test('a model file cut under a running cluster is named, and a whole one brings the workers back', async () => {
  const dir = scratch();
  const model = path.join(dir, 'demo.gguf');
  fs.copyFileSync(demo, model);
  const cluster = await up([], { model });
  const ask = () => post(cluster.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 2 });
  try {
    assert.equal((await ask()).status, 200);
    fs.truncateSync(model, 8192);
    await until('a worker says so', async () => { await ask().catch(() => {}); return cluster.child.errors.includes(`${model}: the file was cut short`); }, 20000);
    await until('so does its supervisor', () => / ended with status 5; again in /.test(cluster.child.errors), 20000);
    fs.copyFileSync(demo, `${model}.new`);
    fs.renameSync(`${model}.new`, model);
    await until('it serves again', async () => (await ask().catch(() => ({}))).status === 200, 30000);
  } finally {
    await cluster.stop();
    fs.rmSync(dir, { recursive: true });
  }
});

test('nothing is left behind, also after kill -9 of the supervisor', async () => {
  const before = leftovers();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL']) {
    const cluster = await up();
    await post(cluster.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 4 });
    const pids = children(cluster.child.pid);
    assert.equal(pids.length, 3);
    const code = await cluster.stop(signal);
    if (signal !== 'SIGKILL') assert.equal(code, 0);
    await until('all processes gone', () => pids.every((pid) => !alive(pid)), 15000);
    await nothingMore(before);
  }
});

test('workers killed -9 leave no shared memory', async () => {
  const before = leftovers();
  const cluster = await up();
  await post(cluster.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 4 });
  const pids = children(cluster.child.pid);
  cluster.child.process.kill('SIGKILL');
  for (const pid of pids) { try { process.kill(pid, 'SIGKILL'); } catch { /* already gone */ } }
  await until('all processes gone', () => pids.every((pid) => !alive(pid)), 15000);
  await nothingMore(before);
});

test('a worker that was away longer than its idle limit answers what came meanwhile', async () => {
  const http = await import('node:http');
  const { serve } = await import('./lib/cluster.mjs');
  const worker = await serve();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  try {
    const ask = () => post(worker.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 2 }, { agent });
    await Promise.all([ask(), ask(), ask(), ask()]);
    process.kill(worker.pid, 'SIGSTOP');
    const waiting = [ask(), ask(), ask(), ask()];
    await sleep(11000); // the server's keep-alive limit is 10 s
    process.kill(worker.pid, 'SIGCONT');
    for (const answer of await Promise.all(waiting)) assert.equal(answer.status, 200);
  } finally {
    agent.destroy();
    await worker.stop();
  }
});

const longPrompt = (i) => Array.from({ length: 900 }, (_, k) => 300 + ((i * 7919 + k * 104729) % 1700));

// [transfer T77] would end these too, a minute later.
test('a frozen generation worker does not stop the cluster', async () => {
  const cluster = await up(['--generation', '2']);
  const frozen = workerPid(cluster, 'generation-1');
  try {
    const ask = (i) => post(cluster.port, '/v1/completions', { model: 'demo', prompt: longPrompt(i), max_tokens: 4, temperature: 0, ignore_eos: true });
    await ask(0);
    const waiting = Array.from({ length: 24 }, (_, i) => ask(i + 1));
    await sleep(100);
    process.kill(frozen, 'SIGSTOP');
    const started = Date.now();
    for (const answer of await Promise.all(waiting)) assert.equal(answer.status, 200, answer.text);
    assert.ok(Date.now() - started < 50000, 'before the transfer timeout');
  } finally {
    process.kill(frozen, 'SIGCONT');
    await cluster.stop();
  }
});

test('two mixed workers do not wait for each other', async () => {
  const { route, serve } = await import('./lib/cluster.mjs');
  const workers = [await serve(['--strict-internal-auth', 'false']), await serve(['--strict-internal-auth', 'false'])];
  const ports = workers.map((w) => w.port);
  const front = await route(ports, ports);
  try {
    const started = Date.now();
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => post(front.port, '/v1/completions', { model: 'demo', prompt: longPrompt(i + 50), max_tokens: 4, temperature: 0, ignore_eos: true })));
    for (const answer of answers) assert.equal(answer.status, 200, answer.text);
    assert.ok(Date.now() - started < 50000, 'before the transfer timeout');
  } finally {
    await front.stop();
    for (const worker of workers) await worker.stop();
  }
});
