// Decision 8: no engine turn lasts over 100 ms. The longest one of a worker
// that computes prompts of 900 tokens on a model of 150 million parameters,
// alone and while others decode; then how much later a decoding stream's
// tokens come.
import { serve } from '../test/e2e/lib/cluster.mjs';
import { freshPrompt, main, metrics, randomModel, record, streamWell } from './bench-lib.mjs';

await main(async () => {
  const model = randomModel('params-150m', ['--dim', '1024', '--layers', '12', '--heads', '16', '--kv', '4', '--ffn', '2816', '--vocab', '8192', '--type', 'q8_0', '--ctx', '2048']);
  const worker = await serve(['--threads', '1'], { model });
  const ask = (count, max_tokens, options) => streamWell(worker.port, { model: 'params-150m', prompt: freshPrompt(count, 8000), max_tokens }, options);
  const times = [];
  let last = null;
  const decoding = ask(32, 300, { onChunk: () => {
    const time = performance.now();
    if (last !== null) times.push(time - last);
    last = time;
  } });
  let isOver = false;
  decoding.finally(() => { isOver = true; });
  const firsts = [];
  do {
    firsts.push((await ask(900, 2)).firstMs);
  } while (!isOver && firsts.length < 3);
  await decoding;
  const page = await metrics(worker.port);
  record({ bench: 'turn', name: 'longest turn, prefills of 900, 150M parameters', value: page.baton_engine_turn_max_seconds, unit: 's', goal: 0.1, runs: page.baton_engine_turns_total });
  record({ bench: 'turn', name: 'longest wait between two tokens beside them', value: Math.max(...times) / 1000, unit: 's', runs: times.length });
  await worker.stop();
});
