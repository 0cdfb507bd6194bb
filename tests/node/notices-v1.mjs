// A client on the TypeScript SDK v1: `node notices-v1.mjs URL TOKEN URI TOOL`. Follows the resource
// URI, calls TOOL so that it changes, and waits for the news and for the list of tools to change.
// Prints a line "follows" when it waits for the latter. Then it ends its session and tries to go on.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [url, token, uri, tool] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const client = new Client({ name: "notices-v1", version: "1" }, { capabilities: {} });
const news = (schema) =>
  new Promise((resolve) => {
    client.setNotificationHandler(schema, ({ params }) => resolve(params ?? {}));
  });
const updated = news(ResourceUpdatedNotificationSchema);
const changed = news(ToolListChangedNotificationSchema);

const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);
const declared = client.getServerCapabilities();
await client.subscribeResource({ uri });
await client.callTool({ name: tool, arguments: {} });
const { uri: told } = await updated;
await client.callTool({ name: tool, arguments: {} });
await client.unsubscribeResource({ uri });
console.log("follows");
await changed;
const listed = (await client.listTools()).tools.map(({ name }) => name);

const session = transport.sessionId;
await transport.terminateSession();
const again = await fetch(url, {
  method: "POST",
  headers: {
    ...headers,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-session-id": session,
    "mcp-protocol-version": "2025-11-25",
  },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
});
console.log(JSON.stringify({ declared, told, listed, after: again.status }));
await client.close();
