-- Calls of one tool, each with arguments of its own, and a look at each answer.
-- MARK tells this run from every other one; TOKEN, if there is one, is sent as bearer token, and
-- SESSION, if there is one, as that of a client which once shook hands: ERA says in which revision.
local mark, token = os.getenv("MARK"), os.getenv("TOKEN")
local era, session = os.getenv("ERA"), os.getenv("SESSION")
local stateless = era == "2026-07-28"
local headers = {
  ["Content-Type"] = "application/json",
  ["Accept"] = "application/json, text/event-stream",
  ["MCP-Protocol-Version"] = era,
}
if stateless then
  headers["Mcp-Method"] = "tools/call"
  headers["Mcp-Name"] = "echo"
end
if session and session ~= "" then headers["Mcp-Session-Id"] = session end
if token and token ~= "" then headers["Authorization"] = "Bearer " .. token end

local body = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo",'
  .. '"arguments":{"text":"' .. mark .. ' %d","to":"emma@example.com"}'
if stateless then
  body = body .. ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    .. '"io.modelcontextprotocol/clientCapabilities":{}}'
end
body = body .. "}}"
local answer = '"text": ?"ok ' .. mark .. ' (%d+)"'

local threads = {}
function setup(thread) threads[#threads + 1] = thread end

local sent = 0
wrong = 0 -- a global, as is `example`: `done` reads them from outside of this thread
function request()
  sent = sent + 1
  return wrk.format("POST", nil, headers, body:format(sent, sent))
end

function response(status, _, found)
  local text = found:match(answer)
  if status ~= 200 or not text or text ~= found:match('"id": ?(%d+)') then
    wrong = wrong + 1
    example = example or (status .. " " .. found)
  end
end

function done(summary, latency)
  local failed = summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  local wrong = 0
  for _, thread in ipairs(threads) do
    wrong = wrong + thread:get("wrong")
    local example = thread:get("example")
    if example then io.stderr:write(example, "\n") end
  end
  io.write(string.format(
    '{"calls":%d,"duration_us":%d,"p50_us":%d,"p95_us":%d,"p99_us":%d,"wrong":%d,"errors":%d}\n',
    summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(95), latency:percentile(99), wrong, failed
  ))
end
