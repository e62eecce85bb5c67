// A cluster whose name service is silent until we let it answer. Run in namespaces
// of its own, network and mounts (unshare -nm): node names.mjs. Status 0: all well.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import dgram from 'node:dgram';
import fs from 'node:fs';
import path from 'node:path';
import { Child, get, metric, post, scratch, serve, until } from './cluster.mjs';

// Longer than all below takes: who waits for an answer waits for this.
const SILENT_S = 30;
const OPEN = ['--strict-internal-auth', 'false', '--threads', '1', '--kv-tokens', '2048', '--max-seq', '512', '--backend', 'tcp'];

function mount(file, text) {
  const own = path.join(scratch(), path.basename(file));
  fs.writeFileSync(own, text);
  execFileSync('mount', ['--bind', own, file]);
}

// Every name is this host, once `isSilent` is false.
class NameService {
  isSilent = true;
  held = [];
  names = new Set();

  async open() {
    this.socket = dgram.createSocket('udp4');
    this.socket.on('message', (question, from) => {
      const labels = [];
      let at = 12;
      for (; question[at] !== 0; at += 1 + question[at]) labels.push(question.toString('latin1', at + 1, at + 1 + question[at]));
      this.names.add(labels.join('.'));
      this.held.push({ question: question.subarray(0, at + 5), isV4: question.readUInt16BE(at + 1) === 1, from });
      this.answer();
    });
    await new Promise((done) => this.socket.bind(53, '127.0.0.1', done));
  }

  answer() {
    if (this.isSilent) return;
    for (const { question, isV4, from } of this.held) {
      const head = Buffer.from(question);
      head.writeUInt16BE(0x8180, 2);
      [1, isV4 ? 1 : 0, 0, 0].forEach((count, i) => head.writeUInt16BE(count, 4 + 2 * i));
      const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
      this.socket.send(isV4 ? Buffer.concat([head, record]) : head, from.port, from.address);
    }
    this.held = [];
  }

  speak() {
    this.isSilent = false;
    this.answer();
  }
}

async function front(context, generation) {
  const file = path.join(scratch(), 'front.yaml');
  const list = (urls) => `\n  num_instances: ${urls.length}\n  urls: ${JSON.stringify(urls)}\n`;
  fs.writeFileSync(file, `hostname: 127.0.0.1\nport: 0\ncontext_servers:${list(context)}generation_servers:${list(generation)}`);
  const child = new Child(['route', '--config', file]);
  return { child, port: Number((await child.line(/^ready http:\S+:(\d+)/))[1]) };
}

let salt = 0;
const ask = (port) => post(port, '/v1/completions', { model: 'demo', prompt: `${salt++} In the beginning God created the heaven and the earth.`, max_tokens: 4, temperature: 0 });
const handOffs = (worker) => metric(worker.port, 'baton_handoff_seconds_count');

execFileSync('ip', ['link', 'set', 'lo', 'up']);
mount('/etc/resolv.conf', `nameserver 127.0.0.1\noptions timeout:${SILENT_S} attempts:1\n`);
mount('/etc/nsswitch.conf', 'hosts: files dns\n');
const names = new NameService();
await names.open();

const parts = [];
try {
  const [context, named, generation] = await Promise.all([
    serve(['--role', 'context', ...OPEN]),
    serve(['--role', 'context', '--advertise', 'context.test', ...OPEN]),
    serve(['--role', 'generation', ...OPEN]),
  ]);
  parts.push(context.child, named.child, generation.child);
  const url = (worker) => `127.0.0.1:${worker.port}`;
  // The front end looks one context server up, in vain.
  const digits = await front([url(context), 'away.test:9'], [url(generation)]);
  parts.push(digits.child);
  await until('a question about away.test', () => names.names.has('away.test'));
  // The generation worker's transfer looks a sender up, in vain.
  const byName = await front([url(named)], [url(generation)]);
  parts.push(byName.child);
  const stuck = ask(byName.port);
  await until('a question about context.test', () => names.names.has('context.test'));

  const begin = Date.now();
  const before = await handOffs(generation);
  for (let i = 0; i < 10; i++) {
    const { status, text } = await ask(digits.port);
    assert.equal(status, 200, text);
    assert.equal((await get(digits.port, '/health')).status, 200);
    assert.equal((await get(generation.port, '/health')).status, 200);
  }
  assert.equal(await handOffs(generation), before + 10, 'hand-offs while names hang');
  const { status } = await stuck;
  console.log(`while two names hung: 10 hand-offs, and one that needed a name ended with ${status}; ${Date.now() - begin} ms`);
  assert.ok(Date.now() - begin < SILENT_S * 700, 'something waited for the name service');

  names.speak();
  await until('a hand-off from a worker that has a name', async () => {
    const count = await handOffs(generation);
    const answer = await ask(byName.port);
    return answer.status === 200 && await handOffs(generation) > count;
  }, 60000);

  // Names hang again while all end: nobody waits for them.
  names.isSilent = true;
  names.names.clear();
  await until('another question', () => names.names.size > 0);
  const codes = await Promise.all(parts.map((child) => child.stop('SIGTERM', SILENT_S * 700)));
  assert.deepEqual(codes, codes.map(() => 0));
} catch (error) {
  console.error(error.message, ...parts.map((child) => child.errors));
  process.exitCode = 1;
}
process.exit();
