// SIGTERM: whoever was promised something gets it. A hand-off is kept until it
// is pulled, an answer leaves to its last byte, a second signal ends at once.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { alive, generate, get, metric, post, request, route, serve, sleep, until } from './lib/cluster.mjs';

const OPEN = ['--strict-internal-auth', 'false', '--threads', '1'];
const PROMPT = 'In the beginning God created the heaven and the earth. And the earth was without form, and void';
let rid = 1099511627780;

const contextLeg = (worker, prompt = PROMPT) => post(worker.port, '/v1/completions', { model: 'demo', prompt, max_tokens: 12, temperature: 0, disaggregated_params: { request_type: 'context_only', disagg_request_id: ++rid } });
const generationLeg = (worker, context) => post(worker.port, '/v1/completions', { model: 'demo', prompt: context.json.prompt_token_ids, max_tokens: 12, temperature: 0, disaggregated_params: { ...context.json.choices[0].disaggregated_params, request_type: 'generation_only' } });
const isDraining = async (worker) => (await get(worker.port, '/health')).text.includes('draining');

// Proof: the answer that names the hand-off is out, the signal comes at once,
// and the pull long after it; also with several of them. [transfer T72]
for (const lane of ['auto', 'tcp']) {
  test(`a draining worker keeps hand-offs until they are pulled: ${lane}`, async () => {
    const [context, generation] = await Promise.all([serve(['--role', 'context', '--backend', lane, ...OPEN]), serve(['--role', 'generation', '--backend', lane, ...OPEN])]);
    try {
      const expected = generate(['--prompt', PROMPT, '--max-tokens', '12', '--threads', '1']).text;
      const first = await Promise.all([contextLeg(context), contextLeg(context), contextLeg(context)]);
      const end = context.stop();
      await until('it drains', () => isDraining(context));
      await sleep(200);
      assert.ok(alive(context.pid), 'it waits');
      for (const leg of first) {
        const answer = await generationLeg(generation, leg);
        assert.deepEqual([answer.status, answer.json?.choices[0].text ?? answer.text], [200, expected]);
      }
      assert.equal(await metric(generation.port, 'baton_handoffs_recomputed_total'), 0);
      assert.equal(await end, 0);
    } finally {
      await Promise.all([context.stop(), generation.stop()]);
    }
  });
}

// Proof: both ends of the wait leave pages under lease behind, which the
// process must not trip over: status 0, and nothing said of a broken promise.
test('a second signal ends a worker that waits for a pull at once', async () => {
  const context = await serve(['--role', 'context', ...OPEN]);
  assert.equal((await contextLeg(context)).status, 200);
  const end = context.stop();
  await until('it drains', () => isDraining(context));
  context.child.process.kill('SIGTERM');
  assert.equal(await end, 0);
  assert.doesNotMatch(context.child.errors, /CHECK/);
});

test('the drain limit ends the wait for a pull', async () => {
  const context = await serve(['--role', 'context', '--drain-timeout-ms', '300', ...OPEN]);
  assert.equal((await contextLeg(context)).status, 200);
  assert.equal(await context.stop(), 0);
  assert.doesNotMatch(context.child.errors, /CHECK/);
});

test('the drain limit answers who still waits', async () => {
  const worker = await serve(['--drain-timeout-ms', '300', ...OPEN]);
  const long = (stream) => post(worker.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 2000, ignore_eos: true, stream });
  const waiting = [long(false), long(true)];
  await until('both decode', async () => await metric(worker.port, 'baton_requests_open') === 2 && await metric(worker.port, 'baton_engine_decode_tokens_total') > 4);
  const end = worker.stop();
  const [whole, stream] = await Promise.all(waiting);
  assert.equal(await end, 0);
  assert.equal(whole.status, 503);
  assert.match(whole.text, /shuts down/);
  assert.match(stream.text, /shuts down/);
  assert.doesNotMatch(stream.text, /\[DONE\]/);
});

// An event stream that is read late; the text is what came of it.
function lateStream(port, body, ms) {
  return new Promise((done, fail) => {
    request(port, 'POST', '/v1/completions', { model: 'demo', ...body, stream: true }, {
      onRequest: (req) => req.on('response', (res) => {
        let text = '';
        res.pause();
        setTimeout(() => res.resume(), ms);
        res.on('data', (d) => { text += d; });
        res.on('close', () => done(text));
        res.on('error', fail);
      }),
    }).catch(fail);
  });
}

for (const who of ['worker', 'front end']) {
  test(`streams that are read late are whole when the ${who} is told to end`, async () => {
    const [context, generation] = await Promise.all([serve(['--role', 'context', ...OPEN]), serve(['--role', 'generation', ...OPEN])]);
    const front = await route([context.port], [generation.port]);
    try {
      const target = who === 'worker' ? generation : front;
      const streams = Array.from({ length: 8 }, (_, i) => lateStream(target.port, { prompt: `Verse ${i}`, max_tokens: 200 + 20 * i, ignore_eos: true, logprobs: 5 }, 1500));
      await until('all are begun', async () => await metric(generation.port, 'baton_engine_requests_started_total') === 8);
      const end = target.stop();
      for (const text of await Promise.all(streams)) assert.match(text, /data: \[DONE\]\s*$/);
      assert.equal(await end, 0);
    } finally {
      await Promise.all([front, context, generation].map((part) => part.stop()));
    }
  });
}

// Proof: a stream is under way when the signal comes. Until it is over the port
// is open to new connections: health says why nothing more shall be sent here,
// new work is refused with a time to come again, and the stream ends whole.
for (const who of ['worker', 'front end']) {
  test(`a ${who} that drains says so on an open port`, async () => {
    const [context, generation] = await Promise.all([serve(['--role', 'context', ...OPEN]), serve(['--role', 'generation', ...OPEN])]);
    const front = await route([context.port], [generation.port]);
    try {
      const target = who === 'worker' ? generation : front;
      const stream = post(target.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 1500, ignore_eos: true, stream: true });
      await until('it decodes', async () => await metric(generation.port, 'baton_engine_decode_tokens_total') > 4);
      const end = target.stop();
      await until('it drains', () => isDraining(target));
      const [health, refused, models] = await Promise.all([
        get(target.port, '/health'),
        post(target.port, '/v1/completions', { model: 'demo', prompt: 'And', max_tokens: 2 }),
        post(target.port, '/tokenize', { prompt: 'And' })]);
      assert.deepEqual([health, refused, models].map(({ status, headers }) => [status, headers['retry-after']]), Array(3).fill([503, '1']));
      assert.equal(health.headers['x-trtllm-server-state'], 'draining');
      assert.match(refused.json.error.message, /shutting down/);
      assert.match((await stream).text, /data: \[DONE\]\s*$/);
      assert.equal(await end, 0);
    } finally {
      await Promise.all([front, context, generation].map((part) => part.stop()));
    }
  });
}
