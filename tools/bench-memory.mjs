// A worker's private memory after 32 requests at once, beside its bound: KV
// pool + 64 MiB + the logits of the batch. The pool lies in a segment that the
// peer maps too, so its pages count as shared once a hand-off came by; it is
// held out on both sides, which is stricter. The model file's pages are the
// page cache's: read only, dropped when memory is short.
import { demo, up } from '../test/e2e/lib/cluster.mjs';
import { MIB, freshPrompt, main, privateMemory, randomModel, record, streamWell } from './bench-lib.mjs';

const BATCH = 32;

async function measure({ name, model, id, vocab }) {
  const cluster = await up(['--threads', '2', '--max-batch', String(BATCH)], { model });
  await Promise.all(Array.from({ length: BATCH }, () => streamWell(cluster.port, { model: id, prompt: freshPrompt(100, Math.min(vocab, 2000)), max_tokens: 32 })));
  const logits = BATCH * vocab * 4;
  for (const worker of cluster.workers) {
    const memory = privateMemory(worker.pid, model);
    const own = memory.total - memory.segments - memory.model;
    record({ bench: 'memory', name: `${worker.name} ${name}, besides the KV pool`, value: own / MIB, unit: 'MiB', against: `64 MiB + ${(logits / MIB).toFixed(1)} MiB of logits`, ratio: (64 * MIB + logits) / own, goal: 1, runs: 1 });
    console.error(`${worker.name}: private ${(memory.total / MIB).toFixed(1)} MiB, of it segments ${(memory.segments / MIB).toFixed(1)}, model file ${(memory.model / MIB).toFixed(1)}`);
  }
  await cluster.stop();
}

await main(async () => {
  await measure({ name: 'demo', model: demo, id: 'demo', vocab: 2048 });
  const model = randomModel('vocab-152k', ['--arch', 'qwen2', '--dim', '128', '--layers', '4', '--heads', '4', '--kv', '2', '--ffn', '352', '--vocab', '152000', '--ctx', '2048']);
  await measure({ name: 'vocabulary 152000', model, id: 'vocab-152k', vocab: 152000 });
});
