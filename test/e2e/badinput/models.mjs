// Model files that are damaged or hostile: [name, make(good) -> bytes]. `good`
// is a small true model; every change is made to a copy.
const MAGIC = Buffer.from('GGUF');
const u32 = (value) => { const b = Buffer.alloc(4); b.writeUInt32LE(value >>> 0); return b; };
const u64 = (value) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value))); return b; };
const f32 = (value) => { const b = Buffer.alloc(4); b.writeFloatLE(value); return b; };
const text = (value) => { const b = Buffer.from(value); return Buffer.concat([u64(b.length), b]); };
const U32 = 4;
const F32 = 6;
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;
export const key = (name, type, value) => Buffer.concat([text(name), u32(type), value]);
const header = (tensors, keys, version = 3) => Buffer.concat([MAGIC, u32(version), u64(tensors), u64(keys)]);
const file = (keys, tensors = [], data = Buffer.alloc(0)) => {
  const head = Buffer.concat([header(tensors.length, keys.length), ...keys, ...tensors]);
  return Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), data]);
};
const tensor = (name, dims, type, offset) => Buffer.concat([text(name), u32(dims.length), ...dims.map(u64), u32(type), u64(offset)]);
const ARCH = key('general.architecture', STRING, text('llama'));

// Where things stand in a true file.
function parse(bytes) {
  let at = 24;
  const number = (size) => { const v = size === 8 ? bytes.readBigUInt64LE(at) : bytes.readUIntLE(at, size); at += size; return Number(v); };
  const string = () => { const n = number(8); at += n; return bytes.subarray(at - n, at).toString(); };
  const sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
  const keys = [];
  const count = Number(bytes.readBigUInt64LE(16));
  for (let i = 0; i < count; i++) {
    const begin = at;
    const name = string();
    const typeAt = at;
    const type = number(4);
    const valueAt = at;
    if (type === STRING) string();
    else if (type === ARRAY) {
      const element = number(4);
      const n = number(8);
      if (element === STRING) for (let k = 0; k < n; k++) string(); else at += n * sizes[element];
    } else at += sizes[type];
    keys.push({ name, begin, typeAt, valueAt, end: at });
  }
  const tensors = [];
  const tensorCount = Number(bytes.readBigUInt64LE(8));
  for (let i = 0; i < tensorCount; i++) {
    const begin = at;
    const name = string();
    const dims = number(4);
    const dimsAt = at;
    at += 8 * dims;
    const typeAt = at;
    at += 4;
    const offsetAt = at;
    at += 8;
    tensors.push({ name, begin, dimsAt, typeAt, offsetAt, end: at, dims });
  }
  return { keys, tensors, head: at, data: Math.ceil(at / 32) * 32 };
}

const put = (bytes, at, part) => { const copy = Buffer.from(bytes); part.copy(copy, at); return copy; };
const pad = (good, headEnd, head) => Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), good.subarray(parse(good).data)]);
// The file with a key replaced (or, without `part`, removed, or added).
function withKey(good, name, part) {
  const map = parse(good);
  const found = map.keys.find((k) => k.name === name);
  const pieces = [good.subarray(24, found ? found.begin : map.keys[0].begin), part ?? Buffer.alloc(0), good.subarray(found ? found.end : map.keys[0].begin, map.head)];
  const count = map.keys.length + (found ? 0 : 1) - (part || !found ? 0 : 1);
  return pad(good, map.head, Buffer.concat([header(map.tensors.length, count), ...pieces]));
}
const tensorOf = (good, name) => parse(good).tensors.find((t) => t.name === name);
function withoutTensor(good, name) {
  const map = parse(good);
  const found = tensorOf(good, name);
  return pad(good, map.head, Buffer.concat([header(map.tensors.length - 1, map.keys.length), good.subarray(24, found.begin), good.subarray(found.end, map.head)]));
}
const named = (good, from, to) => put(good, tensorOf(good, from).begin + 8, Buffer.from(to));

