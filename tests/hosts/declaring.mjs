// What `douane-host` puts into requests, whatever answers them: `node --test declaring.mjs`.
import assert from "node:assert/strict";
import { test } from "node:test";

import { conversation, declaring, task } from "../../hosts/typescript/index.js";

const URL_ = "https://gateway.example/mcp/mail";
const REFUSED = { code: 40301, message: "no", data: { code: "denied", decision_id: "d_1" } };
const NOT_FOUND = { code: -32601, message: "Method not found" };
console.warn = () => {};

/** Answers every request; `begins` are the answers to the first that begin a run. */
function gateway(begins = []) {
  const seen = [];
  let begun = 0;
  const send = async (url, { headers, body }) => {
    const message = JSON.parse(body);
    seen.push({ url: String(url), message, headers: Object.fromEntries(new Headers(headers)) });
    await new Promise(setImmediate);
    let [status, told] = [200, { result: {} }];
    if (message.method === "douane/run/begin") {
      told = { result: { run: `handle-${++begun}`, idle_s: 1 } };
      [status, told] = begins.shift() ?? [status, told];
    }
    return new Response(JSON.stringify({ jsonrpc: "2.0", id: 1, ...told }), { status });
  };
  const fetch = declaring(send);
  const call = (params = {}, { method = "tools/call", url = URL_, headers = {} } = {}) =>
    fetch(url, {
      method: "POST",
      headers: { Authorization: "Bearer t", "Mcp-Session-Id": "s", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: 7, method, params }),
    });
  return {
    seen,
    call,
    fetch,
    methods: () => seen.map(({ message }) => message.method),
    metas: () =>
      seen
        .filter(({ message }) => !message.method.startsWith("douane/"))
        .map(({ message }) => message.params?._meta),
  };
}

test("what is sent for a task says so, and nothing else does", async () => {
  const at = gateway();
  await at.call();
  const work = async () => {
    await at.call({ name: "b", _meta: { progressToken: 3 } });
    return "done";
  };
  assert.equal(await task("Write to Bob", work, { tools: ["mail/send"] }), "done");
  await at.call();
  const told = { prompt: "Write to Bob", tools: ["mail/send"] };
  const declared = { "douane/task": told, "douane/run": "handle-1", progressToken: 3 };
  assert.deepEqual(at.metas(), [undefined, declared, undefined]);
  assert.deepEqual(at.seen[1].message.params, { task: told });
  assert.deepEqual(at.seen[3].message.params, { run: "handle-1" });
});

test("a request of our own speaks the revision and is in no session", async () => {
  const at = gateway();
  const version = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
  const headers = { "Mcp-Method": "tools/call", "Mcp-Name": "send", "Mcp-Param-Region": "eu" };
  await task("Write to Bob", () => at.call({ _meta: { ...version, progressToken: 1 } }, { headers }));
  const [begin, call, end] = at.seen;
  assert.deepEqual(begin.message.params._meta, version);
  assert.deepEqual(end.message.params._meta, version);
  assert.equal(begin.headers["mcp-method"], "douane/run/begin");
  for (const name of ["mcp-name", "mcp-param-region", "mcp-session-id"]) {
    assert.ok(!(name in begin.headers));
  }
  assert.equal(begin.headers.authorization, "Bearer t");
  assert.equal(call.headers["mcp-session-id"], "s");
});

test("what is no request of a conversation is left as it is", async () => {
  const at = gateway();
  const bodies = [
    { jsonrpc: "2.0", id: 1, method: "initialize", params: {} },
    { jsonrpc: "2.0", method: "notifications/cancelled" },
  ];
  await task("Write to Bob", async () => {
    for (const body of bodies) await at.fetch(URL_, { method: "POST", body: JSON.stringify(body) });
  });
  assert.deepEqual(at.seen.map(({ message }) => message), bodies);
});

