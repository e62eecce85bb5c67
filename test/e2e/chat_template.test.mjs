// Our rendering against that of @huggingface/jinja running the template itself,
// for each template in test/golden/chat and conversations of many shapes.
//
// UPDATE=1 writes test/golden/chat/NAME.expected anew: what the unit test,
// which has no JavaScript, compares against.
import test from 'node:test';
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Template } from '@huggingface/jinja';
import { encodeGguf } from '../../tools/vocab2gguf.mjs';
import { runBatch } from './text_batch.mjs';

const golden = path.join(path.dirname(fileURLToPath(import.meta.url)), '..',
  'golden', 'chat');
const BOS = '<s>';
const EOS = '</s>';
const DATE = '26 Jul 2024';

const user = (content) => ({ role: 'user', content });
const assistant = (content) => ({ role: 'assistant', content });
const system = (content) => ({ role: 'system', content });
const tool = (content) => ({ role: 'tool', content });

// No empty system message: '' != false is true in Python, for which templates
// are written and which we follow, but not in this package.
const CONVERSATIONS = [
  [user('Hello')],
  [system('Be brief.'), user('Hello')],
  [user('  Hi \n'), assistant('\n Yes?  '), user('\tGo on\u3000')],
  [system(' Be \n brief. '), user(' a '), assistant(' b '), user(' c ')],
  [system('s'), user('a'), assistant('b')],
  [user('a'), assistant('b')],
  [user(''), assistant(''), user('')],
  [user('2 < 3 && "quotes" \'single\' \\n {{ braces }} {% raw %} é 漢 😀')],
  [user('q'), assistant('<think>\nwhy\n</think>\n\nwhat'), user('r')],
  [user('q'), assistant('<think>\n\nwhy\n\n</think>\n\n\nwhat')],
  [user('q'), assistant('no thought</think>x</think>\ny')],
  [user('q'), assistant('<think>a</think>b'), assistant('c'), user('r')],
  [user('q'), assistant('call'), tool('1'), tool('2'), assistant('so')],
  [user('q'), assistant('<think>t</think>call'), tool('1'),
    assistant('<think>u</think>more'), tool('2')],
  [user('q'), assistant('x'),
    user('<tool_response>\n1\n</tool_response>'), assistant('y')],
  [tool('first'), user('q')],
  [user('a'), system('late'), user('b')],
  [assistant('I begin'), user('a')],
  [user('a'), user('b')],
  [system('a'), system('b'), user('c')],
  [assistant('alone')],
  [system('alone')],
  [user('[INST] <|im_end|> </s> <<SYS>>')],
];

// "! " where the template raises an exception, as ours begins a refusal.
function renderJinja(template, messages, flags) {
  const context = {
    messages, add_generation_prompt: (flags & 1) !== 0, bos_token: BOS,
    eos_token: EOS, date_string: DATE,
  };
  if (flags & 2) context.enable_thinking = false;
  try {
    return template.render(context);
  } catch {
    return '!';
  }
}

// Llama 2's templates drop a system message that comes late, or print it out of
// place; we say so instead.
function isRefusedByUs(name, messages) {
  return name.startsWith('llama2') &&
    messages.slice(1).some(({ role }) => role === 'system');
}

function modelFile(name, template) {
  const file = path.join(os.tmpdir(), `baton-chat-${process.pid}-${name}`);
  const tokens = ['<unk>', BOS, EOS, 'a'];
  fs.writeFileSync(file, encodeGguf({
    model: 'llama', tokens, types: [2, 3, 3, 1], scores: [0, 0, 0, 0],
    ids: { bos: 1, eos: 2, unknown: 0 }, template,
  }));
  return file;
}

function cases() {
  const list = [];
  for (const messages of CONVERSATIONS) {
    for (const flags of [0, 1, 3]) list.push({ messages, flags });
  }
  return list;
}

function renderOurs(name, template) {
  const file = modelFile(name, template);
  try {
    const records = cases().map(({ messages, flags }) => [
      Buffer.from([flags]),
      ...messages.flatMap(({ role, content }) => [role, content])]);
    return runBatch(file, ['chat'], records).map((line) => (
      line.startsWith('!') ? '!' : Buffer.from(line, 'hex').toString()));
  } finally {
    fs.unlinkSync(file);
  }
}

function writeExpected(name, template) {
  const messages = CONVERSATIONS[3];
  const text = renderJinja(template, messages, 1);
  const bare = renderJinja(template, messages.slice(1), 1);
  fs.writeFileSync(path.join(golden, name + '.expected'), text === '!'
    ? bare : text);
}

const names = fs.readdirSync(golden).filter((file) => file.endsWith('.jinja'))
  .map((file) => file.slice(0, -'.jinja'.length));

for (const name of names) {
  test(`${name} renders as its template does`, () => {
    const source = fs.readFileSync(path.join(golden, name + '.jinja'), 'utf8');
    const template = new Template(source);
    const ours = renderOurs(name, source);
    cases().forEach(({ messages, flags }, i) => {
      const expected = isRefusedByUs(name, messages)
        ? '!' : renderJinja(template, messages, flags);
      assert.equal(ours[i], expected,
        `${name}, flags ${flags}: ${JSON.stringify(messages)}`);
    });
    if (process.env.UPDATE) writeExpected(name, template);
  });
}

for (const file of fs.readdirSync(path.join(golden, 'unknown'))) {
  test(`${file} is refused, not guessed`, () => {
    const source = fs.readFileSync(path.join(golden, 'unknown', file), 'utf8');
    assert.throws(() => renderOurs(file, source), /one with --chat-template: .*chatml/);
  });
}
