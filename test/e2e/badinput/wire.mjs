// The worker's wire formats, written a second time for tests: CRC-32C, frames of
// the transfer port, msgpack, the opaque state and its signature.
import crypto from 'node:crypto';

const table = Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n >>> 0;
});
export function crc32c(...parts) {
  let crc = 0xffffffff;
  for (const part of parts) for (const byte of part) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

export const REGISTER = 1;
export const REGISTERED = 2;
export const REFUSED = 3;
export const REQUEST_DATA = 4;
export const KV_RESULT = 5;
export const CANCEL = 6;
export const HEARTBEAT = 7;
export const AUX_RESULT = 8;
export const GREET = 13;
export const GREETED = 14;
export const PROOF = 15;
export const VERSION = 3;

export function frame(type, body = Buffer.alloc(0), changes = {}) {
  const head = Buffer.alloc(44);
  head.write(changes.magic ?? 'BTN1', 0, 'latin1');
  head.writeUInt16LE(changes.version ?? VERSION, 4);
  head.writeUInt16LE(type, 6);
  head.writeBigUInt64LE(BigInt(changes.source ?? 0xabcdefn), 8);
  head.writeBigUInt64LE(BigInt(changes.target ?? 0), 16);
  head.writeBigInt64LE(BigInt(changes.rid ?? 0), 24);
  head.writeUInt32LE(changes.attempt ?? 0, 32);
  head.writeUInt32LE(changes.size ?? body.length, 36);
  head.writeUInt32LE(changes.crc ?? crc32c(head.subarray(0, 40), body), 40);
  return Buffer.concat([head, body]);
}

export const TYPES = ['', 'REGISTER', 'REGISTERED', 'REFUSED', 'REQUEST_DATA', 'KV_RESULT', 'CANCEL', 'HEARTBEAT', 'AUX_RESULT', 'BOUNCE_WANT', 'BOUNCE_GRANT', 'BOUNCE_DATA', 'BOUNCE_ACK', 'GREET', 'GREETED', 'PROOF'];

export function readFrames(bytes) {
  const frames = [];
  for (let at = 0; bytes.length - at >= 44; at += 44 + bytes.readUInt32LE(at + 36)) frames.push(readFrame(bytes.subarray(at)));
  return frames;
}

// The first frame in some bytes.
export function readFrame(bytes) {
  if (bytes.length < 44) return null;
  const size = bytes.readUInt32LE(36);
  return { type: bytes.readUInt16LE(6), source: bytes.readBigUInt64LE(8), body: bytes.subarray(44, 44 + size) };
}

// What either end of a control connection proves: `label` is its role's.
function prove(key, label, opener, server, openerNonce, serverNonce) {
  const head = Buffer.alloc(18);
  head.writeUInt16LE(VERSION, 0);
  head.writeBigUInt64LE(BigInt(opener), 2);
  head.writeBigUInt64LE(BigInt(server), 10);
  return crypto.createHmac('sha256', key).update(Buffer.concat([Buffer.from(label), head, openerNonce, serverNonce])).digest();
}
const NONCE = Buffer.alloc(32, 7);
const flag = (key) => Buffer.from([key ? 1 : 0]);
// What a worker says of itself, as another one would: without shared memory, and
// the address of its pool for TCP is its own (src/transfer/backend_auto, tcp_wire).
export function as(info, incarnation) {
  const blob = info.backend_blob;
  const near = 6 + blob.readUInt16LE(4);
  const far = near + 4 + blob.readUInt32LE(near);
  const pool = Buffer.from(blob.subarray(far + 4, -4));
  pool.writeBigUInt64LE(incarnation, 6);
  pool.writeUInt32LE(crc32c(pool.subarray(0, -4)), pool.length - 4);
  const own = Buffer.concat([blob.subarray(0, near), Buffer.alloc(4), blob.subarray(far, far + 4), pool, Buffer.alloc(4)]);
  own.writeUInt32LE(crc32c(own.subarray(0, -4)), own.length - 4);
  return { ...info, incarnation, backend_blob: own };
}

export const greet = (key, opener) => frame(GREET, Buffer.concat([flag(key), NONCE]), { source: opener });
// The proof that follows it, from the bytes that were answered.
export const proofOf = (key, opener) => (bytes) => {
  const { source, body } = readFrame(bytes);
  return frame(PROOF, prove(key, 'baton link opener', opener, source, NONCE, body.subarray(1, 33)), { source: opener, target: source });
};
// What a server answers to the frame of a GREET.
export const greeted = (key, server, { source, body }) => frame(GREETED, Buffer.concat([flag(key), NONCE, prove(key, 'baton link server', source, server, body.subarray(1, 33), NONCE)]), { source: server, target: source });

export function pack(value) {
  if (Buffer.isBuffer(value)) {
    const head = Buffer.from([0xc5, 0, 0]);
    head.writeUInt16BE(value.length, 1);
    return Buffer.concat([head, value]);
  }
  if (typeof value === 'string') {
    const text = Buffer.from(value);
    const head = Buffer.from([0xda, 0, 0]);
    head.writeUInt16BE(text.length, 1);
    return Buffer.concat([head, text]);
  }
  if (typeof value === 'number' || typeof value === 'bigint') {
    const out = Buffer.alloc(9);
    out[0] = value < 0 ? 0xd3 : 0xcf;
    if (value < 0) out.writeBigInt64BE(BigInt(value), 1); else out.writeBigUInt64BE(BigInt(value), 1);
    return out;
  }
  if (value === null) return Buffer.from([0xc0]);
  if (Array.isArray(value)) return Buffer.concat([Buffer.from([0xdc, value.length >> 8, value.length & 255]), ...value.map(pack)]);
  const entries = Object.entries(value);
  return Buffer.concat([Buffer.from([0xde, entries.length >> 8, entries.length & 255]), ...entries.flatMap(([k, v]) => [pack(k), pack(v)])]);
}

// encoded_opaque_state: the fields, then the seal over them and the prompt.
function opaqueFields(fields) {
  const bytes = Buffer.alloc(33);
  bytes[0] = fields.version ?? 2;
  bytes.writeBigUInt64LE(BigInt(fields.incarnation), 1);
  bytes.writeBigInt64LE(BigInt(fields.rid), 9);
  bytes.writeUInt32LE(fields.attempt, 17);
  bytes.writeUInt32LE(fields.promptTokens, 21);
  bytes.writeUInt32LE(fields.tokensPerBlock, 25);
  bytes.writeUInt32LE(fields.kvType, 29);
  return bytes;
}
export function opaque(fields) {
  const bytes = Buffer.concat([opaqueFields(fields), fields.seal ?? Buffer.alloc(16)]);
  const crc = Buffer.alloc(4);
  crc.writeUInt32LE(crc32c(bytes));
  return Buffer.concat([bytes, crc]).toString('base64');
}
export function readOpaque(text) {
  const bytes = Buffer.from(text, 'base64');
  return {
    incarnation: bytes.readBigUInt64LE(1), rid: bytes.readBigInt64LE(9), attempt: bytes.readUInt32LE(17),
    promptTokens: bytes.readUInt32LE(21), tokensPerBlock: bytes.readUInt32LE(25), kvType: bytes.readUInt32LE(29),
    seal: bytes.subarray(33, 49),
  };
}
// The state of a context worker that did compute this prompt.
export function sealed(key, fields, ids, firstTokens, salt = '') {
  const words = (list) => { const bytes = Buffer.alloc(4 * list.length); list.forEach((word, i) => bytes.writeInt32LE(word, 4 * i)); return bytes; };
  const text = Buffer.concat([opaqueFields(fields).subarray(1), words([ids.length, Buffer.byteLength(salt), firstTokens.length]), words(ids), Buffer.from(salt), words(firstTokens)]);
  return opaque({ ...fields, seal: crypto.createHmac('sha256', key).update(text).digest().subarray(0, 16) });
}

const hmac = (key, text) => `sha256=${crypto.createHmac('sha256', key).update(text).digest('hex')}`;
const first = (value) => (Array.isArray(value) ? value[0] : value);

// x-baton-disagg-auth of a leg with these parameters; ids as they are written.
export function signLeg(key, params) {
  const text = (value) => JSON.stringify(value ?? null);
  return hmac(key, `{"ctx_info_endpoint":${text(first(params.ctx_info_endpoint))},"ctx_request_id":${params.ctx_request_id ?? null}`
    + `,"disagg_request_id":${params.disagg_request_id ?? null},"encoded_opaque_state":${text(params.encoded_opaque_state)}`
    + `,"request_type":"${params.request_type}","schedule_style":${params.schedule_style ?? 0}}`);
}
export const signAbort = (key, id) => hmac(key, `{"disagg_request_id":${id},"request_type":"abort"}`);
// x-trtllm-disagg-auth, which knows less.
export const signForeign = (key, params) => hmac(key, JSON.stringify({ ctx_info_endpoint: first(params.ctx_info_endpoint) ?? null, encoded_opaque_state: params.encoded_opaque_state ?? null }));

// The msgpack that our workers write.
export function unpack(bytes) {
  let at = 0;
  const take = (size) => bytes.subarray(at, at += size);
  const number = (size) => (size === 8 ? take(8).readBigUInt64BE() : BigInt(take(size).readUIntBE(0, size)));
  const list = (count) => Array.from({ length: count }, read);
  const map = (count) => Object.fromEntries(Array.from({ length: count }, () => [read(), read()]));
  function read() {
    const tag = bytes[at++];
    if (tag < 0x80) return BigInt(tag);
    if (tag < 0x90) return map(tag & 15);
    if (tag < 0xa0) return list(tag & 15);
    if (tag < 0xc0) return take(tag & 31).toString();
    if (tag >= 0xe0) return BigInt(tag - 256);
    if (tag >= 0xc4 && tag <= 0xc6) return Buffer.from(take(Number(number(1 << (tag - 0xc4)))));
    if (tag >= 0xcc && tag <= 0xcf) return number(1 << (tag - 0xcc));
    if (tag >= 0xd9 && tag <= 0xdb) return take(Number(number(1 << (tag - 0xd9)))).toString();
    if (tag === 0xde) return map(Number(number(2)));
    if (tag === 0xdc) return list(Number(number(2)));
    throw new Error(`msgpack tag ${tag.toString(16)}`);
  }
  return read();
}
