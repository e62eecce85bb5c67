// Runs the text_batch program (test/tools/text_batch.c) over many cases.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));

export function findBatch() {
  const build = process.env.BATON_BUILD ?? path.join(here, '..', '..', 'build');
  const program = process.env.BATON_TEXT_BATCH ??
    path.join(build, 'text_batch');
  if (!fs.existsSync(program)) {
    throw new Error(`${program} is missing: ninja -C ${build} text_batch`);
  }
  return program;
}

function encodeRecord(fields) {
  const parts = [];
  const number = (value) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    parts.push(bytes);
  };
  number(fields.length);
  for (const field of fields) {
    const bytes = Buffer.from(field);
    number(bytes.length);
    parts.push(bytes);
  }
  return Buffer.concat(parts);
}

// Each record is an array of strings or buffers; gives a line for each.
export function runBatch(model, mode, records) {
  const result = spawnSync(findBatch(), [model, ...mode], {
    input: Buffer.concat(records.map(encodeRecord)),
    maxBuffer: 1 << 30,
  });
  if (result.status !== 0) {
    throw new Error(`text_batch: ${result.stderr} (${result.signal})`);
  }
  return result.stdout.toString().split('\n').slice(0, -1);
}
