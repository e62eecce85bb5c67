// Generation-first: both legs of a request at once. First a front end between
// two workers that only keep the contract, and never answer before they have
// met; then real clusters, which must answer what one process answers.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import http from 'node:http';
import { signLeg } from './badinput/wire.mjs';
import { argsOf, children, generate, get, metric, post, request, route, sleep, until, up } from './lib/cluster.mjs';
import { generateAll, prompts, runAll } from './lib/prompts.mjs';

// ---- two workers that keep the contract -------------------------------------

const ENDPOINT = 'tcp://127.0.0.1:9';

// What has been posted under an id: { context, generation }, each { body, res }.
class Meetings {
  constructor() {
    this.all = new Map();
    this.gone = 0;
    this.aborts = [];
    this.firsts = [];
  }

  // Ids are longer than a double holds: they stay text.
  note(side, text, headers, res) {
    const id = text.match(/"disagg_request_id":(\d+)/)[1];
    const meeting = this.all.get(id) || {};
    if (!this.all.has(id)) this.firsts.push(side);
    assert.equal(meeting[side], undefined, `one ${side} leg an id`);
    meeting[side] = { body: JSON.parse(text), text, headers, res };
    this.all.set(id, meeting);
    res.on('close', () => { if (!res.writableFinished) this.gone++; });
    return meeting;
  }
}

function answer(meeting, isCut) {
  const { context, generation } = meeting;
  if (!context || !generation || isCut) return;
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, prompt_tokens_details: { cached_tokens: 1 } };
  const text = `to ${generation.body.prompt}`;
  if (generation.body.stream) {
    generation.res.writeHead(200, { 'content-type': 'text/event-stream' });
    generation.res.write(`data: ${JSON.stringify({ choices: [{ index: 0, text }] })}\n\n`);
    generation.res.end('data: [DONE]\n\n');
  } else {
    generation.res.writeHead(200, { 'content-type': 'application/json' });
    generation.res.end(JSON.stringify({ choices: [{ index: 0, text, finish_reason: 'length' }], usage }));
  }
  context.res.writeHead(200, { 'content-type': 'application/json' });
  setTimeout(() => context.res.end(JSON.stringify({ choices: [], usage })), 5);
}

