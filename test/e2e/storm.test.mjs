// Storms: workers die, freeze and come back, clients leave by the hundred, while
// others are served. Every client hears something clear, no answer that ended
// well has a wrong token, and when it is over nothing is held and a probe has the
// right answer. The tokens of the prompts that go on all the time are the witness
// that no page was written late; each slice's digest is another.
//   STORM=full node --test test/e2e/storm.test.mjs     the acceptance form
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { get, metric, post, root, scratch, sleep, until } from './lib/cluster.mjs';
import { PROMPTS, Storm, random } from './lib/storm.mjs';

const isFull = process.env.STORM === 'full' || process.env.BATON_TIER === 'full';
const SEED = Number(process.env.SEED ?? Date.now() % 1000000);
const KILLS = isFull ? 50 : 4;
const FREEZES = isFull ? 50 : 3;
const LEAVERS = isFull ? 300 : 40;
const LEAVERS_AT_ONCE = isFull ? 1000 : 150;
const COMBINATIONS = ['context_first', 'generation_first'].flatMap((style) => ['auto', 'tcp'].map((lane) => ({ style, lane })));

// The cluster is gone when the body is, also when that failed.
async function within(options, t, body) {
  t.diagnostic(`SEED=${SEED}`);
  const storm = await Storm.open(options);
  try {
    await body(storm, random(SEED));
  } catch (error) {
    error.message += `\n${JSON.stringify(storm.tally)}\n${storm.faults.slice(0, 5).join('\n')}`;
    throw error;
  } finally {
    storm.codes = await storm.close();
  }
  assert.deepEqual(storm.codes.filter((code) => code !== 0), [], 'all end well');
}

for (const options of COMBINATIONS) {
  const name = `${options.style}, ${options.lane}`;

  test(`kill -9 and restart on the same address, ${KILLS} times: ${name}`, (t) => within(options, t, async (storm, next) => {
    const load = storm.load(12, next, { leaves: 10 });
    for (let i = 0; i < KILLS; i++) {
      await sleep(100 + next(300));
      await storm.restart(storm.workers[next(storm.workers.length)], 'SIGKILL', next(200));
    }
    await load.stop();
    assert.ok(storm.tally.ok > 0);
    await storm.calm(t);
  }));

  // [transfer I22] Those who do not need the frozen one are served meanwhile.
  test(`workers freeze and go on, ${FREEZES} times: ${name}`, (t) => within(options, t, async (storm, next) => {
    const load = storm.load(12, next, { leaves: 10 });
    for (let i = 0; i < FREEZES; i++) {
      await sleep(next(200));
      const worker = storm.workers[next(storm.workers.length)];
      const other = storm.workers.find((w) => w !== worker && w.role === worker.role);
      const frozen = storm.freeze(worker, 300 + next(isFull && i % 10 === 0 ? 12000 : 1200));
      const turns = await metric(other.port, 'baton_engine_turns_total');
      const answer = await post(other.port, '/v1/completions', { model: 'demo', prompt: PROMPTS[0], max_tokens: 2 });
      assert.equal(answer.status, 200, answer.text);
      assert.ok(await metric(other.port, 'baton_engine_turns_total') > turns);
      await frozen;
    }
    await load.stop();
    assert.ok(storm.tally.ok > 0);
    await storm.calm(t);
  }));

  test(`${LEAVERS} long requests are left, four times: ${name}`, (t) => within(options, t, async (storm, next) => {
    for (let round = 0; round < 4; round++) {
      const load = storm.load(4, next);
      await storm.leaveAll(LEAVERS, 2000, next, async (calls) => {
        await until('some are being answered', () => calls.filter((call) => call.hasBytes).length >= 4, 60000);
        await sleep(next(300));
      });
      await load.stop();
      await storm.calm(t);
    }
  }));

  test(`${LEAVERS_AT_ONCE} leave at once: ${name}`, (t) => within(options, t, async (storm, next) => {
    const load = storm.load(4, next);
    const took = await storm.killClients(LEAVERS_AT_ONCE, 2000, next);
    t.diagnostic(`left within ${took.toFixed(1)} ms`);
    await load.stop();
    await storm.calm(t);
  }));

  // [transfer T88] Both pools, one worker after the other: not one is lost.
  test(`a rolling restart loses nobody: ${name}`, (t) => within(options, t, async (storm, next) => {
    const load = storm.load(8, next);
    for (const worker of storm.workers) {
      await sleep(200);
      await storm.restart(worker, 'SIGTERM');
      await until('the front end knows it again', async () => (await get(storm.front.port, '/metrics')).text.includes(`server="127.0.0.1:${worker.port}",state="ready"} 1`));
    }
    await load.stop();
    await storm.calm(t);
    assert.deepEqual(Object.keys(storm.tally), ['ok']);
  }));
}

// [transfer T90] The wall clocks of the four are days apart, and one is set back
// by each restart; deadlines, timeouts and hand-offs go by what has passed.
test('wall clocks are days apart', async (t) => {
  const skew = path.join(scratch(), 'skew.so');
  execFileSync(process.env.CC?.split(' ').at(-1) ?? 'cc', ['-shared', '-fPIC', '-O1', '-o', skew, path.join(root, 'test/e2e/lib/skew.c'), '-ldl']);
  const days = { 'context-0': 0, 'context-1': 3, 'generation-0': -2, 'generation-1': 400 };
  for (const style of ['context_first', 'generation_first']) {
    const place = ({ name, restarts }) => ({ args: [], env: { LD_PRELOAD: skew, SKEW_SECONDS: String(86400 * (days[name] - restarts)) } });
    await within({ style, place }, t, async (storm, next) => {
      const now = async (name) => Date.parse((await get(storm.worker(name).port, '/version')).headers.date) / 86400000;
      assert.ok(Math.round(await now('generation-1') - await now('context-0')) === 400, 'the skew is there');
      const load = storm.load(8, next, { leaves: 5, deadlines: true });
      await sleep(1500);
      assert.deepEqual(Object.keys(storm.tally).filter((kind) => kind.startsWith('error')), []);
      for (const worker of storm.workers) await storm.restart(worker, 'SIGKILL');
      await sleep(500);
      await load.stop();
      await storm.calm(t);
    });
  }
});

// [transfer T78] Deadlines of 1 to 5 s, one in ten leaves, from one client to more
// than can be served: it comes back from each burst.
test('bursts with short deadlines', async (t) => {
  const burst = isFull ? [1, 8, 64, 256, 1024] : [1, 16, 128];
  await within({ style: 'generation_first' }, t, async (storm, next) => {
    for (const width of burst) {
      const load = storm.load(width, next, { leaves: 10, deadlines: true });
      await sleep(isFull ? 90000 : 2000);
      await load.stop();
      await storm.calm(t);
    }
    assert.ok(storm.tally.ok > 0);
  });
});
