// Bad input of every kind, each with its golden line (status, type, message
// that names the field) and, where a server took it, a probe request after it
// that must be answered right: nothing is lost, the processes live.
// `GOLDEN=write` rewrites the lines.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { alive, baton, build, demo, generate, get, metric, post, root, route, scratch, serve, sleep, until } from './lib/cluster.mjs';
import { Golden } from './badinput/golden.mjs';
import { answers, ask, raw } from './badinput/talk.mjs';
import { front as frontBodies, methods, worker as workerBodies } from './badinput/bodies.mjs';
import { shapes } from './badinput/shapes.mjs';
import { compose, legs } from './badinput/handoff.mjs';
import { nothing, peers, strangers } from './badinput/peer.mjs';
import { models } from './badinput/models.mjs';
import { lines } from './badinput/lines.mjs';
import * as wire from './badinput/wire.mjs';

const KEY = 'the key of this test';
const PROBE = { model: 'demo', prompt: 'In the beginning God', max_tokens: 6, temperature: 0 };
let dir;
let context;
let generation;
let front;
let expected;
let endpoint;
let hello; // what the generation worker says about itself
let nextId = 1000;

before(async () => {
  dir = scratch();
  const keyFile = path.join(dir, 'key');
  fs.writeFileSync(keyFile, KEY);
  const options = ['--threads', '1', '--max-batch', '8', '--auth-key-file', keyFile, '--kv-transfer-timeout-ms', '3000'];
  context = await serve(['--role', 'context', '--log-level', 'debug', ...options]);
  generation = await serve(['--role', 'generation', ...options]);
  front = await route([context.port], [generation.port], [], { yaml: `internal_request_auth_key: ${KEY}\n` });
  expected = generate(['--prompt', PROBE.prompt, '--max-tokens', '6', '--threads', '1']).text;
  endpoint = (await get(context.port, '/server_info')).json.disaggregated_params.ctx_info_endpoint[0];
  await probe('the start');
});
after(async () => {
  await Promise.all([front?.stop(), context?.stop(), generation?.stop()]);
  fs.rmSync(dir, { recursive: true, force: true });
});

// A right answer through both workers, and the same three processes.
async function probe(name) {
  const { status, json, text } = await post(front.port, '/v1/completions', PROBE);
  assert.equal(status, 200, `the request after "${name}": ${text}`);
  assert.equal(json.choices[0].text, expected, `the request after "${name}"`);
  for (const part of [context, generation, front]) {
    assert.ok(part.child.code === undefined && alive(part.child.pid), `a process died of "${name}": ${part.child.errors.slice(-500)}`);
  }
}

// No page is in use or leased, no request is open.
async function allGivenBack() {
  for (const worker of [context, generation]) {
    for (const name of ['baton_kv_pages_used', 'baton_kv_pages_leased']) {
      await until(`${name} is 0`, async () => await metric(worker.port, name) === 0, 10000);
    }
  }
}

const portsHidden = (golden) => {
  golden.hide(dir, 'DIR');
  for (const part of [context, generation, front]) golden.hide(part.port, 'PORT');
  golden.hide(endpoint.split(':').at(-1), 'TRANSFER');
  return golden;
};

test('bodies at the front end', async () => {
  const golden = portsHidden(new Golden('front'));
  for (const [name, target, body, options] of [...frontBodies, ...methods]) {
    golden.add(name, await ask(front.port, target, body, options).catch((error) => `cut off: ${error.code}`));
    await probe(name);
  }
  await allGivenBack();
  golden.compare();
});

test('bodies at a worker', async () => {
  const golden = portsHidden(new Golden('worker'));
  const own = [...workerBodies, ...methods, ...frontBodies.filter(([name]) => !name.includes('MB'))];
  for (const [name, target, body, options] of own) {
    golden.add(name, await ask(generation.port, target, body, options).catch((error) => `cut off: ${error.code}`));
    await probe(name);
  }
  await allGivenBack();
  golden.compare();
});

