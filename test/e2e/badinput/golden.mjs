// Golden lines: what a bad input was answered with, compared with a file.
// GOLDEN=write rewrites the file.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { root } from '../lib/cluster.mjs';

export class Golden {
  constructor(name) {
    this.file = path.join(root, 'test/golden/badinput', `${name}.txt`);
    this.lines = new Map();
    this.volatile = [];
  }

  // Replaces a value that changes from run to run by a name.
  hide(value, name) { this.volatile.push([String(value), name]); }

  plain(text) {
    let plain = String(text);
    for (const [value, name] of this.volatile) plain = plain.replaceAll(value, name);
    return plain.replace(/127\.0\.0\.1:\d{4,5}/g, '127.0.0.1:PORT').replace(/\s*\n\s*/g, ' / ').replace(/[^\x20-\x7e]/g, (c) => `\\u${c.codePointAt(0).toString(16)}`).trim();
  }

  add(name, line) {
    assert.ok(!this.lines.has(name), `two cases are called ${name}`);
    this.lines.set(name, this.plain(line));
  }

  // Every difference is reported at once.
  compare() {
    const text = [...this.lines].map(([name, line]) => `${name} | ${line}\n`).join('');
    if (process.env.GOLDEN === 'write') {
      fs.mkdirSync(path.dirname(this.file), { recursive: true });
      fs.writeFileSync(this.file, text);
    }
    const wanted = new Map(fs.readFileSync(this.file, 'utf8').split('\n').filter(Boolean).map((line) => {
      const at = line.indexOf(' | ');
      return [line.slice(0, at), line.slice(at + 3)];
    }));
    const differences = [];
    for (const [name, line] of this.lines) {
      if (wanted.get(name) !== line) differences.push(`${name}\n  expected ${wanted.get(name) ?? '(no line)'}\n  answered ${line}`);
    }
    for (const name of wanted.keys()) if (!this.lines.has(name)) differences.push(`${name}: has a line and was not run`);
    assert.ok(differences.length === 0, `${differences.length} golden lines differ from ${this.file}:\n${differences.join('\n')}`);
  }
}
