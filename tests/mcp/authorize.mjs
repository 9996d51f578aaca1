// Puts a token before the suite: its command line has no way to send one, and the hub answers nobody without.
// Everything else goes through as it came, the Host header above all.
//
//   node authorize.mjs http://127.0.0.1:PORT TOKEN     prints the address it listens on

import http from "node:http";

const [hub, token] = process.argv.slice(2);
const { hostname, port } = new URL(hub);
const agent = new http.Agent({ keepAlive: true });

const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const { method, url: path } = request;
  const onward = http.request({ hostname, port, method, path, headers, agent }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    // An event stream's head must not wait for its first event.
    response.flushHeaders();
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});

server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