// What several choices need together is known before any of it is computed.
test('choices that do not fit', async () => {
  const golden = portsHidden(new Golden('choices'));
  const options = ['--threads', '1', '--max-batch', '4', '--kv-tokens', '512', '--max-seq', '256'];
  const [c, g] = await Promise.all(['context', 'generation'].map((role) => serve(['--role', role, ...options, '--strict-internal-auth', 'false'])));
  const f = await route([c.port], [g.port]);
  try {
    const base = { model: 'demo', prompt: 'In the beginning', temperature: 0 };
    for (const [name, change, fits] of [
      ['four of 100', { n: 4, max_tokens: 100 }, true],
      ['four of 200', { n: 4, max_tokens: 200 }],
      ['four of 200 at least', { n: 4, min_tokens: 200, max_tokens: 240 }],
      ['one of 200', { n: 1, max_tokens: 200 }, true],
      ['five', { n: 5, max_tokens: 2 }],
      ['four after a long prompt', { n: 4, max_tokens: 10, prompt: 'In the beginning God created '.repeat(30) }, true],
    ]) {
      for (const [place, port] of [['worker', g.port], ['front', f.port]]) {
        golden.add(`${name} at the ${place}`, await ask(port, '/v1/completions', JSON.stringify({ ...base, ...change })));
      }
      if (fits) {
        const { json } = await post(f.port, '/v1/completions', { ...base, ...change, ignore_eos: true });
        assert.equal(json.usage.completion_tokens, change.n * change.max_tokens, name);
      }
    }
  } finally {
    await Promise.all([f, c, g].map((part) => part.stop()));
  }
  golden.compare();
});

test('shapes of HTTP that are none', async () => {
  for (const [part, title] of [[front, 'shapes_front'], [generation, 'shapes_worker']]) {
    const golden = portsHidden(new Golden(title));
    for (const [name, parts, options] of shapes) {
      const answered = answers(await raw(part.port, parts, options), options?.isHead);
      if (!options?.isRace) golden.add(name, answered);
      await probe(name);
    }
    await allGivenBack();
    golden.compare();
  }
});

