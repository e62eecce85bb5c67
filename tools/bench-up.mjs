// A local cluster's start and end: from the process's start to its `ready`
// line, and from SIGTERM to the last process gone (after one hand-off).
import { Child, demo } from '../test/e2e/lib/cluster.mjs';
import { main, median, now, record, streamWell } from './bench-lib.mjs';

const RUNS = 9;

async function start() {
  const child = new Child(['up', '--model', demo, '--port', '0']);
  const url = await new Promise((done, fail) => {
    let text = '';
    child.process.stdout.on('data', (data) => {
      text += data;
      const match = text.match(/^ready (\S+)\n/m);
      if (match) done(new URL(match[1]));
    });
    child.exit.then((code) => fail(new Error(`ended with ${code}: ${child.errors}`)));
  });
  return { child, port: Number(url.port) };
}

await main(async () => {
  const starts = [];
  const ends = [];
  for (let i = 0; i < RUNS; i++) {
    const begin = now();
    const { child, port } = await start();
    starts.push((now() - begin) / 1000);
    await streamWell(port, { model: 'demo', prompt: 'And', max_tokens: 8 });
    const told = now();
    await child.stop();
    ends.push((now() - told) / 1000);
  }
  record({ bench: 'up', name: 'baton up to ready, demo model', value: median(starts), unit: 's', goal: 1, runs: RUNS });
  record({ bench: 'up', name: 'SIGTERM to the end', value: median(ends), unit: 's', goal: 1, runs: RUNS });
});