const cuts = [0, 1, 3, 4, 8, 16, 23, 24, 30, 40, 60, 100, 1000, 3000];
const A = 'llama.';
export const models = [
  ...cuts.map((size) => [`cut at ${size}`, (good) => good.subarray(0, size)]),
  ['cut in the last key', (good) => good.subarray(0, parse(good).keys.at(-1).end - 3)],
  ['cut in the first tensor entry', (good) => good.subarray(0, parse(good).tensors[0].end - 5)],
  ['cut before the data', (good) => good.subarray(0, parse(good).head)],
  ['cut in the data', (good) => good.subarray(0, good.length - 1000)],
  ['cut by one byte', (good) => good.subarray(0, good.length - 1)],
  ['bad magic', (good) => put(good, 0, Buffer.from('GGML'))],
  ['a text file', () => Buffer.from('Once upon a time there was no model.\n'.repeat(20))],
  ['zeros', () => Buffer.alloc(5000)],
  ['big-endian', (good) => put(good, 4, Buffer.from([0, 0, 0, 3]))],
  ['version 0', (good) => put(good, 4, u32(0))],
  ['version 1', (good) => put(good, 4, u32(1))],
  ['version 4', (good) => put(good, 4, u32(4))],
  ['tensor count 2^63', (good) => put(good, 8, u64(1n << 63n))],
  ['tensor count 2^64 - 1', (good) => put(good, 8, u64(-1n))],
  ['tensor count 0', (good) => put(good, 8, u64(0))],
  ['key count 2^64 - 1', (good) => put(good, 16, u64(-1n))],
  ['key count 10^9', (good) => put(good, 16, u64(1e9))],
  ['key count 0', (good) => put(good, 16, u64(0))],
  ['a key of 2^63 bytes', (good) => put(good, 24, u64(1n << 63n))],
  ['a key of 2^64 - 8 bytes', (good) => put(good, 24, u64(-8n))],
  ['a key of no bytes', () => file([key('', U32, u32(1))])],
  ['a key of 100 KB', () => file([key('k'.repeat(100000), U32, u32(1))])],
  ['value type 13', (good) => put(good, parse(good).keys[1].typeAt, u32(13))],
  ['a string that leaves the file', () => file([key('general.architecture', STRING, u64(1n << 40n))])],
  ['an array of arrays', () => file([ARCH, key('a.b', ARRAY, Buffer.concat([u32(ARRAY), u64(1), u32(U32), u64(1), u32(1)]))])],
  ['an array of type 99', () => file([ARCH, key('a.b', ARRAY, Buffer.concat([u32(99), u64(1)]))])],
  ['an array of 2^61 numbers', () => file([ARCH, key('a.b', ARRAY, Buffer.concat([u32(U32), u64(1n << 61n)]))])],
  ['an array of 2^62 strings', () => file([ARCH, key('a.b', ARRAY, Buffer.concat([u32(STRING), u64(1n << 62n)]))])],
  ['an array whose string leaves the file', () => file([ARCH, key('a.b', ARRAY, Buffer.concat([u32(STRING), u64(1), u64(1n << 50n), Buffer.alloc(64)]))])],
  ['the same key twice', () => file([ARCH, ARCH])],
  ['only a header', () => header(0, 0)],
  ['alignment 0', (good) => withKey(good, 'general.alignment', key('general.alignment', U32, u32(0)))],
  ['alignment 33', (good) => withKey(good, 'general.alignment', key('general.alignment', U32, u32(33)))],
  ['alignment 2^31', (good) => withKey(good, 'general.alignment', key('general.alignment', U32, u32(1 << 31)))],
  ['alignment a text', (good) => withKey(good, 'general.alignment', key('general.alignment', STRING, text('32')))],
  ['a tensor of no dimensions', () => file([ARCH], [tensor('x', [], 0, 0)])],
  ['a tensor of 5 dimensions', () => file([ARCH], [tensor('x', [1, 1, 1, 1, 1], 0, 0)])],
  ['a tensor of dimension 0', () => file([ARCH], [tensor('x', [0], 0, 0)])],
  ['dimensions that overflow', () => file([ARCH], [tensor('x', [1n << 40n, 1n << 40n], 0, 0)])],
  ['a size that overflows', () => file([ARCH], [tensor('x', [1n << 63n], 0, 0)])],
  ['a tensor of unknown type', (good) => put(good, tensorOf(good, 'token_embd.weight').typeAt, u32(250))],
  ['a tensor of type IQ2_XXS', (good) => put(good, tensorOf(good, 'token_embd.weight').typeAt, u32(16))],
  ['half a block in a row', () => file([ARCH], [tensor('x', [33], 8, 0)], Buffer.alloc(4096))],
  ['an offset outside', (good) => put(good, tensorOf(good, 'token_embd.weight').offsetAt, u64(1n << 40n))],
  ['an offset of 2^64 - 32', (good) => put(good, tensorOf(good, 'token_embd.weight').offsetAt, u64(-32n))],
  ['an offset off the alignment', (good) => put(good, tensorOf(good, 'token_embd.weight').offsetAt, u64(5))],
  ['a tensor name of 2^40 bytes', (good) => put(good, tensorOf(good, 'token_embd.weight').begin, u64(1n << 40n))],
  ['two tensors of one name', (good) => named(good, 'blk.1.attn_q.weight', 'blk.0.attn_q.weight')],
  ['no architecture', (good) => withKey(good, 'general.architecture')],
  ['architecture a number', (good) => withKey(good, 'general.architecture', key('general.architecture', U32, u32(1)))],
  ['architecture mamba', (good) => withKey(good, 'general.architecture', key('general.architecture', STRING, text('mamba')))],
  ...['block_count', 'embedding_length', 'feed_forward_length', 'attention.head_count', 'context_length', 'attention.layer_norm_rms_epsilon'].map((name) => [`without ${name}`, (good) => withKey(good, A + name)]),
  ['block_count a text', (good) => withKey(good, `${A}block_count`, key(`${A}block_count`, STRING, text('2')))],
  ['block_count 0', (good) => withKey(good, `${A}block_count`, key(`${A}block_count`, U32, u32(0)))],
  ['block_count 2^32 - 1', (good) => withKey(good, `${A}block_count`, key(`${A}block_count`, U32, u32(-1)))],
  ['block_count one more', (good) => withKey(good, `${A}block_count`, key(`${A}block_count`, U32, u32(3)))],
  ['block_count one less', (good) => withKey(good, `${A}block_count`, key(`${A}block_count`, U32, u32(1)))],
  ['embedding_length 0', (good) => withKey(good, `${A}embedding_length`, key(`${A}embedding_length`, U32, u32(0)))],
  ['embedding_length other', (good) => withKey(good, `${A}embedding_length`, key(`${A}embedding_length`, U32, u32(128)))],
  ['head_count 0', (good) => withKey(good, `${A}attention.head_count`, key(`${A}attention.head_count`, U32, u32(0)))],
  ['head_count 3', (good) => withKey(good, `${A}attention.head_count`, key(`${A}attention.head_count`, U32, u32(3)))],
  ['head_count_kv 3', (good) => withKey(good, `${A}attention.head_count_kv`, key(`${A}attention.head_count_kv`, U32, u32(3)))],
  ['head_count_kv 0', (good) => withKey(good, `${A}attention.head_count_kv`, key(`${A}attention.head_count_kv`, U32, u32(0)))],
  ['key_length odd', (good) => withKey(good, `${A}attention.key_length`, key(`${A}attention.key_length`, U32, u32(7)))],
  ['context_length 0', (good) => withKey(good, `${A}context_length`, key(`${A}context_length`, U32, u32(0)))],
  ['context_length 2^32 - 1', (good) => withKey(good, `${A}context_length`, key(`${A}context_length`, U32, u32(-1)))],
  ['epsilon NaN', (good) => withKey(good, `${A}attention.layer_norm_rms_epsilon`, key(`${A}attention.layer_norm_rms_epsilon`, F32, f32(NaN)))],
  ['rope base 0', (good) => withKey(good, `${A}rope.freq_base`, key(`${A}rope.freq_base`, F32, f32(0)))],
  ['rope scaling unknown', (good) => withKey(good, `${A}rope.scaling.type`, key(`${A}rope.scaling.type`, STRING, text('spiral')))],
  ['experts', (good) => withKey(good, `${A}expert_count`, key(`${A}expert_count`, U32, u32(8)))],
  ['without token_embd', (good) => withoutTensor(good, 'token_embd.weight')],
  ['without output_norm', (good) => withoutTensor(good, 'output_norm.weight')],
  ['without blk.1.attn_q', (good) => withoutTensor(good, 'blk.1.attn_q.weight')],
  ['without blk.0.ffn_down', (good) => withoutTensor(good, 'blk.0.ffn_down.weight')],
  ['with a tensor nobody knows', (good) => named(good, 'blk.1.attn_q.weight', 'blk.1.attn_X.weight')],
  ['attn_q of another shape', (good) => put(good, tensorOf(good, 'blk.0.attn_q.weight').dimsAt + 8, u64(32))],
  ['output_norm of another shape', (good) => put(good, tensorOf(good, 'output_norm.weight').dimsAt, u64(32))],
  ['token_embd of another shape', (good) => put(good, tensorOf(good, 'token_embd.weight').dimsAt + 8, u64(100))],
  ['no tokenizer', (good) => withKey(good, 'tokenizer.ggml.model')],
  ['tokenizer unknown', (good) => withKey(good, 'tokenizer.ggml.model', key('tokenizer.ggml.model', STRING, text('wordy')))],
  ['tokenizer a number', (good) => withKey(good, 'tokenizer.ggml.model', key('tokenizer.ggml.model', U32, u32(1)))],
  ['pre-tokenizer unknown', (good) => withKey(good, 'tokenizer.ggml.pre', key('tokenizer.ggml.pre', STRING, text('wild')))],
  ['no tokens', (good) => withKey(good, 'tokenizer.ggml.tokens')],
  ['an empty token list', (good) => withKey(good, 'tokenizer.ggml.tokens', key('tokenizer.ggml.tokens', ARRAY, Buffer.concat([u32(STRING), u64(0)])))],
  ['tokens are numbers', (good) => withKey(good, 'tokenizer.ggml.tokens', key('tokenizer.ggml.tokens', ARRAY, Buffer.concat([u32(U32), u64(2), u32(1), u32(2)])))],
  ['too few tokens', (good) => withKey(good, 'tokenizer.ggml.tokens', key('tokenizer.ggml.tokens', ARRAY, Buffer.concat([u32(STRING), u64(2), text('a'), text('b')])))],
  ['too few token types', (good) => withKey(good, 'tokenizer.ggml.token_type', key('tokenizer.ggml.token_type', ARRAY, Buffer.concat([u32(5), u64(1), u32(1)])))],
  ['no merges', (good) => withKey(good, 'tokenizer.ggml.merges')],
  ['a merge without a blank', (good) => withKey(good, 'tokenizer.ggml.merges', key('tokenizer.ggml.merges', ARRAY, Buffer.concat([u32(STRING), u64(1), text('ab')])))],
  ['a merge of unknown tokens', (good) => withKey(good, 'tokenizer.ggml.merges', key('tokenizer.ggml.merges', ARRAY, Buffer.concat([u32(STRING), u64(1), text('QQQQ ZZZZ')])))],
  ['end token outside', (good) => withKey(good, 'tokenizer.ggml.eos_token_id', key('tokenizer.ggml.eos_token_id', U32, u32(999999)))],
  ['begin token -1, which means none', (good) => withKey(good, 'tokenizer.ggml.bos_token_id', key('tokenizer.ggml.bos_token_id', U32, u32(-1)))],
  ['add_bos a number', (good) => withKey(good, 'tokenizer.ggml.add_bos_token', key('tokenizer.ggml.add_bos_token', U32, u32(1)))],
  ['an unknown chat template', (good) => withKey(good, 'tokenizer.chat_template', key('tokenizer.chat_template', STRING, text('{{ strange }}')))],
  ['as it is', (good) => good],
  ['BOOL key for nothing', (good) => withKey(good, 'my.key', key('my.key', BOOL, Buffer.from([7])))],
];
