// What runs in an interpreter of its own before a program does, and hands its calls to the gateway.
// The program shares this realm and can do whatever this file can, which is to write lines: the
// gateway takes none of them for true. What is removed below is removed so that less is there.
const { stdin, stdout, exit, inspect } = Deno;
const { parse, stringify } = JSON;
const { Blob } = globalThis;
const { createObjectURL } = URL;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const reader = stdin.readable.getReader();
const PIECE = 16384; // characters of the console that are told at once
const OURS = /^ +at .*(data:text\/javascript|ext:)/;
const INSPECTED = { colors: false, depth: 6, iterableLimit: 200, strAbbreviateSize: 10000 };

const KEPT = new Set([
  ..."Object Function Array Number parseFloat parseInt Infinity NaN undefined Boolean String Symbol".split(" "),
  ..."Date Promise RegExp Error AggregateError EvalError RangeError ReferenceError SyntaxError".split(" "),
  ..."TypeError URIError SuppressedError globalThis JSON Math Intl Temporal ArrayBuffer DataView".split(" "),
  ..."Uint8Array Int8Array Uint16Array Int16Array Uint32Array Int32Array BigUint64Array".split(" "),
  ..."BigInt64Array Uint8ClampedArray Float16Array Float32Array Float64Array BigInt Map Set Iterator".split(" "),
  ..."WeakMap WeakSet WeakRef FinalizationRegistry Proxy Reflect DisposableStack".split(" "),
  ..."AsyncDisposableStack decodeURI decodeURIComponent encodeURI encodeURIComponent escape".split(" "),
  ..."unescape eval isFinite isNaN queueMicrotask structuredClone atob btoa TextEncoder".split(" "),
  ..."TextDecoder URL URLSearchParams AbortController AbortSignal Event EventTarget".split(" "),
  ..."DOMException setTimeout clearTimeout setInterval clearInterval crypto performance".split(" "),
  ..."Atomics onbeforeunload".split(" "), // Deno itself needs these two
]);

function send(text) {
  const octets = encoder.encode(text + "\n");
  for (let sent = 0; sent < octets.length; ) sent += stdout.writeSync(octets.subarray(sent));
}

let received = "";
async function line() {
  for (;;) {
    const end = received.indexOf("\n");
    if (end >= 0) {
      const found = received.slice(0, end);
      received = received.slice(end + 1);
      return parse(found);
    }
    const { value, done } = await reader.read();
    if (done) exit(0);
    received += decoder.decode(value, { stream: true });
  }
}

class ToolError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "ToolError";
    this.code = code;
  }
  toString() {
    return this.message;
  }
}

const waiting = new Map();
let calls = 0;

async function call(path, given, most) {
  const text = given === undefined ? "{}" : stringify(given);
  if (text === undefined || text[0] !== "{") throw new TypeError("a tool takes one object");
  if (encoder.encode(text).length > most) {
    const short = path.slice(path.indexOf(".") + 1);
    const code = "invalid_arguments";
    throw new ToolError(
      code,
      `ToolError[${code}] ${short}: the arguments are more than ${most} bytes of JSON`,
    );
  }
  return await new Promise((resolve, reject) => {
    const id = ++calls;
    waiting.set(id, { resolve, reject, stack: new Error().stack });
    send(`{"t":"call","id":${id},"path":${stringify(path)},"arguments":${text}}`);
  });
}

async function listen() {
  for (;;) {
    const { id, value, error } = await line();
    const { resolve, reject, stack } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) {
      resolve(value);
      continue;
    }
    const failure = new ToolError(error.code, error.message);
    // Where it was called says more than where its answer was read.
    failure.stack = error.message + stack.slice("Error".length);
    reject(failure);
  }
}

function printed(...things) {
  const text = things.map((one) => (typeof one === "string" ? one : inspect(one, INSPECTED))).join(" ") + "\n";
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = at + PIECE;
    const last = text.charCodeAt(end - 1);
    if (last >= 0xd800 && last < 0xdc00) end--; // not between the halves of one character
    send(`{"t":"log","text":${stringify(text.slice(at, end))}}`);
  }
}

function told(error, url) {
  let text;
  try {
    const stack = error instanceof Error ? error.stack : undefined;
    text = typeof stack === "string" ? stack : String(error);
  } catch {
    text = "an exception that has no text";
  }
  const shown = text.split("\n").filter((one) => !OURS.test(one));
  return shown.join("\n").replaceAll(url, "program.ts").replace("TypeError: SyntaxError:", "SyntaxError:");
}

function fail(kind, error, url) {
  send(`{"t":"fail","kind":"${kind}","text":${stringify(told(error, url).slice(0, PIECE))}}`);
  exit(0);
}

function finish(value, most) {
  let text, why;
  try {
    text = value === undefined ? "null" : stringify(value);
    if (text === undefined) why = `not JSON: a ${typeof value}`;
    else if (encoder.encode(text).length > most) why = `more than ${most} bytes of JSON`;
  } catch (error) {
    why = `not JSON: ${String(error?.message).split("\n")[0].slice(0, 200)}`;
  }
  if (why === undefined) send(`{"t":"done","value":${text}}`);
  else send(`{"t":"unfit","text":${stringify(why)}}`);
  exit(0);
}

const { addEventListener } = globalThis;
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (!KEPT.has(name)) {
    delete globalThis[name];
    if (name in globalThis) Object.defineProperty(globalThis, name, { value: undefined });
  }
}
delete URL.createObjectURL;
delete URL.revokeObjectURL;
const console = { log: printed, info: printed, debug: printed, warn: printed, error: printed };
Object.assign(console, { dir: (one) => printed(one), table: (one) => printed(one), trace: printed });
globalThis.console = Object.freeze(console);
globalThis.ToolError = ToolError;

send('{"t":"ready"}');
const job = await line();
const tools = Object.create(null);
for (const [server, own] of Object.entries(job.tools)) {
  tools[server] = Object.create(null);
  for (const [name, path] of Object.entries(own)) {
    tools[server][name] = (given) => call(path, given, job.arguments_bytes);
  }
  Object.freeze(tools[server]);
}
globalThis.tools = Object.freeze(tools);

// A promise that nobody waits for may fail; what became of the call is listed.
addEventListener("unhandledrejection", (event) => event.preventDefault());
listen();
const source = new Blob([`export default async () => {${job.code}\n}`], { type: "application/typescript" });
const url = createObjectURL(source);
addEventListener("error", (event) => {
  event.preventDefault();
  fail("raised", event.error, url);
});
let program;
try {
  program = (await import(url)).default;
} catch (error) {
  fail("syntax", error, url);
}
try {
  finish(await program(), job.value_bytes);
} catch (error) {
  fail("raised", error, url);
}
