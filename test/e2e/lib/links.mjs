// A context and a generation worker on two hosts: network namespaces of their
// own, two links between them for KV, one each to us. Run where links may be made
// (unshare -n): node links.mjs STYLE OUTAGE_MS. Status 0: all went well.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { baton, sleep, until } from './cluster.mjs';
import { Storm, random } from './storm.mjs';

const [style, outage] = process.argv.slice(2);
const next = random(5);

const ip = (host, line) => execFileSync('nsenter', ['-t', String(host.pid), '-n', 'ip', ...line.split(' ')]);

// Number 1 or 2: at 10.77.N.2 for us, at 10.79.0.N for the other one.
async function makeHost(number) {
  const holder = spawn('unshare', ['-n', 'sleep', '1000'], { stdio: 'ignore' });
  process.once('exit', () => holder.kill('SIGKILL'));
  const host = { number, pid: holder.pid, kv: `10.79.0.${number}` };
  const space = (pid) => fs.readlinkSync(`/proc/${pid}/ns/net`);
  await until('a namespace', () => space(holder.pid) !== space(process.pid));
  execFileSync('ip', `link add us${number} type veth peer name us netns ${holder.pid}`.split(' '));
  execFileSync('ip', `addr add 10.77.${number}.1/30 dev us${number}`.split(' '));
  execFileSync('ip', `link set us${number} up`.split(' '));
  for (const line of ['link set lo up', `addr add ${host.kv}/32 dev lo`, `addr add 10.77.${number}.2/30 dev us`, 'link set us up']) ip(host, line);
  return host;
}

function joinHosts(a, b) {
  for (const link of [1, 2]) {
    ip(a, `link add k${link} type veth peer name k${link} netns ${b.pid}`);
    for (const host of [a, b]) {
      ip(host, `addr add 10.78.${link}.${host.number}/30 dev k${link}`);
      ip(host, `link set k${link} up`);
      execFileSync('nsenter', ['-t', String(host.pid), '-n', 'sh', '-c', 'echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter']);
    }
  }
}

// By which link a host sends to the other one.
const send = (from, to, link) => ip(from, `route replace ${to.kv} via 10.78.${link}.${to.number} dev k${link} src ${from.kv}`);

// What is asked of us at 127.0.0.1 goes to the host.
function relay(port, host) {
  net.createServer((client) => {
    const server = net.connect(port, `10.77.${host.number}.2`);
    for (const [from, to] of [[client, server], [server, client]]) {
      from.pipe(to);
      from.on('error', () => to.destroy()).on('close', () => to.destroy());
    }
  }).listen(port, '127.0.0.1').unref();
}

execFileSync('ip', ['link', 'set', 'lo', 'up']);
const hosts = [await makeHost(1), await makeHost(2)];
const [a, b] = hosts;
joinHosts(a, b);
send(a, b, 1);
send(b, a, 1);

const storm = await Storm.open({
  style, lane: 'tcp', contexts: 1, generations: 1,
  place: (worker) => {
    const host = hosts[worker.role === 'context' ? 0 : 1];
    if (!worker.isRelayed) relay(worker.port, host);
    worker.isRelayed = true;
    return { program: 'nsenter', prefix: ['-t', String(host.pid), '-n', baton], args: ['--host', '0.0.0.0', '--advertise', host.kv] };
  },
});

async function away(ms) {
  ip(a, 'link set k1 down');
  await sleep(ms);
  ip(a, 'link set k1 up');
  send(a, b, 1);
  send(b, a, 1);
}

const errors = () => Object.entries(storm.tally).filter(([kind]) => kind.startsWith('error')).reduce((sum, [, count]) => sum + count, 0);
async function harmless(what, body) {
  const before = errors();
  await body();
  await sleep(1000);
  if (errors() !== before) throw new Error(`${what} cost an answer`);
}

try {
  const load = storm.load(6, next, { leaves: 5 });
  await sleep(300);
  await harmless('a link that was away for a moment', async () => {
    for (let i = 0; i < 8; i++) {
      await away(30 + next(250));
      await sleep(next(300));
    }
  });
  await harmless('a way back by another link', async () => send(b, a, 2));
  await harmless('a change to the other link', async () => {
    ip(a, 'link set k1 down');
    send(a, b, 2);
    await sleep(500);
    ip(a, 'link set k1 up');
    send(a, b, 1);
    send(b, a, 1);
  });
  const before = storm.tally.ok;
  await away(Number(outage));
  await until('answers after the outage', () => storm.tally.ok > before, 60000);
  await load.stop();
  await storm.calm({ diagnostic: (text) => console.log(text) });
} catch (error) {
  console.error(error.message, JSON.stringify(storm.tally), ...storm.faults.slice(0, 5));
  process.exitCode = 1;
}
const codes = await storm.close();
if (codes.some((code) => code !== 0)) {
  console.error(`ended with ${codes}`);
  process.exitCode = 1;
}
process.exit();
