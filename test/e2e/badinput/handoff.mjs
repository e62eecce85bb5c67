// Generation legs that are forged, damaged or stale. Each case takes the true
// hand-off of a context leg and changes it; `key: null` leaves the leg unsigned.
import { opaque, readOpaque, sealed, signForeign, signLeg } from './wire.mjs';

const params = (change) => (leg) => { Object.assign(leg.body.disaggregated_params, change); };
// As a worker that knows the key would have written it.
const state = (change, key) => (leg) => {
  const params = leg.body.disaggregated_params;
  params.encoded_opaque_state = sealed(key ?? leg.secret, { ...readOpaque(params.encoded_opaque_state), ...change }, leg.body.prompt_token_ids, params.first_gen_tokens);
};
const unsealed = (change) => (leg) => {
  const params = leg.body.disaggregated_params;
  params.encoded_opaque_state = opaque({ ...readOpaque(params.encoded_opaque_state), ...change });
};
const to = (endpoint) => params({ ctx_info_endpoint: endpoint });

export const legs = [
  ['as it is', () => {}],
  ['twice the same leg', () => {}, { again: true }],
  ['no signature', (leg) => { leg.key = null; }],
  ['signature of another key', (leg) => { leg.key = 'other'; }],
  ['signature empty', (leg) => { leg.header = ''; }],
  ['signature without sha256=', (leg) => { leg.header = 'a'.repeat(64); }],
  ['signature cut', (leg) => { leg.header = 'sha256=abcd'; }],
  ['signature of the other endpoint', (leg) => { leg.signed = { ctx_info_endpoint: 'tcp://127.0.0.1:9' }; }],
  ['opaque state changed behind the signature', (leg) => { leg.signed = { encoded_opaque_state: leg.body.disaggregated_params.encoded_opaque_state }; state({ rid: 5 })(leg); }],
  ['signature of the context leg', (leg) => { leg.signed = { request_type: 'context_only' }; }],
  ['signature of another request', (leg) => { leg.signed = { ctx_request_id: 7, disagg_request_id: 7 }; }],
  ['signature of the other style', (leg) => { leg.signed = { schedule_style: 1 }; }],
  ['signature in the foreign header only', (leg) => { leg.foreign = true; }],
  ['context_only without a signature', (leg) => { leg.body.disaggregated_params = { request_type: 'context_only', disagg_request_id: 99 }; leg.key = null; }],
  ['opaque state missing', params({ encoded_opaque_state: null })],
  ['opaque state a number', params({ encoded_opaque_state: 5 })],
  ['opaque state empty', params({ encoded_opaque_state: '' })],
  ['opaque state not base64', params({ encoded_opaque_state: '!!!!' })],
  ['opaque state cut', (leg) => { const p = leg.body.disaggregated_params; p.encoded_opaque_state = p.encoded_opaque_state.slice(0, 20); }],
  ['opaque state with a flipped bit', (leg) => {
    const p = leg.body.disaggregated_params;
    const bytes = Buffer.from(p.encoded_opaque_state, 'base64');
    bytes[20] ^= 1;
    p.encoded_opaque_state = bytes.toString('base64');
  }],
  ['opaque state of version 9', state({ version: 9 })],
  ['opaque state of version 1', state({ version: 1 })],
  ['opaque state under another key', state({}, 'other')],
  ['opaque state without a seal', unsealed({ seal: Buffer.alloc(16) })],
  ['opaque state of another process under an old seal', unsealed({ incarnation: 12345n })],
  ['other ids, as many', (leg) => { leg.body.prompt_token_ids[1] ^= 1; }],
  ['another first token', (leg) => { leg.body.disaggregated_params.first_gen_tokens[0] ^= 1; }],
  ['a salt that the context worker had not', (leg) => { leg.body.cache_salt = 'mine'; }],
  ['opaque state of 2 MB', params({ encoded_opaque_state: 'A'.repeat(2 << 20) })],
  ['opaque state of another incarnation', state({ incarnation: 12345n })],
  ['opaque state of incarnation 0', state({ incarnation: 0n })],
  ['opaque state of another request', state({ rid: 77n })],
  ['opaque state with other blocks', state({ tokensPerBlock: 24 })],
  ['opaque state with another KV type', state({ kvType: 3 })],
  ['opaque state with another prompt length', state({ promptTokens: 1 })],
  ['endpoint missing', to(null)],
  ['endpoint empty', to('')],
  ['endpoint an empty list', to([])],
  ['endpoint a number', to(5)],
  ['endpoint only a scheme', to('tcp://')],
  ['endpoint without a port', to('tcp://127.0.0.1')],
  ['endpoint with a bad port', to('tcp://127.0.0.1:99999')],
  ['endpoint port 0', to('tcp://127.0.0.1:0')],
  ['endpoint garbage', to('tcp://%%%garbage%%%:1')],
  ['endpoint of another scheme', to('http://127.0.0.1:1')],
  ['endpoint of 400 bytes', to(`tcp://${'a'.repeat(400)}:1`)],
  ['endpoint with an escape', to('tcp://127.0.0.1:1\u00e9')],
  ['endpoint nobody listens at', to('tcp://127.0.0.1:1')],
  ['endpoint that speaks HTTP', (leg) => to(`tcp://127.0.0.1:${leg.ports.context}`)(leg)],
  ['endpoint that is ourselves', (leg) => to(leg.own)(leg)],
  ['request_type unknown', params({ request_type: 'half' })],
  ['request_type a number', params({ request_type: 5 })],
  ['schedule_style generation first', params({ schedule_style: 1 })],
  ['schedule_style unknown', params({ schedule_style: 7 })],
  ['ctx_request_id missing', params({ ctx_request_id: null, disagg_request_id: null })],
  ['ctx_request_id negative', params({ ctx_request_id: -1 })],
  ['ctx_request_id a string', params({ ctx_request_id: '5' })],
  ['ctx_request_id a fraction', params({ ctx_request_id: 1.5 })],
  ['ctx_request_id 2^62', (leg) => { leg.bigId = '4611686018427387904'; }],
  ['ctx_request_id 2^63', (leg) => { leg.bigId = '9223372036854775808'; }],
  ['ctx_request_id 2^62 in the state too', (leg) => { leg.bigId = '4611686018427387904'; state({ rid: 4611686018427387904n })(leg); }],
  // [transfer T76]
  ['first_gen_tokens missing', params({ first_gen_tokens: null })],
  ['first_gen_tokens empty', params({ first_gen_tokens: [] })],
  ['first_gen_tokens too many', params({ first_gen_tokens: [1, 2] })],
  ['first_gen_tokens 20', params({ first_gen_tokens: Array.from({ length: 20 }, () => 1) })],
  ['first_gen_tokens negative', params({ first_gen_tokens: [-1] })],
  ['first_gen_tokens a string', params({ first_gen_tokens: ['1'] })],
  ['first_gen_tokens not a list', params({ first_gen_tokens: 5 })],
  ['first_gen_tokens out of the vocabulary', params({ first_gen_tokens: [2000000] })],
  ['first_gen_tokens 2^31', params({ first_gen_tokens: [2147483648] })],
  ['ctx_dp_rank negative', params({ ctx_dp_rank: -1 })],
  ['ctx_usage a list', params({ ctx_usage: [] })],
  ['ctx_usage of strings', params({ ctx_usage: { prompt_tokens: 'x' } })],
  ['first_gen_log_probs of strings', params({ first_gen_log_probs: ['x'] })],
  ['params a list', (leg) => { leg.body.disaggregated_params = []; leg.key = null; }],
  ['params a string', (leg) => { leg.body.disaggregated_params = 'x'; leg.key = null; }],
  ['an unknown member', params({ surprise: { a: [1] } })],
  ['ids missing', (leg) => { delete leg.body.prompt_token_ids; }],
  ['ids out of the vocabulary', (leg) => { leg.body.prompt_token_ids = leg.body.prompt_token_ids.map(() => 999999); }],
  ['one id more', (leg) => { leg.body.prompt_token_ids.push(1); }],
  ['n = 2', (leg) => { leg.body.n = 2; }],
  ['context_only with a stream', (leg) => { leg.body.disaggregated_params = { request_type: 'context_only', disagg_request_id: 99 }; leg.body.stream = true; }],
  ['context_only without an id', (leg) => { leg.body.disaggregated_params = { request_type: 'context_only' }; }],
  ['generation first with an opaque state', params({ schedule_style: 1, first_gen_tokens: null })],
  ['generation first without an endpoint', params({ schedule_style: 1, first_gen_tokens: null, encoded_opaque_state: null, ctx_info_endpoint: null })],
  ['generation first under two ids', params({ schedule_style: 1, first_gen_tokens: null, encoded_opaque_state: null, ctx_request_id: 5 })],
  ['generation first unsigned', (leg) => { params({ schedule_style: 1, first_gen_tokens: null, encoded_opaque_state: null })(leg); leg.key = null; }],
];

// The leg's body as JSON, and its headers.
export function compose(leg, key) {
  const p = leg.body.disaggregated_params;
  let text = JSON.stringify(leg.body);
  if (leg.bigId) text = text.replace(/"ctx_request_id":[^,}]+/, `"ctx_request_id":${leg.bigId}`);
  if (leg.foreign) return { text, headers: { 'x-trtllm-disagg-auth': signForeign(key, p) } };
  const header = leg.header ?? (leg.key === null ? undefined : signLeg(leg.key ?? key, { ...p, ...(leg.bigId && { ctx_request_id: leg.bigId }), ...leg.signed }));
  return { text, headers: header === undefined ? {} : { 'x-baton-disagg-auth': header } };
}
