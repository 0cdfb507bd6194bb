// The client of the MCP TypeScript SDK v1: `node sdk-v1.mjs URL TOKEN MODE REQUEST...`; MODE is unused.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { declaring, task } from "douane-host";

const [url, token, , ...requests] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const client = new Client({ name: "clerk", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit, fetch: declaring() });
await client.connect(transport);
for (const words of requests) {
  await task(words, async () => {
    await client.callTool({ name: "page", arguments: {} });
  });
}
await client.close();
