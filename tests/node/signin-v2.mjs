// A program on the TypeScript SDK v2 that signs its user in: `node signin-v2.mjs URL CALLS [DOCUMENT]`,
// where CALLS is JSON: {"read": [tool, arguments], "write": [tool, arguments]}, and DOCUMENT the URL
// that it names itself by.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { Memory, callback, journey } from "./signin.mjs";

const [url, calls, document] = process.argv.slice(2);
const listener = await callback();
const memory = new Memory(listener.uri, "A program on SDK v2", document);

await journey({
  memory,
  listener,
  connect: () => [
    new Client({ name: "signin-v2", version: "1" }, { versionNegotiation: { mode: "auto" } }),
    new StreamableHTTPClientTransport(new URL(url), { authProvider: memory }),
  ],
  unauthorized: UnauthorizedError,
  finish: (transport, answer) => transport.finishAuth(answer),
  calls: JSON.parse(calls),
});
