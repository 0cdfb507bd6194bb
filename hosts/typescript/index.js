// Declares the user's task to a Douane gateway, from any MCP client with a fetch of its own.
import { AsyncLocalStorage } from "node:async_hooks";

const TASK_KEY = "douane/task";
const RUN_KEY = "douane/run";
const BEGIN = "douane/run/begin";
const END = "douane/run/end";
/** Characters of the user's words that a gateway looks at, from their beginning. */
const MOST_LOOKED_AT = 32 * 1024;
/** Characters: a longer one is none. */
const LONGEST_PROMPT = 64 * 1024;
/** Requests that bring nothing into the conversation. */
const HANDSHAKE = new Set(["initialize", "server/discover", "ping", "logging/setLevel"]);
/** For how long the end of a task waits for its run to be ended. */
const END_MS = 5000;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A person's words as they can be declared. */
const asWords = (text) => String(text).slice(0, LONGEST_PROMPT).toWellFormed();

/** As many of the newest turns as are looked at: whole ones, for half a word is another. */
function newest(turns) {
  let length = turns.at(-1).length;
  let first = turns.length - 1;
  while (first > 0 && length + 1 + turns[first - 1].length <= MOST_LOOKED_AT) {
    length += 1 + turns[--first].length;
  }
  return turns.slice(first);
}

/** @type {AsyncLocalStorage<Running>} */
const underWay = new AsyncLocalStorage();

class Running {
  ended = false;
  #words;
  #tools;
  #grows;
  /** By gateway: what came of beginning a run there. */
  #runs = new Map();
  #ends = new Map();

  constructor(words, tools) {
    this.#grows = words === undefined;
    this.#words = this.#grows ? [] : [asWords(words)];
    this.#tools = tools;
  }

  says(words) {
    if (!this.#grows) throw new Error("a task has the words that it began with: use conversation()");
    this.#words = newest([...this.#words, asWords(words)]);
  }

  get declared() {
    const told = {};
    if (this.#words.length > 0) told.prompt = this.#words.join("\n");
    if (this.#tools !== undefined) told.tools = this.#tools;
    return told;
  }

  /**
   * What a request to `gateway` is to say; with the first one a run is begun there. Whatever the
   * gateway answered stays: a run that was begun later would not have seen what was read before.
   */
  async toldTo(gateway, begin, end) {
    let beginning = this.#runs.get(gateway);
    if (beginning === undefined) {
      beginning = begin(this.#beginsWith);
      this.#runs.set(gateway, beginning);
    }
    const forget = () => {
      if (this.#runs.get(gateway) === beginning) this.#runs.delete(gateway);
    };
    const run = await beginning.catch((error) => {
      forget();
      throw error;
    });
    if (run.state === "later") forget();
    if (run.handle !== undefined) this.#ends.set(gateway, () => end(run.handle));
    if (run.state === "begun") return { [TASK_KEY]: this.declared, [RUN_KEY]: run.handle };
    return run.state === "declared" ? { [TASK_KEY]: this.declared } : undefined;
  }

  /** What stays for as long as the run does; the words of a conversation do not. */
  get #beginsWith() {
    const { prompt, ...told } = this.declared;
    if (!this.#grows) told.prompt = prompt;
    return Object.keys(told).length > 0 ? { task: told } : {};
  }

  /** End what was begun. Where that fails, a run ends by itself when it was idle for long. */
  async end() {
    this.ended = true;
    await Promise.allSettled([...this.#ends.values()].map((end) => end()));
  }
}

const current = () => {
  const running = underWay.getStore();
  return running === undefined || running.ended ? undefined : running;
};

async function going(running, work) {
  if (current() !== undefined) {
    throw new Error("a task is under way here: end it before another one begins");
  }
  try {
    return await underWay.run(running, () => work(running));
  } finally {
    await running.end();
  }
}

export const task = (words, work, { tools } = {}) => going(new Running(String(words), tools), work);

export const conversation = (work, { tools } = {}) => going(new Running(undefined, tools), work);

export function declaring(send = (url, init) => globalThis.fetch(url, init)) {
  return async (url, init) => {
    const running = current();
    const message = running && read(init);
    if (!message) return await send(url, init);
    const like = { send, url: new URL(url), headers: new Headers(init.headers), message };
    const told = await running.toldTo(
      like.url.origin,
      (params) => begin(like, params, init.signal),
      (handle) => ask(like, END, { run: handle }, AbortSignal.timeout(END_MS)),
    );
    if (told === undefined) return await send(url, init);
    const headers = new Headers(init.headers);
    headers.delete("content-length");
    return await send(url, { ...init, headers, body: JSON.stringify(stamped(message, told)) });
  };
}

/** The request in `init` that is to declare a task; `undefined` if it is none. */
function read(init) {
  if (init?.method !== "POST" || typeof init.body !== "string") return undefined;
  const message = parsed(init.body);
  if (!isObject(message) || message.jsonrpc !== "2.0" || message.id === undefined) return undefined;
  const { method, params = {} } = message;
  if (typeof method !== "string" || !isObject(params)) return undefined;
  return HANDSHAKE.has(method) || method.startsWith("douane/") ? undefined : message;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const metaOf = (message) => (isObject(message.params?._meta) ? message.params._meta : {});

/** `message` with what is told in its `_meta`; what stands there already stays. */
const stamped = (message, told) => ({
  ...message,
  params: { ...message.params, _meta: { ...told, ...metaOf(message) } },
});

/** Send a request for the gateway alone, as `like` was sent: same credential, same revision. */
async function ask(like, method, params, signal) {
  const needed = Object.entries(metaOf(like.message)).filter(([name]) =>
    name.startsWith("io.modelcontextprotocol/"),
  );
  const meta = needed.length > 0 ? { _meta: Object.fromEntries(needed) } : {};
  const body = JSON.stringify({ jsonrpc: "2.0", id: method, method, params: { ...params, ...meta } });
  const headers = headersFor(method, like.headers);
  return await like.send(like.url, { method: "POST", headers, body, signal, redirect: "manual" });
}

/** It is in no session: a run may outlive the one beside which it was begun. */
function headersFor(method, like) {
  const headers = new Headers(like);
  for (const name of [...headers.keys()]) {
    if (name.startsWith("mcp-param-")) headers.delete(name);
  }
  for (const name of ["content-length", "mcp-name", "mcp-session-id", "last-event-id"]) {
    headers.delete(name);
  }
  if (headers.has("mcp-method")) headers.set("mcp-method", method);
  return headers;
}

async function begin(like, params, signal) {
  const response = await ask(like, BEGIN, params, signal);
  const answer = parsed(await response.text());
  const { status } = response;
  // What is sent next is answered alike, and sent again.
  if (status === 401 || (status >= 300 && status < 400)) return { state: "later" };
  const handle = answer?.result?.run;
  if (status === 200 && typeof handle === "string") return { state: "begun", handle };
  const why = answer?.error?.message ?? `HTTP ${status}`;
  if (isObject(answer?.error?.data) && "decision_id" in answer.error.data) {
    console.warn(`douane-host: ${like.url} begins no run: ${why}; it judges the task as undeclared`);
    return { state: "declared" };
  }
  console.warn(`douane-host: ${like.url} is no gateway that knows of tasks: ${why}; it is told of none`);
  return { state: "nowhere" };
}