async function worker(side, meetings, state) {
  const server = http.createServer((req, res) => {
    let text = '';
    req.on('data', (d) => { text += d; });
    req.on('end', () => {
      if (req.url === '/server_info') {
        res.end(JSON.stringify({ hand_off: true, disaggregated_params: { ctx_info_endpoint: [ENDPOINT] } }));
      } else if (req.url === '/v1/disagg/abort') {
        meetings.aborts.push(`${side} ${text.match(/\d+/)[0]}`);
        res.writeHead(404).end('{}');
      } else if (req.url.startsWith('/v1/')) {
        answer(meetings.note(side, text, req.headers, res), state.hangs);
      } else {
        res.end();
      }
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => { server.closeAllConnections(); server.close(); };
  return { port: server.address().port, close, server };
}

async function pair(options = {}) {
  const meetings = new Meetings();
  const state = { hangs: false };
  const context = await worker('context', meetings, state);
  const generation = await worker('generation', meetings, state);
  const front = await route([context.port], [generation.port], ['--schedule-style', 'generation_first'], options);
  await until('ready', async () => (await get(front.port, '/health')).status === 200);
  const stop = async () => { await front.stop(); context.close(); generation.close(); };
  return { meetings, state, context, generation, port: front.port, stop };
}

// [serve T30] [serve T33]
test('both legs of sixty requests meet under one id', async () => {
  const p = await pair({ yaml: 'internal_request_auth_key: secret\n' });
  try {
    await Promise.all(Array.from({ length: 60 }, async (_, i) => {
      const stream = i % 2 === 1;
      const got = await post(p.port, '/v1/completions', { prompt: `p${i}`, max_tokens: 4, n: 1 + (i % 3), ...(stream ? { stream } : {}) });
      assert.equal(got.status, 200, got.text);
      assert.ok(got.text.includes(`to p${i}`), got.text);
      if (stream) assert.ok(got.text.endsWith('data: [DONE]\n\n'));
      else assert.equal(got.json.usage.prompt_tokens_details.cached_tokens, 1);
    }));
    assert.equal(p.meetings.all.size, 60);
    const payload = `{"ctx_info_endpoint":"${ENDPOINT}","encoded_opaque_state":null}`;
    const signature = `sha256=${createHmac('sha256', 'secret').update(payload).digest('hex')}`;
    for (const [id, { context, generation }] of p.meetings.all) {
      assert.ok(generation.text.includes(`"ctx_request_id":${id}`));
      assert.equal(generation.body.disaggregated_params.request_type, 'generation_only');
      assert.equal(generation.body.disaggregated_params.schedule_style, 1);
      assert.equal(generation.body.disaggregated_params.ctx_info_endpoint, ENDPOINT);
      assert.equal(generation.headers['x-trtllm-disagg-auth'], signature);
      assert.equal(context.body.disaggregated_params.request_type, 'context_only');
      assert.equal(context.body.disaggregated_params.schedule_style, 1);
      assert.equal(context.body.stream, false);
      assert.equal(generation.headers['x-baton-disagg-auth'], signLeg('secret', { ...generation.body.disaggregated_params, ctx_request_id: id, disagg_request_id: id }));
      assert.equal(context.headers['x-baton-disagg-auth'], signLeg('secret', { ...context.body.disaggregated_params, disagg_request_id: id }));
      assert.equal(context.headers['x-trtllm-disagg-auth'], undefined);
      assert.equal(context.body.prompt, generation.body.prompt);
    }
    assert.equal(await metric(p.port, 'baton_front_handoffs_total'), 60);
    assert.equal(await metric(p.port, 'baton_front_generation_first_fallbacks_total'), 0);
    assert.deepEqual(p.meetings.aborts, []);
  } finally {
    await p.stop();
  }
});

// [serve T32] the context worker's process dies during a prefill.
test('a context worker that dies ends both legs, within a second', async () => {
  const p = await pair({ env: { TRTLLM_DISAGG_NO_RETRY: '1' } });
  try {
    p.state.hangs = true;
    const asked = post(p.port, '/v1/completions', { prompt: 'p', max_tokens: 4, stream: true });
    const [[id, meeting]] = await until('both legs', () => [...p.meetings.all].some(([, m]) => m.context && m.generation) && [...p.meetings.all]);
    const died = Date.now();
    p.context.close();
    const got = await asked;
    assert.equal(got.status, 502, got.text);
    assert.ok(Date.now() - died < 10000, 'liveness, ten times what is promised');
    await until('the generation leg is closed', () => meeting.generation.res.destroyed);
    await until('its worker is told', () => p.meetings.aborts.includes(`generation ${id}`));
  } finally {
    await p.stop();
  }
});

// [serve T89]
test('a client that leaves ends both legs', async () => {
  const p = await pair();
  try {
    p.state.hangs = true;
    let leave;
    request(p.port, 'POST', '/v1/completions', { prompt: 'p', max_tokens: 4 }, { onRequest: (req) => { leave = () => req.destroy(); } }).catch(() => {});
    const [[id]] = await until('both legs', () => [...p.meetings.all].some(([, m]) => m.context && m.generation) && [...p.meetings.all]);
    leave();
    await until('both are closed', () => p.meetings.gone === 2);
    await until('both are told', () => p.meetings.aborts.length === 2);
    assert.deepEqual(p.meetings.aborts.sort(), [`context ${id}`, `generation ${id}`]);
  } finally {
    await p.stop();
  }
});

// ---- real clusters ----------------------------------------------------------

const STYLE = ['--schedule-style', 'generation_first'];
const greedy = { model: 'm', temperature: 0, ignore_eos: true, detokenize: false };

async function cluster(args = [], options = {}) {
  const made = await up([...STYLE, '--served-model-name', 'm', '--threads', '2', ...args], options);
  made.context = made.worker('context-0').port;
  made.generation = made.worker('generation-0').port;
  made.isFree = async () => {
    for (const { port } of made.workers) {
      for (const name of ['baton_kv_pages_used', 'baton_kv_pages_leased', 'baton_engine_waiting', 'baton_engine_running', 'baton_engine_receiving', 'baton_engine_sending']) {
        if (await metric(port, name) !== 0) return false;
      }
    }
    return true;
  };
  // No request fell back to the other style, began again, or ran whole.
  made.assertStyle = async () => {
    assert.equal(await metric(made.port, 'baton_front_generation_first_fallbacks_total'), 0);
    assert.equal(await metric(made.port, 'baton_front_full_restarts_total'), 0);
    const { text } = await get(made.port, '/metrics');
    assert.match(text, /^baton_front_handoffs_total\{style="context_first"\} 0$/m);
    assert.match(text, /^baton_front_handoffs_total\{style="generation_first"\} [1-9]/m);
    assert.ok(await metric(made.generation, 'baton_handoff_bytes_total') > 0);
  };
  return made;
}

function eventsOf(text) {
  assert.ok(text.endsWith('data: [DONE]\n\n'), text.slice(-200));
  return text.split('\n\n').filter((e) => e.startsWith('data: {')).map((e) => JSON.parse(e.slice(6)));
}

// [serve T30]
test('sixty prompts get the tokens of one process', async () => {
  const list = prompts(60, 2048, 900, 11);
  const expected = generateAll(undefined, list, 8);
  const made = await cluster(['--chunk-tokens', '64', '--kv-tokens', '1440']);
  try {
    assert.deepEqual(await runAll(made.port, list, 12, 8), expected);
    await made.assertStyle();
    assert.ok(await metric(made.context, 'baton_engine_cached_tokens_total') > 0, 'prefix hits in context');
    await until('nothing is held', made.isFree);
  } finally {
    await made.stop();
  }
});

test('streams, choices, logprobs and stops are those of a whole request', async () => {
  const made = await cluster();
  const { serve } = await import('./lib/cluster.mjs');
  const judge = await serve(['--served-model-name', 'm', '--threads', '2']);
  const ask = (port, body) => post(port, '/v1/completions', { ...greedy, detokenize: true, ...body });
  const prompt = 'In the beginning God created the heaven and the earth. And the earth was';
  try {
    for (const extra of [{}, { n: 3 }, { logprobs: 3 }, { max_tokens: 1 }, { max_tokens: 2 }, { stop: ['th'] }, { stop_token_ids: [5, 6, 7, 8, 9, 10, 11, 12] }, { n: 2, logprobs: 1, seed: 4, temperature: 1 }, { ignore_eos: false, max_tokens: 40 }]) {
      const body = { prompt, max_tokens: 12, ...extra };
      const wanted = await ask(judge.port, body);
      const got = await ask(made.port, body);
      assert.equal(got.status, 200, got.text);
      assert.deepEqual(got.json.choices, wanted.json.choices, JSON.stringify(extra));
      assert.equal(got.json.usage.prompt_tokens, wanted.json.usage.prompt_tokens);
      assert.equal(got.json.usage.completion_tokens, wanted.json.usage.completion_tokens);
      const events = eventsOf((await ask(made.port, { ...body, stream: true, stream_options: { include_usage: true } })).text);
      for (const choice of wanted.json.choices) {
        const text = events.flatMap((e) => e.choices).filter((c) => c.index === choice.index).map((c) => c.text).join('');
        assert.equal(text, choice.text, JSON.stringify(extra));
      }
      assert.equal(events.at(-1).usage.completion_tokens, got.json.usage.completion_tokens);
    }
    const messages = [{ role: 'user', content: 'Who made the heaven?' }];
    const chat = (port) => post(port, '/v1/chat/completions', { model: 'm', messages, max_tokens: 16, temperature: 0 });
    assert.deepEqual((await chat(made.port)).json.choices, (await chat(judge.port)).json.choices);
    await made.assertStyle();
    await until('nothing is held', made.isFree);
  } finally {
    await judge.stop();
    await made.stop();
  }
});

test('what either side has cached changes no token', async () => {
  const made = await cluster();
  try {
    const [long] = prompts(2, 2048, 600, 3).slice(1);
    const expected = generate(['--prompt-ids', JSON.stringify(long), '--max-tokens', '8', '--ignore-eos', '--threads', '1']).token_ids;
    const ask = async (port) => {
      const got = await post(port, '/v1/completions', { ...greedy, prompt: long, max_tokens: 8 });
      assert.equal(got.status, 200, got.text);
      return got.json;
    };
    assert.deepEqual((await ask(made.port)).choices[0].token_ids, expected);
    const again = await ask(made.port); // both have it
    assert.deepEqual(again.choices[0].token_ids, expected);
    assert.ok(again.usage.prompt_tokens_details.cached_tokens > 0, 'the context worker had it cached');
    const other = prompts(3, 2048, 600, 9)[2];
    await post(made.generation, '/v1/completions', { ...greedy, prompt: other, max_tokens: 1 }); // only generation has it
    const mixed = (await post(made.port, '/v1/completions', { ...greedy, prompt: other, max_tokens: 8 })).json;
    assert.deepEqual(mixed.choices[0].token_ids, generate(['--prompt-ids', JSON.stringify(other), '--max-tokens', '8', '--ignore-eos', '--threads', '1']).token_ids);
    await made.assertStyle();
  } finally {
    await made.stop();
  }
});

// A prefill that lasts: the slow kernels, in small chunks.
const SLOW = ['--ops', 'ref', '--chunk-tokens', '16'];
const longPrompt = (i) => Array.from({ length: 900 }, (_, k) => 300 + ((i * 7919 + k * 104729) % 1700));

const midPrefill = async (made) => {
  await until('the generation worker waits', async () => await metric(made.generation, 'baton_engine_receiving') > 0 || await metric(made.generation, 'baton_kv_pages_leased') > 0);
  await until('the prefill runs', async () => await metric(made.context, 'baton_engine_running') > 0);
};

// [serve T32]
test('a context worker killed during a prefill: an error soon, and the generation pages are free', async () => {
  const made = await cluster(SLOW, { env: { TRTLLM_DISAGG_NO_RETRY: '1' } });
  try {
    const asked = post(made.port, '/v1/completions', { ...greedy, prompt: longPrompt(1), max_tokens: 8 });
    await midPrefill(made);
    const pid = children(made.child.pid).find((id) => argsOf(id)[argsOf(id).indexOf('--name') + 1] === 'context-0');
    const killed = Date.now();
    process.kill(pid, 'SIGKILL');
    const got = await asked;
    assert.equal(got.status, 502, got.text);
    assert.ok(Date.now() - killed < 10000, 'liveness, ten times what is promised');
    await until('the generation worker holds nothing', async () => await metric(made.generation, 'baton_kv_pages_used') === 0 && await metric(made.generation, 'baton_kv_pages_leased') === 0);
  } finally {
    await made.stop();
  }
});

test('with retries, the killed worker is stood in for', async () => {
  const made = await cluster(SLOW);
  try {
    const asked = post(made.port, '/v1/completions', { ...greedy, prompt: longPrompt(2), max_tokens: 8 });
    await midPrefill(made);
    const pid = children(made.child.pid).find((id) => argsOf(id)[argsOf(id).indexOf('--name') + 1] === 'context-0');
    process.kill(pid, 'SIGKILL');
    const got = await asked;
    assert.equal(got.status, 200, got.text);
    const expected = generate(['--prompt-ids', JSON.stringify(longPrompt(2)), '--max-tokens', '8', '--ignore-eos', '--threads', '1']).token_ids;
    assert.deepEqual(got.json.choices[0].token_ids, expected);
  } finally {
    await made.stop();
  }
});

test('a client that leaves during a prefill frees both sides', async () => {
  const made = await cluster(SLOW);
  try {
    for (const stream of [false, true]) {
      let leave;
      request(made.port, 'POST', '/v1/completions', { ...greedy, prompt: longPrompt(stream ? 3 : 4), max_tokens: 8, stream }, { onRequest: (req) => { leave = () => req.destroy(); } }).catch(() => {});
      await midPrefill(made);
      leave();
      await until('nothing is held', made.isFree);
      await sleep(50);
    }
    assert.equal(await metric(made.port, 'baton_front_generation_first_fallbacks_total'), 0);
  } finally {
    await made.stop();
  }
});
