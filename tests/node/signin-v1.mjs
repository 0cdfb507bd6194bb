// A program on the TypeScript SDK v1 that signs its user in: `node signin-v1.mjs URL CALLS`, where
// CALLS is JSON: {"read": [tool, arguments], "write": [tool, arguments]}.
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Memory, callback, journey } from "./signin.mjs";

const [url, calls] = process.argv.slice(2);
const listener = await callback();
const memory = new Memory(listener.uri, "A program on SDK v1");

// This SDK would refresh where a scope is missing, and get the same scopes again.
const watched = async (...request) => {
  const response = await fetch(...request);
  memory.asksAnew ||= response.status === 403;
  return response;
};

await journey({
  memory,
  listener,
  connect: () => [
    new Client({ name: "signin-v1", version: "1" }),
    new StreamableHTTPClientTransport(new URL(url), { authProvider: memory, fetch: watched }),
  ],
  unauthorized: UnauthorizedError,
  finish: (transport, answer) => transport.finishAuth(answer.get("code")),
  calls: JSON.parse(calls),
});
