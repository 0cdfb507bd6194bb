// A program on the TypeScript SDK v2 that holds a key (RFC 9449): `node signin-dpop.mjs URL CALLS`.
// Besides what every program goes through, it tells what its token is worth without the key.
import { Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { Memory, callback, journey } from "./signin.mjs";

const [url, calls] = process.argv.slice(2);
const listener = await callback();
const session = await DpopSession.create();
const memory = new Memory(listener.uri, "A program that holds a key");
memory.clientMetadata.dpop_bound_access_tokens = true;
memory.dpop = () => session;

async function posted(headers) {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "thief", version: "1" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  const sent = { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers };
  return (await fetch(url, { method: "POST", headers: sent, body })).status;
}

// What somebody can do who has read its memory, or overheard one of its requests.
async function stolen() {
  const { access_token: token, token_type: kind } = memory.tokens();
  const thief = await DpopSession.create();
  const proof = (by, htu) => by.buildProof({ htm: "POST", htu, accessToken: token });
  const own = await proof(session, url);
  return {
    kind,
    asBearer: await posted({ authorization: `Bearer ${token}` }),
    withAnotherKey: await posted({ authorization: `DPoP ${token}`, dpop: await proof(thief, url) }),
    forAnotherUrl: await posted({ authorization: `DPoP ${token}`, dpop: await proof(session, `${url}s`) }),
    byItsHolder: await posted({ authorization: `DPoP ${token}`, dpop: own }),
    onceMore: await posted({ authorization: `DPoP ${token}`, dpop: own }),
  };
}

await journey({
  memory,
  listener,
  connect: () => [
    new Client({ name: "signin-dpop", version: "1" }, { versionNegotiation: { mode: "auto" } }),
    new StreamableHTTPClientTransport(new URL(url), { authProvider: memory }),
  ],
  unauthorized: UnauthorizedError,
  finish: (transport, answer) => transport.finishAuth(answer),
  calls: JSON.parse(calls),
  keeps: true,
  more: stolen,
});
