// Bodies a client may send: [name, target, body, options]. Only `wrong` ones
// and some that look wrong and must pass; the golden file says which.
const BASE = { model: 'demo', prompt: 'In the beginning', max_tokens: 2, temperature: 0 };
const CHAT = { model: 'demo', messages: [{ role: 'user', content: 'Who?' }], max_tokens: 2, temperature: 0 };
export const completions = '/v1/completions';
export const chat = '/v1/chat/completions';

// Every scalar field with values of a wrong type and out of its range.
const FIELDS = {
  model: [5, '', [], {}, 'no-such-model', null],
  max_tokens: [0, -1, 1.5, '5', true, [], 2147483648, 4611686018427387904n, 1e400],
  min_tokens: [-1, 3, '1', 0.5],
  n: [0, -1, 17, 1.5, '2', true, 4611686018427387904n],
  best_of: [0, 2, 17, '1'],
  temperature: [-0.1, 100.5, '1', true, [], 1e400, null],
  top_p: [-0.1, 1.1, '1'],
  min_p: [-0.1, 1.1, {}],
  top_k: [-2, 1.5, '1', 2147483648],
  presence_penalty: [-2.1, 2.1, '0'],
  frequency_penalty: [-2.1, 2.1, false],
  repetition_penalty: [-0.1, 100.1, '1', 0],
  seed: [1.5, '7', 9223372036854775808n, -9223372036854775808n],
  logprobs: [-1, 21, '1', true, 1.5],
  echo: ['yes', 1],
  stream: ['true', 1],
  ignore_eos: [0, 'no'],
  detokenize: [1],
  skip_special_tokens: ['x'],
  include_stop_str_in_output: [[]],
  add_special_tokens: ['x'],
  truncate_prompt_tokens: [0, -1, '4'],
  cache_salt: ['', '   ', 5, 'x'.repeat(1025)],
  user: [5],
  stop: ['', [''], [5], 5, {}, [[]], 'x'.repeat(1025), Array.from({ length: 17 }, (_, i) => `s${i}`), []],
  stop_token_ids: [[-1], ['1'], [1.5], '1', 5, [4611686018427387904n], [2147483647], Array.from({ length: 65 }, () => 1)],
  logit_bias: [[], 5, { a: 1 }, { '-1': 1 }, { 1: 101 }, { 1: '1' }, { 1: null }, { 99999999999: 1 }, { 2147483647: 1 }, { 1.5: 1 }, { '': 1 }],
  stream_options: [{}, 5],
  response_format: [{}, 'text', { type: 'json_object' }, { type: 5 }],
  client_metadata: [5, 'x'],
  conversation_params: [5, { conversation_id: '' }, { conversation_id: [] }, { conversation_id: 'x'.repeat(300) }],
  suffix: ['tail'],
  lora_request: [{ name: 'x' }],
  use_beam_search: [true],
  length_penalty: [2],
  early_stopping: [true],
  thinking_token_budget: [5],
  priority: [1],
  return_context_logits: [true],
  disaggregated_params: [{}, 5, { request_type: 'context_only' }, { request_type: 'generation_only', first_gen_tokens: [1], ctx_info_endpoint: 'tcp://127.0.0.1:1' }, null],
  prompt_token_ids_b64: ['AAAA', 5],
  chat_template: ['{{ x }}'],
  tools: [[{ type: 'function' }]],
  messages: [[]],
  is: [1],
  unknown_field: [1, null],
  ['long'.repeat(40)]: [1],
};

const PROMPTS = [
  '', [], [''], [[]], ['a', 'b'], [[1], [2]], [1, 'a'], ['a', 1], [null], [true], [{}], 5, true, {}, null,
  [-1], [1.5], ['1'], [4611686018427387904n], [2147483647], [100000], [[1, -1]], [1, [2]], ['lone', null],
];

