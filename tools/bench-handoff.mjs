// What separation costs the first token: the time to it through the cluster
// beside that of one mixed worker with the context worker's threads, asked
// directly, plus 10 ms and twice the time memcpy needs for the KV's bytes.
// Fresh prompts, both asked in turn, machine idle.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { build, demo, serve, up } from '../test/e2e/lib/cluster.mjs';
import { freshPrompt, keepAlive, main, median, metrics, randomModel, record, streamWell } from './bench-lib.mjs';

const RUNS = 9;

const copySeconds = (bytes) => JSON.parse(execFileSync(path.join(build, 'test/memcpy_bench'), [String(Math.max(bytes, 1)), '9'], { encoding: 'utf8' })).seconds;

async function measure({ name, model, id, lengths, vocab }) {
  const cluster = await up(['--threads', '2'], { model });
  const mixed = await serve(['--threads', '1', '--workers-on-host', '3'], { model });
  const agent = keepAlive();
  const generation = cluster.worker('generation-0').port;
  const ask = (port, prompt) => streamWell(port, { model: id, prompt, max_tokens: 4 }, { agent });
  for (let i = 0; i < 3; i++) { // speeds and budgets settle
    await ask(mixed.port, freshPrompt(lengths.at(-1), vocab));
    await ask(cluster.port, freshPrompt(lengths.at(-1), vocab));
  }
  for (const length of lengths) {
    const ours = [];
    const alone = [];
    const before = (await metrics(generation)).baton_handoff_bytes_total;
    for (let i = 0; i < RUNS; i++) {
      const prompt = freshPrompt(length, vocab);
      alone.push((await ask(mixed.port, prompt)).firstMs);
      ours.push((await ask(cluster.port, prompt)).firstMs);
    }
    const bytes = ((await metrics(generation)).baton_handoff_bytes_total - before) / RUNS;
    if (!(bytes > 0)) throw new Error('no KV travelled');
    const limit = median(alone) + 10 + 2 * copySeconds(bytes) * 1000;
    const size = `${name} ${length} tokens`;
    record({ bench: 'handoff', name: `first token ${size} ${(bytes / 1e6).toFixed(2)} MB`, value: median(ours), unit: 'ms', against: `mixed ${median(alone).toFixed(1)} ms + 10 ms + 2 memcpy`, ratio: limit / median(ours), goal: 1, runs: RUNS });
    record({ bench: 'handoff', name: `added to first token ${size}`, value: median(ours.map((t, i) => t - alone[i])), unit: 'ms', runs: RUNS });
  }
  await cluster.stop();
  await mixed.stop();
}

await main(async () => {
  await measure({ name: 'demo', model: demo, id: 'demo', lengths: [64, 256, 900], vocab: 2000 });
  const wide = randomModel('wide-kv', ['--dim', '256', '--layers', '8', '--heads', '8', '--kv', '8', '--headdim', '64', '--ffn', '704', '--vocab', '2048', '--type', 'q8_0']);
  await measure({ name: 'wide-kv', model: wide, id: 'wide-kv', lengths: [400, 1600], vocab: 2000 });
});
