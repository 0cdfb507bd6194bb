// The client of the MCP TypeScript SDK v2: `node sdk.mjs URL TOKEN MODE REQUEST...`.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { declaring, task } from "douane-host";

const [url, token, mode, ...requests] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const client = new Client({ name: "clerk", version: "1" }, { versionNegotiation: { mode } });
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch: declaring() });
await client.connect(transport);
for (const words of requests) {
  await task(words, async () => {
    await client.callTool({ name: "page", arguments: {} });
  });
}
await client.close();
