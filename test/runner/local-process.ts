import { createServer } from "node:http";
import { createLocalExecutor } from "../../runner/local.ts";
import { jsonLogger } from "../../runner/log.ts";

/* A process that does nothing but serve the local executor, so that a test can kill it. */

const [stateDir = "", executor = "host"] = process.argv.slice(2);
const handle = createLocalExecutor({
  stateDir,
  apiUrl: () => "http://127.0.0.1:9",
  executor: executor === "docker" ? "docker" : "host",
  log: jsonLogger(
    (line) => process.stderr.write(line),
    () => new Date(),
  ),
});

const server = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(Buffer.from(part));
  const body = Buffer.concat(parts).toString();
  const answer = await handle({
    url: `http://local${request.url ?? "/"}`,
    method: request.method ?? "GET",
    text: async () => body,
  });
  response.writeHead(answer.status, { "content-type": "application/json" });
  response.end(await answer.text());
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object" && address) process.stdout.write(`${address.port}\n`);
});
