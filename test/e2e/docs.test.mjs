// What is written about the program is what the program does.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { baton, build, demo, get, post, root, scratch, until, up } from './lib/cluster.mjs';

const sources = () => fs.readdirSync(path.join(root, 'src'), { recursive: true }).filter((f) => f.endsWith('.c')).map((f) => path.join(root, 'src', f));
const commands = ['up', 'serve', 'route', 'generate', 'tokenize', 'inspect', 'doctor', 'bench'];

test('baton.yaml(5) holds every setting the parsers know', () => {
  const page = execFileSync(path.join(build, 'man_config'), { encoding: 'utf8' });
  assert.equal(page, fs.readFileSync(path.join(root, 'docs/man/baton.yaml.5'), 'utf8'), 'build/man_config >docs/man/baton.yaml.5');
});

test('flags.md holds every option, the key it sets, and every variable', () => {
  const text = fs.readFileSync(path.join(root, 'docs/flags.md'), 'utf8');
  const made = execFileSync(path.join(build, 'man_config'), ['flags'], { encoding: 'utf8' });
  assert.equal(text, made, 'build/man_config flags >docs/flags.md');
  for (const file of sources()) {
    for (const [, name] of fs.readFileSync(file, 'utf8').matchAll(/getenv\("(\w+)"/g)) assert.ok(text.includes(`\`${name}\``), `${name} of ${file}`);
  }
});

test('every command answers --help, and baton(1) names it', () => {
  const page = fs.readFileSync(path.join(root, 'docs/man/baton.1'), 'utf8');
  for (const command of commands) {
    const { status, stdout } = spawnSync(baton, [command, '--help'], { encoding: 'utf8' });
    assert.equal(status, 0, command);
    assert.match(stdout, /Usage: baton/);
    assert.match(page, new RegExp(`^\\.B ${command}`, 'm'));
  }
  assert.equal(spawnSync(baton, ['--help']).status, 0);
  assert.equal(spawnSync(baton, []).status, 2);
  assert.equal(spawnSync(baton, ['nonsense']).status, 2);
});

test('the README names only options and files that are there', () => {
  const text = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
  for (const [, file] of text.matchAll(/\(((?:[A-Z]+|docs\/\w+)\.md)\)|`(models\/[\w.]+|docs\/man)`/g)) {
    if (file) assert.ok(fs.existsSync(path.join(root, file)), file);
  }
  for (const [, command, rest] of text.matchAll(/baton (up|serve|route|inspect|bench) ([^\n`]*)/g)) {
    const help = spawnSync(baton, [command, '--help'], { encoding: 'utf8' }).stdout;
    for (const [option] of rest.matchAll(/--[a-z-]+/g)) assert.ok(help.includes(option), `baton ${command} ${option}`);
  }
});

test('docs/metrics.md lists every metric with its kind', () => {
  const rows = [...fs.readFileSync(path.join(root, 'docs/metrics.md'), 'utf8').matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, name, kind]) => `${name} ${kind}`);
  const files = ['front', 'worker'].map((who) => fs.readFileSync(path.join(root, `test/golden/names/${who}_metrics.txt`), 'utf8').trim().split('\n'));
  assert.deepEqual(rows, files.flat());
});

const operations = () => fs.readFileSync(path.join(root, 'docs/operations.md'), 'utf8');

test('links between the documents lead somewhere', () => {
  const anchor = (head) => head.toLowerCase().replace(/[^a-z0-9 -]/g, '').replaceAll(' ', '-');
  for (const file of ['README.md', 'docs/api.md', 'docs/operations.md', 'docs/flags.md']) {
    for (const [, to] of fs.readFileSync(path.join(root, file), 'utf8').matchAll(/\]\(([^)\s]+)\)/g)) {
      const [name, head] = to.split('#');
      const target = path.join(root, name === '' ? file : path.join(path.dirname(file), name));
      assert.ok(fs.existsSync(target), `${file}: ${to}`);
      if (!head) continue;
      const heads = [...fs.readFileSync(target, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, text]) => anchor(text));
      assert.ok(heads.includes(head), `${file}: ${to}`);
    }
  }
});

// Front end and workers know the same key, or every request is 502.
test('the files of operations.md are good ones, each with the internal key', () => {
  const folder = scratch();
  const key = path.join(folder, 'key');
  fs.writeFileSync(key, 'shared', { mode: 0o600 });
  const blocks = [...operations().matchAll(/^```yaml\n# (\w+\.yaml)([^]*?)^```$/gm)];
  assert.deepEqual(blocks.map(([, name]) => name), ['context.yaml', 'front.yaml']);
  for (const [, name, text] of blocks) {
    const file = path.join(folder, name);
    assert.match(text, name === 'front.yaml' ? /^internal_request_auth_key: "/m : /^auth_key_file: \/etc\/baton\/key$/m);
    const here = text.replace(/^model: .*$/m, `model: ${demo}`).replace(/^auth_key_file: .*$/m, `auth_key_file: ${key}`);
    fs.writeFileSync(file, `#${here}`, { mode: 0o600 });
    const { status, stdout } = spawnSync(baton, ['inspect', '--config', file], { encoding: 'utf8' });
    assert.equal(status, 0, stdout);
    assert.match(stdout, name === 'front.yaml' ? /: a front end/ : /served by baton +yes/);
  }
});

test('the units start commands with options that are there', () => {
  for (const name of ['context', 'generation', 'front']) {
    const unit = fs.readFileSync(path.join(root, `docs/systemd/baton-${name}.service`), 'utf8');
    const [, command, rest] = unit.match(/^ExecStart=\/usr\/local\/bin\/baton (\w+) (.*)$/m);
    const help = spawnSync(baton, [command, '--help'], { encoding: 'utf8' }).stdout;
    for (const [option] of rest.matchAll(/--[a-z-]+/g)) assert.ok(help.includes(option), `${name}: ${option}`);
    assert.ok(rest.includes(`${name}.yaml`));
  }
});

test('metrics that operations.md watches exist, and an id tells its time', async () => {
  const cluster = await up(['--threads', '2']);
  try {
    const rows = [...operations().matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)].flatMap(([, cell]) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name));
    const worker = cluster.worker('context-0').port;
    const [front, own] = [(await get(cluster.port, '/metrics')).text, (await get(worker, '/metrics')).text];
    assert.ok(rows.length > 20);
    for (const name of rows) {
      const isFront = name.startsWith('baton_front_') || !name.startsWith('baton_');
      assert.match(isFront ? front : own, new RegExp(`^# TYPE ${name} `, 'm'));
    }
    await post(cluster.port, '/v1/completions', { model: 'demo', prompt: 'Who made the heaven?', max_tokens: 2 });
    const id = await until('a hand-off', async () => (await get(worker, '/transfers')).text.match(/"disagg_request_id":(\d+)/)?.[1]);
    const made = Number((BigInt(id) - (1n << 40n)) >> 24n) + Date.UTC(2024, 0);
    assert.ok(Math.abs(Date.now() - made) < 60000, `${id} is of ${new Date(made)}`);
  } finally {
    await cluster.stop();
  }
});
