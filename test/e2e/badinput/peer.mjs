// Bytes at a worker's transfer port: [name, make(hello, target, key), options].
// `hello` is true information about a rank, to be changed; `target` is who listens.
// `strangers` say it instead of a greeting, `peers` behind a true one.
import { AUX_RESULT, CANCEL, GREET, GREETED, HEARTBEAT, KV_RESULT, PROOF, REFUSED, REGISTER, REGISTERED, REQUEST_DATA, frame, greet, pack, proofOf } from './wire.mjs';

const register = (change) => (hello) => [frame(REGISTER, pack(change({ ...hello })))];
const without = (name) => register((hello) => { delete hello[name]; return hello; });
const set = (name, value) => register((hello) => ({ ...hello, [name]: value }));
// The same of its first life cycle.
const group = (change) => register((hello) => ({ ...hello, groups: [change({ ...hello.groups[0] }), ...hello.groups.slice(1)] }));
const withoutGroup = (name) => group((first) => { delete first[name]; return first; });
const setGroup = (name, value) => group((first) => ({ ...first, [name]: value }));

// A true hello first, then `type` with `body`.
const then = (type, body, changes) => (hello, target) => [
  frame(REGISTER, pack(hello), { source: hello.incarnation }), 150,
  frame(type, body, { source: hello.incarnation, target, rid: 123456, attempt: 1, ...changes }), 50,
];
const pages = (...values) => { const out = Buffer.alloc(8 * values.length); values.forEach((v, i) => out.writeBigInt64LE(BigInt(v), 8 * i)); return out; };
const REQUEST = {
  block_layout: 3, instance_rank: 0, slice_id: 0, prompt_tokens: 5, block_count: 1, style: 1,
  capabilities: 0, reply_endpoint: 'tcp://127.0.0.1:1', block_ids_per_layer_groups: [pages(0)],
};
// An id each: one that was asked for in vain is remembered for a while.
let lastId = 1000000;
const request = (name, change, changes) => {
  const rid = lastId++;
  return [`a request ${name}`, then(REQUEST_DATA, pack({ ...REQUEST, unique_rid: rid, ...change }), { rid, ...changes })];
};

// A request for what nobody will ever have.
export const nothing = (rid) => ({ rid, body: pack({ ...REQUEST, unique_rid: rid }) });

export const strangers = [
  ['nothing, then close', () => [], { close: true }],
  ['HTTP', () => ['GET / HTTP/1.1\r\nHost: x\r\n\r\n']],
  ['zeros', () => [Buffer.alloc(4096)]],
  ['all ones', () => [Buffer.alloc(4096, 255)]],
  ['random bytes', () => [Buffer.from(Array.from({ length: 2000 }, (_, i) => (i * 89 + 31) & 255))]],
  ['one byte, then close', () => ['B'], { close: true }],
  ['half a head, then close', () => [frame(HEARTBEAT).subarray(0, 20)], { close: true }],
  ['half a body, then close', () => [frame(REGISTER, Buffer.alloc(100)).subarray(0, 80)], { close: true }],
  ['wrong magic', () => [frame(HEARTBEAT, undefined, { magic: 'BTN9' })]],
  ['version 0', () => [frame(HEARTBEAT, undefined, { version: 0 })]],
  ['version 1', () => [frame(HEARTBEAT, undefined, { version: 1 })]],
  ['version 2', () => [frame(HEARTBEAT, undefined, { version: 2 })]],
  ['version 4', () => [frame(HEARTBEAT, undefined, { version: 4 })]],
  ['version 65535', () => [frame(HEARTBEAT, undefined, { version: 65535 })]],
  ['body of 1 MiB + 1', () => [frame(REGISTER, undefined, { size: (1 << 20) + 1 })]],
  ['body of 4 GiB', () => [frame(REGISTER, undefined, { size: 0xffffffff })]],
  ['wrong digest', () => [frame(REGISTER, Buffer.from('abc'), { crc: 1 })]],
  ['a true hello', (hello) => [frame(REGISTER, pack(hello), { source: hello.incarnation })]],
  ['a proof at once', () => [frame(PROOF, Buffer.alloc(32))]],
  ['a greeting without a key', () => [greet('', 99n)]],
  ['a greeting with another key', (hello, target, key) => [greet(`${key}?`, 99n), proofOf(`${key}?`, 99n)]],
  ['a greeting with junk for a proof', () => [greet('x', 99n), () => frame(PROOF, Buffer.alloc(32, 5), { source: 99n })]],
  ['a greeting with a short proof', () => [greet('x', 99n), () => frame(PROOF, Buffer.alloc(31), { source: 99n })]],
  ['a greeting that changes its name', (hello, target, key) => [greet(key, 99n), (bytes) => { const proof = proofOf(key, 99n)(bytes); return frame(PROOF, proof.subarray(44), { source: 98n }); }]],
  ['a greeting answered with what was heard', () => [greet('x', 99n), (bytes) => frame(PROOF, bytes.subarray(44 + 33, 44 + 65), { source: 99n })]],
  ['a greeting twice', () => [greet('x', 99n), 100, greet('x', 99n)]],
  ['a greeting with a flag of 2', () => [frame(GREET, Buffer.alloc(33, 2), { source: 99n })]],
  ['a greeting of nobody', () => [frame(GREET, Buffer.alloc(33), { source: 0n })]],
  ['a greeting of 1,000 bytes', () => [frame(GREET, Buffer.alloc(1000), { source: 99n })]],
  ['an answer to a greeting', () => [frame(GREETED, Buffer.alloc(65), { source: 99n })]],
  ['a refusal of the answer', () => [greet('x', 99n), () => frame(REFUSED, Buffer.from('not you'), { source: 99n })]],
  ['heartbeat before the hello', () => [frame(HEARTBEAT)]],
  ['request before the hello', () => [frame(REQUEST_DATA, Buffer.alloc(10))]],
  ['result before the hello', () => [frame(KV_RESULT, Buffer.alloc(66))]],
  ['cancel before the hello', () => [frame(CANCEL, Buffer.alloc(9))]],
  ['unknown type', () => [frame(99)]],
  ['REGISTERED to a sender', (hello) => [frame(REGISTERED, pack(hello))]],
  ['REFUSED to a sender', () => [frame(REFUSED, Buffer.from('go away'))]],
];

