// A client on the TypeScript SDK v2: `node sdk-v2.mjs URL TOKEN MODE CALLS`, where MODE is what is
// negotiated ("default" for nothing said) and CALLS a JSON list of [tool, arguments].
// Prints what it saw as JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, token, mode, calls] = process.argv.slice(2);
const options = mode === "default" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "sdk-v2", version: "1" }, options);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  authProvider: { token: async () => token },
  onInsufficientScope: "throw",
});

const answered = [];
await client.connect(transport);
const tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
for (const [name, args] of JSON.parse(calls)) {
  try {
    answered.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    const { requiredScope, resourceMetadataUrl, code, data } = error;
    answered.push({ error: error.constructor.name, requiredScope, resourceMetadataUrl, code, data });
  }
}
const revision = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
console.log(JSON.stringify({ revision, tools, answered }));
await client.close();
