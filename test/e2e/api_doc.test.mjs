// docs/api.md against the tables of the source and against a running cluster.
import { test, before, after } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { post, request, root, up } from './lib/cluster.mjs';

const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
const doc = read('docs/api.md');

// { 'Front end': text, ... }
const sections = Object.fromEntries(doc.split(/^## /m).slice(1).map((text) => [text.slice(0, text.indexOf('\n')), text]));

// Rows of the table whose head begins so: cells without their backquotes.
function table(text, head) {
  const at = text.indexOf(`\n| ${head} |`);
  assert.ok(at >= 0, `a table of ${head}`);
  const lines = text.slice(at + 1).split('\n');
  return lines.slice(2, lines.findIndex((line) => !line.startsWith('|'))).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()));
}

const headings = (names) => names.flatMap((name) => [...sections[name].matchAll(/^### (GET|POST) (\S+)$/gm)].map(([, method, at]) => `${method} ${at}`)).sort();

// { "/path", "METHOD", ... of a table in C; a path that ends with a slash takes a name.
const routed = (file) => [...read(file).matchAll(/^ {4}\{"(\/[^"]*)", "([A-Z]+)",/gm)].map(([, at, method]) => `${method} ${at.replace(/\/$/, '/{id}')}`).sort();

let cluster;
let ports;
before(async () => {
  cluster = await up(['--threads', '2', '--event-buffer-max-size', '100']);
  ports = { 8000: cluster.port, 8101: cluster.worker('context-0').port, 8102: cluster.worker('generation-0').port };
});
after(() => cluster.stop());

test('every path that is routed stands in the document, and no other', () => {
  assert.deepEqual(headings(['Front end']), routed('src/route/front.c'));
  assert.deepEqual(headings(['Worker', 'Internal']), routed('src/serve/routes.c'));
});

// By what is refused: the path is known, and takes what its heading says.
test('a running cluster has these paths and methods', async () => {
  for (const [names, port] of [[['Front end'], 8000], [['Worker', 'Internal'], 8101], [['Worker', 'Internal'], 8102]]) {
    const methods = {};
    for (const line of headings(names)) {
      const [method, at] = line.split(' ');
      (methods[at] ??= []).push(method);
    }
    for (const [at, known] of Object.entries(methods)) {
      const { status, headers } = await request(ports[port], 'PUT', at.replace('{id}', 'demo'));
      assert.equal(status, 405, at);
      assert.deepEqual(headers.allow.split(', ').sort(), known.sort(), at);
      const beside = await request(ports[port], known[0], `${at}/x`.replace('{id}/x', ''));
      assert.equal(beside.status, 404, `beside ${at}`);
    }
  }
});

// "$ curl ..." and what it printed, of all blocks.
function examples() {
  const blocks = [...doc.matchAll(/^```\n([^]*?)^```$/gm)].map(([, text]) => text);
  return blocks.flatMap((text) => text.split(/^\$ /m).slice(1)).map((text) => {
    const at = text.search(/^HTTP/m);
    return { command: text.slice(0, at), status: Number(text.slice(at).match(/^HTTP\/1.1 (\d+)/)[1]), shown: text.slice(at) };
  });
}

// Numbers, ids and words of the model may differ; names and their order not.
const masked = (text) => text.replace(/[0-9a-f]{32,}/g, 'ID').replace(/"(text|content)": ?"(\\.|[^"\\])*"/g, '"$1":TEXT')
  .replace(/\[(-?\d+, ?)*-?\d+\]/g, 'IDS').replace(/-?\d+(\.\d+)?(e-?\d+)?/g, '1').replace(/\s+/g, '');

test('every example answers as it stands there', () => {
  const list = examples();
  assert.ok(list.length >= 20);
  for (const { command, status, shown } of list) {
    const own = command.replace(/localhost:(\d+)/g, (_, port) => `127.0.0.1:${ports[port]}`).replace(/^curl /, 'curl -s -m 20 ');
    const { stdout } = spawnSync('sh', ['-c', own], { encoding: 'utf8' });
    assert.equal(Number(stdout.match(/^HTTP\/1.1 (\d+)/)?.[1]), status, command);
    const real = masked(stdout);
    let from = 0;
    for (const piece of masked(shown).split('...').filter(Boolean)) {
      const at = real.indexOf(piece, from);
      assert.ok(at >= 0, `${command}\nshows ${piece}\nthere is ${real.slice(from)}`);
      from = at + piece.length;
    }
  }
});

// ['name', 'c m'] by the table of fields in the source.
function fields() {
  const routes = { CMPL: 'c', CHAT: 'm', BOTH: 'c m', ALL: 'c m', 'CMPL | TOK': 'c', 'CHAT | TOK': 'm', 'BOTH | TOK': 'c m' };
  return [...read('src/api/openai_fields.c').matchAll(/^ {4}(BOOL|INT|NUMBER|CALL|LACK)\(([A-Z |]+), "?(\w+)"?/gm)]
    .filter(([, , route]) => routes[route]).map(([, kind, route, name]) => ({ name, kind, of: routes[route] }));
}

const byFrontEnd = ['disaggregated_params', 'prompt_token_ids_b64'];

test('every field stands in one of the two tables, for the same paths', () => {
  const names = (rows) => rows.map(([field, of]) => `${field.replaceAll('`', '')} ${of}`).sort();
  const known = fields();
  const taken = known.filter((f) => f.kind !== 'LACK' && !byFrontEnd.includes(f.name));
  const refused = known.filter((f) => f.kind === 'LACK' || byFrontEnd.includes(f.name));
  const text = sections['Fields of a request'];
  const [first, second] = [text.indexOf('\n| field |'), text.lastIndexOf('\n| field |')];
  assert.notEqual(first, second);
  assert.deepEqual(names(table(text, 'field')), taken.map((f) => `${f.name} ${f.of}`).sort());
  assert.deepEqual(names(table(text.slice(second), 'field')), refused.map((f) => `${f.name} ${f.of}`).sort());
});

const bodies = {
  c: ['/v1/completions', { model: 'demo', prompt: 'x', max_tokens: 1 }],
  m: ['/v1/chat/completions', { model: 'demo', messages: [{ role: 'user', content: 'x' }], max_tokens: 1 }],
};

function ask(of, field, value) {
  const [at, body] = bodies[of];
  return post(ports[8000], at, { ...body, [field]: value });
}

test('bounds are those of the table', async () => {
  let count = 0;
  for (const [cell, of, values] of table(sections['Fields of a request'], 'field')) {
    const field = cell.replaceAll('`', '');
    const bounds = values.match(/^(-?\d+) to (\d+) \(/);
    if (!bounds) continue;
    for (const path of of.split(' ')) {
      for (const value of [Number(bounds[1]) - 1, Number(bounds[2]) + 1]) {
        const { status, json } = await ask(path, field, value);
        assert.equal(status, 400, field);
        assert.equal(json.error.message, `${field}: must be from ${bounds[1]} to ${bounds[2]}`);
        assert.equal(json.error.param, field);
        count++;
      }
    }
  }
  assert.ok(count > 40);
});

test('what is refused is refused by name, and what asks for nothing is taken', async () => {
  const text = sections['Fields of a request'];
  for (const [cell, of, values] of table(text.slice(text.lastIndexOf('\n| field |')), 'field')) {
    const field = cell.replaceAll('`', '');
    for (const path of of.split(' ')) {
      const { status, json } = await ask(path, field, { no: 'such' });
      assert.equal(status, 400, field);
      assert.equal(json.error.param, field);
      for (const [, neutral] of values.matchAll(/`([^`]*)`/g)) {
        if (neutral.startsWith('allow_')) continue;
        const body = JSON.stringify({ ...bodies[path][1], [field]: 'HERE' }).replace('"HERE"', neutral);
        assert.equal((await post(ports[8000], bodies[path][0], body)).status, 200, `${field} ${neutral}`);
      }
    }
  }
});

test('status and type of errors are those of the source', () => {
  const source = read('src/api/error.c').match(/api_error_type_of_status[^]*?\};/)[0];
  const types = Object.fromEntries([...source.matchAll(/\{(\d+), "(\w+)"\}/g)].map(([, status, type]) => [status, type]));
  const rows = table(sections.Errors, 'status');
  for (const status of Object.keys(types)) assert.ok(rows.some(([s]) => s === status), status);
  for (const [status, cell] of rows) {
    const type = types[status] ?? (Number(status) < 500 ? 'invalid_request_error' : 'server_error');
    assert.ok(cell === `\`${type}\`` || (status === '502' && cell === '`kv_transfer_failed`'), `${status} ${cell}`);
  }
  const refusals = fs.readdirSync(path.join(root, 'src/http')).map((file) => read(`src/http/${file}`)).join('').matchAll(/(?:refuse\(\w+,|http_refusal\)\{)\s*(\d{3})/g);
  for (const [, status] of refusals) assert.ok(status === '502' || rows.some(([s]) => s === status), status);
});