export const peers = [
  ['request before the hello', () => [frame(REQUEST_DATA, Buffer.alloc(10))]],
  ['unknown type before the hello', () => [frame(99)]],
  ['a greeting behind the greeting', (hello, target, key) => [greet(key, 99n)]],
  ['body of 4 GiB behind the greeting', () => [frame(REGISTER, undefined, { size: 0xffffffff })]],
  ['wrong digest behind the greeting', () => [frame(REGISTER, Buffer.from('abc'), { crc: 1 })]],
  ['hello without a body', () => [frame(REGISTER)]],
  ['hello that is no map', () => [frame(REGISTER, pack([1, 2]))]],
  ['hello of an empty map', () => [frame(REGISTER, pack({}))]],
  ['hello cut short', (hello) => { const body = pack(hello); return [frame(REGISTER, body.subarray(0, body.length - 9))]; }],
  ['hello with bytes left over', (hello) => [frame(REGISTER, Buffer.concat([pack(hello), Buffer.from([0xc0])]))]],
  ['hello with a map of 2^32 - 1', () => [frame(REGISTER, Buffer.from([0xdf, 255, 255, 255, 255]))]],
  ['hello with a text of 4 GiB', () => [frame(REGISTER, Buffer.from([0x81, 0xdb, 255, 255, 255, 255, 65]))]],
  ['hello nested 1,000 deep', () => [frame(REGISTER, Buffer.concat([Buffer.from([0x81, 0xa1, 0x61]), Buffer.alloc(1000, 0x91), Buffer.from([0xc0])]))]],
  ...['incarnation', 'tp_size', 'endpoint', 'host', 'pid', 'backend', 'backend_blob', 'model_mark', 'tokenizer_mark', 'memory_bytes', 'groups'].map((name) => [`hello without ${name}`, without(name)]),
  ...['window', 'page_count', 'page_bytes', 'base_offset'].map((name) => [`hello without ${name}`, withoutGroup(name)]),
  ['hello with a text for a number', setGroup('layer_count', 'x')],
  ['hello with a negative number', setGroup('layer_count', -1)],
  ['hello with a number for a text', set('host', 5)],
  ['hello with a long text', set('host', 'h'.repeat(500))],
  ['hello with a zero in a text', set('host', 'a\0b')],
  ['hello with page_count 2^40', setGroup('page_count', 1n << 40n)],
  ['hello with no life cycle', set('groups', [])],
  ['hello with 5 life cycles', register((hello) => ({ ...hello, groups: Array(5).fill(hello.groups[0]) }))],
  ['hello with a life cycle that is none', set('groups', [7])],
  ['hello with pages outside the memory', setGroup('base_offset', (1n << 64n) - 1n)],
  ['hello with less memory than pages', set('memory_bytes', 1)],
  ['hello with a blob of 20 KB', set('backend_blob', Buffer.alloc(20000))],
  ['hello with a key given twice', (hello) => {
    const body = pack(hello);
    const out = Buffer.concat([body, pack('host'), pack('x')]);
    out.writeUInt16BE(out.readUInt16BE(1) + 1, 1);
    return [frame(REGISTER, out)];
  }],
  ['hello of another backend', set('backend', 'nixl')],
  ['hello of other layers', setGroup('layer_count', 99)],
  ['hello of other heads', setGroup('kv_head_count', 99)],
  ['hello of other blocks', setGroup('tokens_per_block', 48)],
  ['hello of blocks that its pages do not hold', setGroup('tokens_per_block', 64)],
  ['hello of other pages', setGroup('page_bytes', 5)],
  ['hello of another window', setGroup('window', 64)],
  ['hello of one life cycle more', register((hello) => ({ ...hello, groups: [...hello.groups, hello.groups[0]] }))],
  ['hello of another rank size', set('tp_size', 2)],
  ['hello of another model', set('model_mark', Buffer.alloc(32, 0xab))],
  ['hello of another tokenizer', set('tokenizer_mark', Buffer.alloc(32, 0xab))],
  ['hello with a short mark', set('model_mark', Buffer.alloc(31))],
  ['hello of another incarnation', set('incarnation', 98)],
  ['hello of incarnation 0', set('incarnation', 0)],
  ['a true hello', (hello) => [frame(REGISTER, pack(hello), { source: hello.incarnation })]],
  ['a true hello twice', (hello) => [frame(REGISTER, pack(hello), { source: hello.incarnation }), 100, frame(REGISTER, pack(hello), { source: hello.incarnation })]],
  ['a true hello, then zeros', (hello) => [frame(REGISTER, pack(hello), { source: hello.incarnation }), 100, Buffer.alloc(100)]],
  ['an unknown type', then(99)],
  ['a heartbeat', then(HEARTBEAT)],
  ['a heartbeat with a body', then(HEARTBEAT, Buffer.alloc(1000))],
  ['REGISTERED afterwards', then(REGISTERED, Buffer.alloc(3))],
  ['a result to a sender', then(KV_RESULT, Buffer.alloc(66))],
  ['first tokens to a sender', then(AUX_RESULT, Buffer.alloc(24))],
  ['a cancel without a body', then(CANCEL)],
  ['a cancel of junk', then(CANCEL, Buffer.alloc(9, 255))],
  ['a cancel of an unknown id', then(CANCEL, Buffer.alloc(9))],
  ['a cancel of a negative id', then(CANCEL, Buffer.alloc(9), { rid: -1 })],
  ['a request without a body', then(REQUEST_DATA, undefined, { rid: 2000000 })],
  ['a request of junk', then(REQUEST_DATA, Buffer.alloc(500, 255), { rid: 2000001 })],
  request('of nobody we know', { style: 0 }),
  request('for another target', {}, { target: 1 }),
  request('from another source', {}, { source: 1 }),
  request('whose id differs', { unique_rid: 9 }),
  request('of a negative id', { unique_rid: -1 }, { rid: -1 }),
  request('of a negative slice', { slice_id: -1 }),
  request('of layout 2', { block_layout: 2 }),
  request('without a prompt', { prompt_tokens: 0 }),
  request('without blocks', { block_count: 0 }),
  request('whose blocks are not those of its prompt', { block_count: 2, block_ids_per_layer_groups: [pages(0, 1)] }),
  request('of 2^31 blocks', { block_count: 2147483648 }),
  request('with a short list', { block_count: 3 }),
  request('with a list of 5 bytes', { block_ids_per_layer_groups: [Buffer.alloc(5)] }),
  request('with a list too many', { block_ids_per_layer_groups: [pages(0), pages(0)] }),
  request('with no list', { block_ids_per_layer_groups: [] }),
  request('with 5 lists', { block_ids_per_layer_groups: Array.from({ length: 5 }, () => pages(0)) }),
  request('with lists that are none', { block_ids_per_layer_groups: 'x' }),
  request('for page 2^40', { block_ids_per_layer_groups: [pages(1n << 40n)] }),
  request('for page -7', { block_ids_per_layer_groups: [pages(-7)] }),
  request('for the page behind the last', { block_ids_per_layer_groups: [pages(1n << 31n)] }),
  request('for one page twice', { prompt_tokens: 64, block_count: 2, block_ids_per_layer_groups: [pages(1, 1)] }),
  request('of style 9', { style: 9 }),
  request('with an endpoint of 400 bytes', { reply_endpoint: 'x'.repeat(400) }),
  ['a request without a field', then(REQUEST_DATA, pack(REQUEST), { rid: 2000002 })],
  ['hello with pages that overflow', group((first) => ({ ...first, page_count: 2147483647 }))],
  ['hello with an empty blob', set('backend_blob', Buffer.alloc(0))],
  ['hello with a blob of junk', set('backend_blob', Buffer.from(Array.from({ length: 200 }, (_, i) => (i * 31) & 255)))],
  ['hello with a blob of ones', set('backend_blob', Buffer.alloc(1000, 255))],
];
