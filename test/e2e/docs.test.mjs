// What is written about the program is what the program does.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { baton, build, root } from './lib/cluster.mjs';

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
