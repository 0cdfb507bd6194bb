// A client on the TypeScript SDK v1: `node sdk-v1.mjs URL [TOKEN [PREFIX]]`, where PREFIX is what the
// names of the reference server begin with at an endpoint in front of it. There a client hears logs
// and is asked only while a call of its own is under way.
// Uses every callback that it has against the reference server and prints what it saw as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [url, token, prefix = ""] = process.argv.slice(2);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const client = new Client(
  { name: "sdk-v1", version: "1" },
  { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } },
);
const asked = [];
const logged = [];
const loggedOnce = new Promise((resolve) => {
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    logged.push(params.level);
    resolve();
  });
});
client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
  asked.push(["sampling", params.messages[0].content.text]);
  return { model: "none", role: "assistant", content: { type: "text", text: "a sample" } };
});
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  asked.push(["elicitation", Object.keys(params.requestedSchema.properties).sort()]);
  return { action: "accept", content: { name: "Emma", check: true } };
});
client.setRequestHandler(ListRootsRequestSchema, () => {
  asked.push(["roots"]);
  return { roots: [{ uri: "file:///home/emma", name: "home" }] };
});

const texts = (result) => result.content.map((block) => block.text ?? block.type);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const call = async (name, args = {}, options = {}) =>
  await client.callTool({ name: prefix + name, arguments: args }, undefined, options);
const named = (items) =>
  items
    .map((item) => item.name)
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
    .sort();

const progress = [];
const seen = {
  server: client.getServerVersion().name,
  instructions: (client.getInstructions() ?? "").length > 0,
  tools: named((await client.listTools()).tools),
  prompts: named((await client.listPrompts()).prompts),
  echo: texts(await call("echo", { message: "hello" })),
  structured: (await call("get-structured-content", { location: "Chicago" })).structuredContent,
  sampled: texts(await call("trigger-sampling-request", { prompt: "hello", maxTokens: 10 })),
  elicited: texts(await call("trigger-elicitation-request")).length,
  roots: texts(await call("get-roots-list")).join().includes("file:///home/emma"),
  long: texts(
    await call(
      "trigger-long-running-operation",
      { duration: 0.3, steps: 3 },
      { onprogress: ({ progress: step, total }) => progress.push([step, total]) },
    ),
  ),
  refused: await call("get-sum", { a: 1, b: 2 }),
};
await client.setLoggingLevel("debug");
if (!prefix) {
  await call("toggle-simulated-logging");
  await loggedOnce;
  await call("toggle-simulated-logging");
}
console.log(JSON.stringify({ ...seen, progress, asked, logged: logged.length > 0 }));
await client.close();