const MESSAGES = [
  null, 5, 'hi', {}, [], [5], ['hi'], [null], [[]], [{}], [{ role: 'user' }], [{ content: 'x' }],
  [{ role: 5, content: 'x' }], [{ role: '', content: 'x' }], [{ role: 'wizard', content: 'x' }],
  [{ role: 'user', content: 5 }], [{ role: 'user', content: {} }], [{ role: 'user', content: null }],
  [{ role: 'user', content: [] }], [{ role: 'user', content: [5] }], [{ role: 'user', content: [{}] }],
  [{ role: 'user', content: [{ type: 'text' }] }], [{ role: 'user', content: [{ type: 'text', text: 5 }] }],
  [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://x/y.png' } }] }],
  [{ role: 'user', content: [{ type: 5, text: 'x' }] }],
  [{ role: 'user', content: 'x', tool_calls: [{ id: '1' }] }],
  [{ role: 'tool', content: 'x', tool_call_id: '1' }], [{ role: 'function', content: 'x', name: 'f' }],
  [{ role: 'system', content: 'x' }], [{ role: 'assistant', content: 'x' }],
  [{ role: 'user', content: 'a' }, { role: 'system', content: 'late' }],
  [{ role: 'assistant', content: 'a' }, { role: 'assistant', content: 'b' }],
];

const CHAT_FIELDS = {
  logprobs: [1, 'true'],
  top_logprobs: [1, -1, 21],
  max_completion_tokens: [0, 3, '1', -1],
  echo: [true],
  tools: [[{ type: 'function', function: { name: 'f' } }], {}],
  tool_choice: ['required', { type: 'function' }, 5],
  thinking: [5, {}, { type: 'maybe' }, { type: 'enabled', budget: 1 }],
  chat_template_kwargs: [5, { enable_thinking: 1 }, { other: 1 }],
  chat_template: ['{{ x }}', ''],
  reasoning_effort: ['high'],
  documents: [[{}]],
  add_generation_prompt: ['x'],
  prompt: ['x'],
};

const deep = (depth) => '['.repeat(depth) + ']'.repeat(depth);

// JSON that is not, or only just: raw bytes after a known beginning.
const TEXTS = {
  'no body': '',
  'one blank': ' ',
  'a word': 'hello',
  'a list': '[]',
  'a string': '"x"',
  'a number': '5',
  null: 'null',
  'an empty object': '{}',
  'cut short': '{"model": "demo", "prompt": "In the',
  'cut after a colon': '{"model":',
  'trailing comma': '{"model": "demo", "prompt": "a",}',
  'single quotes': "{'model': 'demo'}",
  comment: '{"model": "demo", /* c */ "prompt": "a"}',
  'bytes after the object': '{"model": "demo", "prompt": "a"} x',
  'two objects': '{"model": "demo", "prompt": "a"}{"model": "demo", "prompt": "a"}',
  NaN: '{"model": "demo", "prompt": "a", "temperature": NaN}',
  Infinity: '{"model": "demo", "prompt": "a", "temperature": Infinity}',
  'plus sign': '{"model": "demo", "prompt": "a", "n": +1}',
  'leading zero': '{"model": "demo", "prompt": "a", "n": 01}',
  hex: '{"model": "demo", "prompt": "a", "n": 0x1}',
  'bare dot': '{"model": "demo", "prompt": "a", "temperature": .5}',
  'unquoted key': '{model: "demo"}',
  'no value': '{"model": "demo", "prompt": }',
  'no colon': '{"model" "demo"}',
  'bad escape': '{"model": "demo", "prompt": "\\x41"}',
  'short \\u': '{"model": "demo", "prompt": "\\u12"}',
  'NUL escape': '{"model": "demo", "prompt": "a\\u0000b"}',
  'NUL byte': '{"model": "demo", "prompt": "a\0b"}',
  'NUL byte outside': '{"model": "demo",\0 "prompt": "a"}',
  'newline in a string': '{"model": "demo", "prompt": "a\nb"}',
  'lone high surrogate': '{"model": "demo", "prompt": "\\ud800"}',
  'lone low surrogate': '{"model": "demo", "prompt": "\\udc00x"}',
  'surrogates in wrong order': '{"model": "demo", "prompt": "\\udc00\\ud800"}',
  'high surrogate then text': '{"model": "demo", "prompt": "\\ud800abc"}',
  'byte 0xff': '{"model": "demo", "prompt": "a\xffb"}',
  'cut UTF-8': '{"model": "demo", "prompt": "a\xe2\x82"}',
  'overlong UTF-8': '{"model": "demo", "prompt": "\xc0\xaf"}',
  'UTF-8 of a surrogate': '{"model": "demo", "prompt": "\xed\xa0\x80"}',
  'UTF-8 above U+10FFFF': '{"model": "demo", "prompt": "\xf4\x90\x80\x80"}',
  'invalid UTF-8 in a key': '{"model": "demo", "prompt": "a", "k\xff": 1}',
  BOM: '\xef\xbb\xbf{"model": "demo", "prompt": "a", "max_tokens": 2}',
  UTF16: Buffer.from('\ufeff{"model": 1}', 'utf16le').toString('latin1'),
  'nested 63 deep': `{"model": "demo", "prompt": "a", "max_tokens": 2, "client_metadata": {"a": ${deep(62)}}}`,
  'nested 100 deep': `{"model": "demo", "prompt": ${deep(100)}}`,
  'nested 100,000 deep': `{"model": "demo", "prompt": ${deep(100000)}}`,
  '300 members': `{"model": "demo", "prompt": "a", ${Array.from({ length: 300 }, (_, i) => `"k${i}": 1`).join(', ')}}`,
  '2,000 members inside': `{"model": "demo", "prompt": "a", "logit_bias": {${Array.from({ length: 2000 }, (_, i) => `"${i}": 1`).join(', ')}}}`,
  'duplicate model': '{"model": "nope", "model": "demo", "prompt": "a", "max_tokens": 2}',
  'duplicate prompt, last wrong': '{"model": "demo", "prompt": "a", "prompt": 5}',
  'duplicate hand-off behind an escape': '{"model": "demo", "prompt": "a", "disaggregated\\u005fparams": {"request_type": "context_only"}}',
  'escaped key': '{"m\\u006fdel": "demo", "prompt": "a", "max_tokens": 2}',
  'empty key': '{"model": "demo", "prompt": "a", "": 1}',
  'a number of 400 digits': `{"model": "demo", "prompt": "a", "max_tokens": ${'9'.repeat(400)}}`,
  'a small number of 400 digits': `{"model": "demo", "prompt": "a", "max_tokens": 2, "temperature": 0.${'0'.repeat(400)}1}`,
  'an integer with an exponent': '{"model": "demo", "prompt": "a", "max_tokens": 1e1}',
  'exponent 999': '{"model": "demo", "prompt": "a", "temperature": 1e999}',
  'missing model': '{"prompt": "a"}',
  'missing prompt': '{"model": "demo"}',
};

const TOKENIZE = [
  { prompt: 5 }, { prompt: ['a'] }, {}, { prompt: 'a', messages: [{ role: 'user', content: 'x' }] }, { prompt: 'a', nope: 1 }, { prompt: 'a', add_special_tokens: 5 },
];
const DETOKENIZE = [{}, { tokens: 'x' }, { tokens: [-1] }, { tokens: [100000] }, { tokens: ['1'] }, { tokens: [1.5] }, { tokens: [4611686018427387904n] }];

// JSON with exact 64-bit integers and the number 1e400.
const mark = (_, value) => (typeof value === 'bigint' ? `@${value}@` : value === Infinity ? '@1e400@' : value);
const body = (value) => JSON.stringify(value, mark).replace(/"@(-?[\de]+)@"/g, '$1');
const show = (value) => {
  const text = body(value);
  return text.length > 90 ? `${text.slice(0, 24)}... (${text.length} bytes)` : text;
};
const fields = (route, target, base, table) => Object.entries(table).flatMap(([name, values]) => values.map((value) => [
  `${route} ${name.length > 40 ? `${name.slice(0, 8)}...` : name} = ${show(value)}`, target, body({ ...base, [name]: value })]));

export const front = [
  ...fields('completions', completions, BASE, FIELDS),
  ...PROMPTS.map((prompt) => [`completions prompt = ${show(prompt)}`, completions, body({ ...BASE, prompt })]),
  ...MESSAGES.map((messages) => [`chat messages = ${show(messages)}`, chat, body({ ...CHAT, messages })]),
  ...fields('chat', chat, CHAT, CHAT_FIELDS),
  ['chat without messages', chat, body({ model: 'demo' })],
  ['chat top_logprobs without logprobs', chat, body({ ...CHAT, top_logprobs: 2 })],
  ['chat top_logprobs 21', chat, body({ ...CHAT, logprobs: true, top_logprobs: 21 })],
  ['stream_options without stream', completions, body({ ...BASE, stream_options: { include_usage: true } })],
  ['stream_options.include_usage wrong', completions, body({ ...BASE, stream: true, stream_options: { include_usage: 1 } })],
  ['stream_options unknown member', completions, body({ ...BASE, stream: true, stream_options: { nope: 1 } })],
  ['stream_options null', completions, body({ ...BASE, stream: true, stream_options: null })],
  ['detokenize false with stop', completions, body({ ...BASE, detokenize: false, stop: 'a' })],
  ['min_tokens above max_tokens', completions, body({ ...BASE, min_tokens: 3 })],
  ['a wrong field in a stream', completions, body({ ...BASE, stream: true, top_p: 2 })],
  ['a prompt that is too long', completions, body({ ...BASE, prompt: 'word '.repeat(20000) })],
  ['a stream whose prompt is too long', completions, body({ ...BASE, stream: true, prompt: 'word '.repeat(20000) })],
  ['a chat that is too long', chat, body({ ...CHAT, messages: [{ role: 'user', content: 'word '.repeat(20000) }] })],
  ['too many ids', completions, body({ ...BASE, prompt: Array.from({ length: 100000 }, () => 1) })],
  ['5,000 messages', chat, body({ ...CHAT, messages: Array.from({ length: 5000 }, () => ({ role: 'user', content: 'x' })) })],
  ['a prompt of 20 MB', completions, body({ ...BASE, prompt: 'x'.repeat(20 << 20) })],
  ['a body of 65 MB', completions, body({ ...BASE, prompt: 'x'.repeat(65 << 20) })],
  ...Object.entries(TEXTS).map(([name, text]) => [`JSON: ${name}`, completions, Buffer.from(text, 'latin1')]),
];

// What only a worker's own port knows.
export const worker = [
  ...TOKENIZE.map((value) => [`tokenize ${show(value)}`, '/tokenize', body(value)]),
  ...DETOKENIZE.map((value) => [`detokenize ${show(value)}`, '/detokenize', body(value)]),
  ...[{}, { disagg_request_id: 'x' }, { disagg_request_id: -1 }, { disagg_request_id: 1.5 }, { disagg_request_id: 4611686018427387904n }, []].map((value) => [`abort ${show(value)}`, '/v1/disagg/abort', body(value)]),
  ...[{}, { offset: 'x' }, []].map((value) => [`steady_clock_offset ${show(value)}`, '/steady_clock_offset', body(value)]),
  ['prompt_token_ids = "x"', completions, body({ ...BASE, prompt_token_ids: 'x' })],
  ['prompt_token_ids = [-1]', completions, body({ ...BASE, prompt_token_ids: [-1] })],
  ['prompt_token_ids = []', completions, body({ ...BASE, prompt_token_ids: [] })],
  ['prompt_token_ids out of the vocabulary', completions, body({ ...BASE, prompt_token_ids: [1, 999999] })],
  ['both ids and base64', completions, body({ ...BASE, prompt_token_ids: [1], prompt_token_ids_b64: 'AQAAAA==' })],
  ['base64 of a fraction of an id', completions, body({ ...BASE, prompt_token_ids_b64: 'AQAA' })],
  ['base64 that is none', completions, body({ ...BASE, prompt_token_ids_b64: '%%%%' })],
  ['base64 of a negative id', completions, body({ ...BASE, prompt_token_ids_b64: '/////w==' })],
  ['base64 of nothing', completions, body({ ...BASE, prompt_token_ids_b64: '' })],
];

export const methods = [
  ['GET completions', completions, undefined, { method: 'GET' }],
  ['PUT completions', completions, body(BASE), { method: 'PUT' }],
  ['DELETE completions', completions, undefined, { method: 'DELETE' }],
  ['POST health', '/health', '{}'],
  ['POST metrics', '/metrics', '{}'],
  ['POST models', '/v1/models', '{}'],
  ['an unknown path', '/v1/nope', '{}'],
  ['a path with dots', '/v1/../v1/completions', body(BASE)],
  ['a path with a slash at the end', '/v1/completions/', body(BASE)],
  ['an unknown path with GET', '/nope', undefined, { method: 'GET' }],
  ['no content type', completions, body(BASE), { headers: { 'content-type': '' } }],
  ['content type text', completions, body(BASE), { headers: { 'content-type': 'text/plain' } }],
  ['content type form', completions, body(BASE), { headers: { 'content-type': 'application/x-www-form-urlencoded' } }],
  ['content type jsonx', completions, body(BASE), { headers: { 'content-type': 'application/jsonx' } }],
  ['content type with charset', completions, body(BASE), { headers: { 'content-type': 'application/json; charset=utf-8' } }],
  ['content encoding gzip', completions, body(BASE), { headers: { 'content-encoding': 'gzip' } }],
];
