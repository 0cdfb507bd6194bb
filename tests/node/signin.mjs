// What a desktop program needs to sign its user in, for the clients on either TypeScript SDK:
// a listener at a loopback redirect URI, a memory, and the browser that BROWSER names.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";

const ANSWERED = "The program has your answer.";

// Listens; `answer()` waits for the next redirect and returns its parameters.
export async function callback() {
  const answers = [];
  const waiting = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://127.0.0.1");
    response.end(ANSWERED);
    if (pathname !== "/callback") return;
    const next = waiting.shift();
    if (next) next(searchParams);
    else answers.push(searchParams);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    uri: `http://127.0.0.1:${server.address().port}/callback`,
    answer: async () => answers.shift() ?? new Promise((resolve) => waiting.push(resolve)),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

// An OAuth client's memory. `document` is the URL that it names itself by, if it has one.
export class Memory {
  #tokens;
  #client;
  #verifier;
  #state;
  opened = 0;
  // Whether a new consent is needed, for which no refresh token will do.
  asksAnew = false;

  constructor(redirectUrl, name, document) {
    this.redirectUrl = redirectUrl;
    this.clientMetadataUrl = document;
    this.clientMetadata = {
      client_name: name,
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  }

  state() {
    this.#state = crypto.randomUUID();
    return this.#state;
  }

  checkState(answer) {
    if (answer.get("state") !== this.#state) throw new Error("the answer is to another question");
  }

  clientInformation() {
    return this.#client;
  }

  saveClientInformation(client) {
    this.#client = client;
  }

  tokens() {
    if (!this.#tokens || !this.asksAnew) return this.#tokens;
    const { refresh_token: _, ...rest } = this.#tokens;
    return rest;
  }

  saveTokens(tokens) {
    this.#tokens = tokens;
    this.asksAnew = false;
  }

  saveCodeVerifier(verifier) {
    this.#verifier = verifier;
  }

  codeVerifier() {
    return this.#verifier;
  }

  redirectToAuthorization(url) {
    this.opened += 1;
    spawn(process.env.BROWSER, [url.href], { stdio: "ignore" });
  }

  // What the end of its access token looks like to a client: the server takes it no more.
  age() {
    this.#tokens = { ...this.#tokens, access_token: `${this.#tokens.access_token}x` };
  }
}

// Goes the whole way with a program: `connect()` returns a client and its transport. `keeps` is whether
// a refresh leaves the refresh token as it is, and `more()` what else there is to tell.
export async function journey({ memory, listener, connect, unauthorized, finish, calls, keeps = false, more }) {
  let [client, transport] = connect();
  const signIn = async (task) => {
    try {
      return await task();
    } catch (error) {
      if (!(error instanceof unauthorized)) throw error;
      const answer = await listener.answer();
      memory.checkState(answer);
      await finish(transport, answer);
      return undefined;
    }
  };
  const call = async ([name, args]) => !(await client.callTool({ name, arguments: args })).isError;

  if ((await signIn(() => client.connect(transport).then(() => true))) === undefined) {
    [client, transport] = connect();
    await client.connect(transport);
  }
  const signedIn = (await call(calls.read)) && memory.opened === 1;
  const before = memory.tokens().refresh_token;
  memory.age();
  const again = await call(calls.read);
  const refreshed = again && memory.opened === 1 && (memory.tokens().refresh_token === before) === keeps;
  const written = (await signIn(() => call(calls.write))) ?? (await call(calls.write));
  const steppedUp = written && memory.opened === 2;
  await client.close();
  listener.close();
  console.log(JSON.stringify({ signedIn, refreshed, steppedUp, ...(await more?.()) }));
}
