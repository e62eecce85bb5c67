// Speaks HTTP and raw bytes to a port, and says in one line what came back.
import net from 'node:net';
import { request } from '../lib/cluster.mjs';

export function line(answer) {
  const error = answer.json?.error;
  if (answer.status === 200 && error === undefined) return '200';
  if (error === undefined) return `${answer.status} NOT OUR ENVELOPE ${answer.text.slice(0, 200)}`;
  return `${answer.status} ${error.type} ${error.param ? `[${error.param}] ` : ''}${error.message}`;
}

// A stream's answer may be 200 and hold an error event all the same.
export async function ask(port, target, body, options = {}) {
  const headers = options.headers;
  const answer = await request(port, options.method ?? 'POST', target, body, { headers });
  const event = answer.text.match(/^data: (\{"error".*)$/m);
  if (answer.status === 200 && event) return `200 then ${line({ ...answer, json: JSON.parse(event[1]) })}`;
  return line(answer);
}

// Sends `parts` (strings are latin1 bytes, numbers are pauses in ms, functions make
// bytes of what was answered so far, once something was), then reads until the peer closes or `quiet` ms pass without a byte.
export function raw(port, parts, { quiet = 400, close = false } = {}) {
  return new Promise((done) => {
    const chunks = [];
    let timer;
    let ended = false;
    const socket = net.connect(port, '127.0.0.1');
    const finish = (how) => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      socket.destroy();
      done({ how, bytes: Buffer.concat(chunks) });
    };
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => finish('open'), quiet);
    };
    socket.on('data', (data) => { chunks.push(data); wait(); });
    socket.on('error', () => finish('closed'));
    socket.on('end', () => finish('closed'));
    socket.on('connect', async () => {
      for (const part of parts) {
        if (ended) return;
        if (typeof part === 'number') await new Promise((go) => setTimeout(go, part));
        else if (typeof part === 'function') {
          while (chunks.length === 0 && !ended) await new Promise((go) => setTimeout(go, 5));
          if (!ended) socket.write(part(Buffer.concat(chunks)));
        } else socket.write(Buffer.isBuffer(part) ? part : Buffer.from(part, 'latin1'));
      }
      if (close) socket.end(() => setTimeout(() => finish('left'), 400));
      else wait();
    });
  });
}

// All HTTP answers in some bytes, each as a line; number `isHead` answers HEAD.
export function answers({ how, bytes }, isHead) {
  const lines = [];
  let rest = bytes;
  while (rest.length > 0) {
    const end = rest.indexOf('\r\n\r\n');
    const head = rest.subarray(0, end < 0 ? rest.length : end).toString('latin1');
    const status = head.match(/^HTTP\/1\.[01] (\d{3})/)?.[1];
    if (status === undefined || end < 0) { lines.push(`JUNK ${head.slice(0, 80)}`); break; }
    const isBare = lines.length === isHead;
    const size = isBare ? 0 : Number(head.match(/^content-length: (\d+)/im)?.[1] ?? 0);
    const text = rest.subarray(end + 4, end + 4 + size).toString();
    rest = rest.subarray(end + 4 + size);
    let json;
    try { json = JSON.parse(text); } catch { /* shown as it is */ }
    lines.push(status === '100' || isBare ? `${status}${isBare ? ' a head' : ''}` : line({ status: Number(status), text, json }));
  }
  return `${lines.join(' + ') || 'nothing'}; ${how}`;
}
