// COUNT requests on a connection each, until this process is killed: then the
// kernel ends all of them in one go, faster than any client could.
//   node leavers.mjs PORT COUNT BODY
import net from 'node:net';

const [port, count, body] = process.argv.slice(2);
const head = `POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
for (let i = 0; i < Number(count); i++) {
  net.connect(Number(port), '127.0.0.1', function begin() { this.write(head + body); }).on('data', () => {}).on('error', () => {});
}