test("a gateway that trusts no host is told and asked once", async () => {
  const at = gateway([[200, { error: REFUSED }]]);
  await task("Write to Bob", async () => {
    await at.call();
    await at.call();
  });
  const declared = { "douane/task": { prompt: "Write to Bob" } };
  assert.deepEqual(at.metas(), [declared, declared]);
  assert.deepEqual(at.methods(), ["douane/run/begin", "tools/call", "tools/call"]);
});

for (const answer of [[200, { error: NOT_FOUND }], [404, { error: NOT_FOUND }], [503, {}], [200, {}]]) {
  test(`whoever is no gateway hears no more of a task: ${JSON.stringify(answer)}`, async () => {
    const at = gateway([answer]);
    await task("Write to Bob", async () => {
      await at.call();
      await at.call();
    });
    assert.deepEqual(at.metas(), [undefined, undefined]);
    assert.deepEqual(at.methods(), ["douane/run/begin", "tools/call", "tools/call"]);
  });
}

for (const status of [401, 307]) {
  test(`a run is begun with the request that is sent again after ${status}`, async () => {
    const at = gateway([[status, {}]]);
    await task("Write to Bob", async () => {
      await at.call();
      await at.call();
    });
    assert.deepEqual(at.metas().map((meta) => meta?.["douane/run"]), [undefined, "handle-2"]);
  });
}

test("a run is for a gateway, not for an endpoint, and begun once", async () => {
  const at = gateway();
  const urls = [URL_, "https://gateway.example/mcp", "https://other.example/mcp"];
  await task("Write to Bob", () => Promise.all(urls.map((url) => at.call({}, { url }))));
  const begun = at.seen.filter(({ message }) => message.method === "douane/run/begin");
  assert.deepEqual(begun.map(({ url }) => url), [URL_, "https://other.example/mcp"]);
  assert.equal(at.methods().filter((method) => method === "douane/run/end").length, 2);
});

test("tasks at once are told apart", async () => {
  const at = gateway();
  await Promise.all(["one", "two"].map((words) => task(words, () => at.call())));
  const told = at.metas().map((meta) => [meta["douane/task"].prompt, meta["douane/run"]]);
  assert.deepEqual(told.map(([words]) => words).sort(), ["one", "two"]);
  assert.equal(new Set(told.map(([, run]) => run)).size, 2);
});

test("what goes on after a task is not of it", async () => {
  const at = gateway();
  let go;
  const waits = new Promise((resolve) => (go = resolve));
  let left;
  await task("Write to Bob", async () => {
    left = waits.then(() => at.call());
    await at.call();
  });
  go();
  await left;
  assert.equal(at.metas()[1], undefined);
});

test("a task begins in no other one", async () => {
  await task("Write to Bob", async () => {
    await assert.rejects(task("another", async () => {}), /under way/);
    await assert.rejects(conversation(async () => {}), /under way/);
  });
});

test("a conversation declares all that was said so far", async () => {
  const at = gateway();
  await conversation(async (talk) => {
    await at.call();
    talk.says("one");
    await at.call();
    talk.says("two");
    await at.call();
    talk.says("x".repeat(32 * 1024));
    await at.call();
    talk.says("z".repeat(128 * 1024));
    await at.call();
    talk.says("\ud800");
    await at.call();
  });
  const told = at.metas().map((meta) => meta["douane/task"]);
  assert.deepEqual(told.slice(0, 2), [{}, { prompt: "one" }]);
  assert.equal(told[2].prompt, "one\ntwo");
  assert.equal(told[3].prompt, "x".repeat(32 * 1024));
  assert.equal(told[4].prompt, "z".repeat(64 * 1024));
  assert.equal(told[5].prompt, "\ufffd");
  assert.deepEqual(at.seen[0].message.params, {});
  await task("Write to Bob", async (one) => assert.throws(() => one.says("more"), /conversation/));
});

test("a task that fails ends all the same", async () => {
  const at = gateway();
  const fails = async () => {
    await at.call();
    throw new Error("mine");
  };
  await assert.rejects(task("Write to Bob", fails), /mine/);
  assert.equal(at.methods().at(-1), "douane/run/end");
});