// Many silent and half-open clients at once take nobody's place.
test('clients that say nothing', async () => {
  const sockets = [];
  for (let i = 0; i < 300; i++) {
    const socket = net.connect(i % 2 ? front.port : generation.port, '127.0.0.1');
    socket.on('error', () => {});
    if (i % 3 === 0) socket.write('POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
    sockets.push(socket);
  }
  await probe('300 silent clients');
  for (const socket of sockets) socket.destroy();
  await probe('300 clients left');
});

async function contextLeg() {
  const id = nextId++;
  const body = { model: 'demo', prompt: PROBE.prompt, max_tokens: 4, temperature: 0 };
  const context_only = { request_type: 'context_only', disagg_request_id: id };
  const { status, json, text } = await post(context.port, '/v1/completions', { ...body, disaggregated_params: context_only }, { headers: { 'x-baton-disagg-auth': wire.signLeg(KEY, context_only) } });
  assert.equal(status, 200, text);
  const params = { ...json.choices[0].disaggregated_params, request_type: 'generation_only', schedule_style: 0 };
  delete body.prompt;
  return { id, body: { ...body, prompt_token_ids: json.prompt_token_ids, disaggregated_params: params } };
}

async function abort(id) {
  const headers = { 'x-baton-disagg-auth': wire.signAbort(KEY, id) };
  for (const worker of [context, generation]) {
    const { status } = await post(worker.port, '/v1/disagg/abort', { disagg_request_id: id }, { headers });
    assert.ok(status === 200 || status === 404, `an abort was answered with ${status}`);
  }
}

test('generation legs that are forged, damaged or stale', async () => {
  const golden = portsHidden(new Golden('handoff'));
  const own = (await get(generation.port, '/server_info')).json.disaggregated_params.ctx_info_endpoint[0];
  golden.hide(own.split(':').at(-1), 'OWN');
  for (const [name, change, options = {}] of legs) {
    const leg = { ...await contextLeg(), own, secret: KEY, ports: { context: context.port } };
    golden.hide(`id ${leg.id}`, 'id ID');
    change(leg);
    const { text, headers } = compose(leg, KEY);
    golden.add(name, await ask(generation.port, '/v1/completions', text, { headers }));
    if (options.again) golden.add(`${name}, the second`, await ask(generation.port, '/v1/completions', text, { headers }));
    await abort(leg.id);
    await probe(name);
  }
  await allGivenBack();
  golden.compare();
});

// A context server that is none: takes the connection and says what it likes.
// It greets as who holds the key unless it is a `stranger`.
async function fakeSender(answer, isStranger) {
  const sockets = new Set();
  const server = net.createServer((socket) => {
    let bytes = Buffer.alloc(0);
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      bytes = Buffer.concat([bytes, data]);
      while (bytes.length >= 44 && bytes.length >= 44 + bytes.readUInt32LE(36)) {
        const frame = wire.readFrame(bytes);
        bytes = bytes.subarray(44 + bytes.readUInt32LE(36));
        if (frame.type === wire.REGISTER) hello = wire.unpack(frame.body);
        if (!isStranger && frame.type === wire.GREET) socket.write(wire.greeted(KEY, 4711n, frame));
        else if (isStranger || frame.type !== wire.PROOF) answer(socket, frame);
      }
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const close = () => new Promise((done) => { for (const socket of sockets) socket.destroy(); server.close(done); });
  return { endpoint: `tcp://127.0.0.1:${server.address().port}`, close };
}

const lie = (change) => (socket, frame) => {
  if (frame.type !== wire.REGISTER) return;
  const info = { ...hello, incarnation: 4711n, backend_blob: Buffer.alloc(0), lane: 'sysv', ...(typeof change === 'function' ? change() : change) };
  socket.write(wire.frame(wire.REGISTERED, wire.pack(info), { source: 4711n, target: frame.source }));
};

const senders = [
  ['closes before a word', (socket) => socket.destroy(), true],
  ['answers a greeting with HTTP', (socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'), true],
  ['answers a greeting in version 2', (socket, frame) => socket.write(wire.frame(wire.REGISTERED, undefined, { version: 2, target: frame.source })), true],
  ['greets with another key', (socket, frame) => { if (frame.type === wire.GREET) socket.write(wire.greeted(`${KEY}?`, 4711n, frame)); }, true],
  ['greets without a key', (socket, frame) => { if (frame.type === wire.GREET) socket.write(wire.greeted('', 4711n, frame)); }, true],
  ['greets as nobody', (socket, frame) => socket.write(wire.greeted(KEY, 0n, frame)), true],
  ['greets with a short proof', (socket, frame) => socket.write(wire.frame(wire.GREETED, Buffer.alloc(64), { source: 4711n, target: frame.source })), true],
  ['greets at length', (socket, frame) => socket.write(wire.frame(wire.GREETED, Buffer.alloc(5000), { source: 4711n, target: frame.source })), true],
  ['refuses a greeting', (socket, frame) => socket.write(wire.frame(wire.REFUSED, Buffer.from('not today'), { target: frame.source })), true],
  ['registers instead of greeting', (socket, frame) => socket.write(wire.frame(wire.REGISTERED, Buffer.alloc(3), { source: 4711n, target: frame.source })), true],
  ['closes at once', (socket) => socket.destroy()],
  ['answers with HTTP', (socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')],
  ['answers with zeros', (socket) => socket.write(Buffer.alloc(1000))],
  ['refuses with junk', (socket, frame) => socket.write(wire.frame(wire.REFUSED, Buffer.alloc(5000, 255), { target: frame.source }))],
  ['refuses with words', (socket, frame) => socket.write(wire.frame(wire.REFUSED, wire.pack({ reason: 'no' }), { target: frame.source }))],
  ['registers with nothing', (socket, frame) => socket.write(wire.frame(wire.REGISTERED, undefined, { target: frame.source }))],
  ['registers with other layers', lie(() => ({ groups: [{ ...hello.groups[0], layer_count: 77 }] }))],
  ['registers with other pages', lie(() => ({ groups: [{ ...hello.groups[0], page_bytes: 77 }] }))],
  ['registers as another incarnation', lie({ incarnation: 9n })],
  ['is another process by now', (socket, frame) => {
    if (frame.type === wire.GREET) socket.write(wire.greeted(KEY, 9n, frame));
    if (frame.type === wire.REGISTER) socket.write(wire.frame(wire.REGISTERED, wire.pack({ ...hello, incarnation: 9n, backend_blob: Buffer.alloc(0), lane: 'sysv' }), { source: 9n, target: frame.source }));
  }, true],
  ['registers and sends a result of nobody', (socket, frame) => {
    lie({})(socket, frame);
    if (frame.type === wire.REQUEST_DATA) socket.write(wire.frame(wire.KV_RESULT, Buffer.alloc(54), { source: 4711n, target: frame.source, rid: 5 }));
    if (frame.type === wire.REQUEST_DATA) socket.destroy();
  }],
  ['registers and sends a result of junk', (socket, frame) => {
    lie({})(socket, frame);
    if (frame.type !== wire.REQUEST_DATA) return;
    socket.write(wire.frame(wire.KV_RESULT, Buffer.alloc(66, 255), { source: 4711n, target: frame.source, rid: 5 }));
    socket.write(wire.frame(wire.KV_RESULT, Buffer.alloc(3), { source: 4711n, target: frame.source }));
    socket.destroy();
  }],
  ['registers, is asked, and leaves', (socket, frame) => { lie({})(socket, frame); if (frame.type === wire.REQUEST_DATA) socket.destroy(); }],
];

test('context servers that send garbage', async () => {
  const golden = portsHidden(new Golden('sender'));
  for (const [name, answer, isStranger] of senders) {
    const fake = await fakeSender(answer, isStranger);
    const leg = await contextLeg();
    const params = leg.body.disaggregated_params;
    params.ctx_info_endpoint = fake.endpoint;
    params.encoded_opaque_state = wire.sealed(KEY, { ...wire.readOpaque(params.encoded_opaque_state), incarnation: 4711n }, leg.body.prompt_token_ids, params.first_gen_tokens);
    const { text, headers } = compose(leg, KEY);
    const line = await ask(generation.port, '/v1/completions', text, { headers });
    // Whether the link or the process is seen to end first is chance.
    golden.add(name, name.startsWith('registers') ? line.replace(/worker-dead|transport/g, 'GONE') : line);
    await fake.close();
    await abort(leg.id);
    await probe(name);
  }
  await allGivenBack();
  golden.compare();
});

// What the worker says in its log about the peer, and how the link went on.
async function peerLine(port, child, parts, options) {
  const at = child.errors.length;
  const { how, bytes } = await raw(port, parts, { quiet: 800, ...options });
  if (how === 'open') await until('its end is told', () => /connection ended|dropped/.test(child.errors.slice(at)), 3000).catch(() => {});
  await sleep(50);
  const said = child.errors.slice(at).split('\n').map((l) => l.match(/transfer: (?:(?:peer|stranger) \S+ )?(.*)$/)?.[1]).filter((l) => l && !/^(a peer is reached|data connection to)/.test(l));
  const types = wire.readFrames(bytes).map(({ type, body }) => `${wire.TYPES[type]}${type === wire.KV_RESULT ? ` code ${body[25]} reason ${body[44]}` : ''}`);
  // Heartbeats come when they come; a greeting is answered first.
  const answered = types.filter((type) => type !== 'HEARTBEAT' && type !== 'GREETED').join(' + ');
  return `${said.join(' + ') || 'no log line'}; answered ${answered || 'nothing'}; ${how}`;
}

test('receivers that send garbage', async () => {
  const golden = portsHidden(new Golden('receiver'));
  const fake = await fakeSender((socket) => socket.destroy());
  const leg = await contextLeg();
  leg.body.disaggregated_params.ctx_info_endpoint = fake.endpoint;
  const { text, headers } = compose(leg, KEY);
  await ask(generation.port, '/v1/completions', text, { headers });
  await fake.close();
  await abort(leg.id);
  assert.ok(hello?.groups[0].page_count > 0n, 'the generation worker said who it is');
  golden.hide(hello.host, 'HOST');
  golden.hide(hello.groups[0].page_bytes, 'PAGE_BYTES');
  golden.hide(hello.backend_config, 'UCX');
  const port = Number(endpoint.split(':').at(-1));
  const target = BigInt((await get(context.port, '/server_info')).json.incarnation);
  for (const [name, make, options] of strangers) {
    golden.add(`${name}, ungreeted`, await peerLine(port, context.child, make(wire.as(hello, 99n), target, KEY), options));
    await probe(name);
  }
  for (const [name, make, options] of peers) {
    const parts = [wire.greet(KEY, 99n), wire.proofOf(KEY, 99n), ...make(wire.as(hello, 99n), target, KEY)];
    golden.add(name, await peerLine(port, context.child, parts, options));
    await probe(name);
  }
  // A peer with the key that asks for a thousand things there are not, and falls
  // silent: so many are kept, the rest is refused, others' requests still wait in
  // their places, and it is let go after 10 s.
  const asked = Array.from({ length: 1000 }, (_, i) => nothing(5000000 + i));
  const flood = peerLine(port, context.child, [wire.greet(KEY, 99n), wire.proofOf(KEY, 99n), wire.frame(wire.REGISTER, wire.pack(wire.as(hello, 99n)), { source: 99n }), 150,
    ...asked.map(({ rid, body }) => wire.frame(wire.REQUEST_DATA, body, { source: 99n, target, rid, attempt: 1 }))], { quiet: 15000 });
  await until('the rest is refused', () => /rid 5000999 cannot/.test(context.child.errors));
  const eager = await route([context.port], [generation.port], ['--schedule-style', 'generation_first'], { yaml: `internal_request_auth_key: ${KEY}\n` });
  await Promise.all(Array.from({ length: 6 }, async () => assert.equal((await post(eager.port, '/v1/completions', PROBE)).json.choices[0].text, expected)));
  assert.equal(await metric(eager.port, 'baton_front_generation_first_fallbacks_total'), 0);
  assert.equal(await metric(eager.port, 'baton_front_full_restarts_total'), 0);
  await eager.stop();
  await probe('a thousand requests for nothing');
  const told = await flood;
  assert.equal(told.match(/KV_RESULT code 1 reason 6/g).length, 1000 - 256, told.slice(-300));
  assert.match(told, /rid 5000256 cannot be pulled: too many of its requests.*dropped: silent for 10 heartbeats; .*; closed$/);
  // One that stays silent is let go after 2 s; nobody waits for it.
  const silent = peerLine(port, context.child, [], { quiet: 7000 });
  await probe('a silent peer');
  golden.add('silence', await silent);
  await allGivenBack();
  golden.compare();
});

// Runs a command that must end by itself; what it said in one line.
function run(args, cwd = root) {
  return new Promise((done) => {
    const child = spawn(baton, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let errors = '';
    const end = setTimeout(() => child.kill('SIGKILL'), 30000);
    // A server that starts after all has taken the input: it is ended.
    child.stdout.on('data', (data) => { out += data; if (/^ready /m.test(out)) child.kill('SIGTERM'); });
    child.stderr.on('data', (data) => { errors += data; });
    child.on('close', (code, signal) => {
      clearTimeout(end);
      const kept = [...new Set(errors.replace(/(context|generation)-0/g, 'WORKER').split('\n').filter((l) => !/^\d{4}-\d\d-\d\dT.* (info|warn) /.test(l) && !/^Try `/.test(l)))];
      const ready = /^ready /m.test(out) ? 'ready; ' : '';
      done({ code: code ?? signal, out, line: `${ready}${code ?? signal} ${kept.join('\n').slice(0, 600)}` });
    });
  });
}

test('command lines and files', async () => {
  const golden = portsHidden(new Golden('command'));
  const usages = [];
  for (const [index, [name, args, files]] of lines.entries()) {
    const folder = path.join(dir, `c${index}`);
    fs.mkdirSync(folder);
    for (const [file, text] of Object.entries(files ?? {})) fs.writeFileSync(path.join(folder, file), text.toString().includes('DIR') ? text.replaceAll('DIR', folder) : text);
    const { line } = await run(args.map((arg) => arg.replaceAll('DIR', folder)));
    golden.hide(folder, 'DIR');
    golden.volatile.sort((a, b) => b[0].length - a[0].length);
    golden.add(name, line.replace(/^(\S+ usage: baton COMMAND)[^]*/, '$1 ...'));
    usages.push(line);
  }
  golden.compare();
});

test('ports that are taken', async () => {
  const golden = portsHidden(new Golden('port'));
  const config = path.join(dir, 'port.yaml');
  fs.writeFileSync(config, `hostname: 127.0.0.1\nport: ${front.port}\ncontext_servers:\n  num_instances: 1\n  urls: ["127.0.0.1:${context.port}"]\ngeneration_servers:\n  num_instances: 1\n  urls: ["127.0.0.1:${generation.port}"]\n`);
  const transfer = endpoint.split(':').at(-1);
  golden.add('serve', (await run(['serve', '--model', demo, '--port', String(front.port)])).line);
  golden.add('serve, transfer port', (await run(['serve', '--model', demo, '--transfer-port', transfer])).line);
  // Told before the model is looked at.
  golden.add('serve, transfer port, no model', (await run(['serve', '--model', `${dir}/none.gguf`, '--transfer-port', transfer])).line);
  golden.add('serve, data port, no model', (await run(['serve', '--model', `${dir}/none.gguf`, '--data-port', transfer])).line);
  golden.add('route', (await run(['route', '--config', config])).line);
  golden.add('up', (await run(['up', '--model', demo, '--port', String(front.port)])).line);
  for (const line of golden.lines.values()) assert.match(line, /^4 .*(PORT|TRANSFER)/);
  await probe('taken ports');
  golden.compare();
});

test('model files that are damaged or hostile', async () => {
  const golden = new Golden('model');
  const good = path.join(dir, 'good.gguf');
  await new Promise((done, fail) => spawn(path.join(build, 'mkgguf'), [good, '--dim', '64', '--layers', '2', '--heads', '4', '--kv', '2', '--ffn', '128', '--vocab', '512', '--seed', '7'], { stdio: 'ignore' }).on('exit', (code) => (code === 0 ? done() : fail(new Error(`mkgguf ${code}`)))));
  const bytes = fs.readFileSync(good);
  for (const [index, [name, make]] of models.entries()) {
    const file = path.join(dir, `m${index}.gguf`);
    fs.writeFileSync(file, make(bytes));
    golden.hide(file, 'FILE');
    golden.volatile.sort((a, b) => b[0].length - a[0].length);
    const generated = await run(['generate', '--model', file, '--prompt-ids', '[1]', '--max-tokens', '1', '--threads', '1']);
    const inspected = await run(['inspect', '--model', file]);
    const same = inspected.code === generated.code ? 'inspect agrees' : `inspect says ${inspected.line || inspected.out}`;
    golden.add(name, `${generated.line}; ${same}`);
    fs.rmSync(file);
  }
  golden.compare();
});

test('the processes of the start are those of the end, and hold nothing', async () => {
  await allGivenBack();
  await probe('everything');
});
