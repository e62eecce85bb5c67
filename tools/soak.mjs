// A soak: random load on real clusters for MINUTES, with workers that die, end,
// freeze and come back and clients that leave, in spells. After each spell all
// is zero and a probe is right. The front end and one worker a role live through
// it all: their memory and open files must not grow.   scripts/soak MINUTES [SEED]
import fs from 'node:fs';
import { sleep } from '../test/e2e/lib/cluster.mjs';
import { Storm, random } from '../test/e2e/lib/storm.mjs';

const minutes = Number(process.argv[2]);
const seed = Number(process.argv[3] ?? Date.now() % 1000000);
const next = random(seed);
const SPELL_MS = 15000;
const SAMPLES_MIN = 9; // fewer say nothing of growth
const WIDTH_MAX = 128;
const LEAVERS_MAX = 160;
// What is left of chance: how many happen to be open together at the worst time.
const RSS_SHARE_MAX = 1.02;
const RSS_KB_MAX = 2048;
const FDS_MAX = 8;

if (!(minutes > 0)) {
  console.error('usage: scripts/soak MINUTES [SEED]');
  process.exit(2);
}

const chance = (percent) => next(100) < percent;

// One thing that happens to one worker; the first of a role never ends.
async function strike(storm) {
  const worker = storm.workers[next(storm.workers.length)];
  const isMortal = !worker.name.endsWith('-0');
  const kind = next(4);
  if (kind === 0 && isMortal) return storm.restart(worker, 'SIGKILL', next(500));
  if (kind === 1 && isMortal) return storm.restart(worker, 'SIGTERM', next(500));
  if (kind === 2) return storm.freeze(worker, 50 + next(chance(10) ? 12000 : 1500));
  return storm.leaveAll(1 + next(LEAVERS_MAX), 2000, next, () => sleep(next(400)));
}

// The first spells are the fullest: what they took is what is never given back.
async function spell(storm, isFullest) {
  const width = isFullest ? WIDTH_MAX : 1 + next(chance(20) ? WIDTH_MAX : 16);
  const load = storm.load(width, next, { leaves: next(30), deadlines: chance(30) });
  if (isFullest) await storm.leaveAll(LEAVERS_MAX, 2000, next, () => sleep(2000));
  const end = Date.now() + SPELL_MS;
  const isFair = chance(20);
  while (Date.now() < end) {
    await sleep(100 + next(1500));
    if (!isFair) await strike(storm);
  }
  await load.stop();
  await storm.calm();
}

// Once connections that nobody uses are closed (they wait a second).
async function sample(storm) {
  await sleep(2500);
  const old = storm.processes().filter(([name]) => name === 'front' || name.endsWith('-0'));
  return old.map(([name, pid]) => ({
    name,
    rss: Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]),
    fds: fs.readdirSync(`/proc/${pid}/fd`).length,
  }));
}

const most = (list) => list.reduce((a, b) => Math.max(a, b));

// The last third against the one before; what grows in the first is warmth.
function growth(samples) {
  const faults = [];
  const third = Math.floor(samples.length / 3);
  if (samples.length < SAMPLES_MIN) return faults;
  for (let i = 0; i < samples[0].length; i++) {
    const of = (key) => samples.map((all) => all[i][key]);
    const before = most(of('rss').slice(third, 2 * third));
    const after = most(of('rss').slice(2 * third));
    if (after > before * RSS_SHARE_MAX + RSS_KB_MAX) faults.push(`${samples[0][i].name}: memory grew, kB: ${of('rss').join(' ')}`);
    if (most(of('fds').slice(2 * third)) > most(of('fds').slice(0, 2 * third)) + FDS_MAX) faults.push(`${samples[0][i].name}: open files grew: ${of('fds').join(' ')}`);
  }
  return faults;
}

// Answers the faults of one cluster's time.
async function soak(style, lane, ms) {
  const storm = await Storm.open({ style, lane });
  const samples = [];
  const end = Date.now() + ms;
  let faults = [];
  try {
    while (Date.now() < end) {
      await spell(storm, samples.length < SAMPLES_MIN / 3);
      samples.push(await sample(storm));
    }
    faults = growth(samples);
  } catch (error) {
    faults = [error.message, ...storm.faults.slice(0, 5)];
    console.log(await storm.autopsy());
  }
  const codes = await storm.close();
  if (codes.some((code) => code !== 0)) faults.push(`ended with ${codes}`);
  console.log(`${style}, ${lane}: ${samples.length} spells, ${JSON.stringify(storm.tally)}`);
  for (const i of samples[0]?.keys() ?? []) console.log(`  ${samples[0][i].name}: kB ${samples.map((all) => all[i].rss).join(' ')}, files ${samples.map((all) => all[i].fds).join(' ')}`);
  for (const fault of faults) console.log(`  FAULT ${fault}`);
  return faults.length;
}

console.log(`seed ${seed}`);
let failed = 0;
const combinations = ['context_first', 'generation_first'].flatMap((style) => ['auto', 'tcp'].map((lane) => [style, lane]));
for (const [style, lane] of combinations) failed += await soak(style, lane, minutes * 60000 / combinations.length) > 0 ? 1 : 0;
console.log(`${combinations.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
