// Prompts that share prefixes, and what one process answers to them.
import assert from 'node:assert/strict';
import { generate, post } from './cluster.mjs';

// A small generator, so that a failing run can be had again.
function random(seed) {
  let s = seed >>> 0;
  return (bound) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return Math.floor((s / 2 ** 32) * bound);
  };
}

export function prompts(count, vocab, longest, seed) {
  const next = random(seed);
  const ids = (n) => Array.from({ length: n }, () => 1 + next(vocab - 1));
  const shared = [ids(400), ids(150), ids(70)];
  return Array.from({ length: count }, (_, i) => {
    const kind = next(3);
    const length = i === 0 ? 1 : i === 1 ? longest : 1 + next(next(4) === 0 ? longest : 200);
    if (kind === 0) return ids(length);
    const base = shared[next(3)].slice(0, Math.max(1, length - 1));
    return [...base, ...ids(Math.max(1, length - base.length))].slice(0, longest);
  });
}

// Greedy, `width` at a time, against a running server.
export async function runAll(port, list, width, tokens) {
  const answers = new Array(list.length);
  let at = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    while (at < list.length) {
      const i = at++;
      const { status, json, text } = await post(port, '/v1/completions', { model: 'm', prompt: list[i], max_tokens: tokens, temperature: 0, detokenize: false, ignore_eos: true });
      assert.equal(status, 200, text);
      answers[i] = json.choices[0].token_ids;
    }
  }));
  return answers;
}

// The same by one process each, alone.
export function generateAll(model, list, tokens) {
  return list.map((ids) => generate(['--prompt-ids', JSON.stringify(ids), '--max-tokens', String(tokens), '--ignore-eos', '--threads', '1'], { model }).token_ids);
}
