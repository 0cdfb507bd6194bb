-- Calls of one tool, each with arguments of its own, and a look at each answer.
-- MARK tells this run from every other one. TOKENS, if there is one, is a file of bearer tokens, one a
-- line, which are sent in turn from any of them on; and SESSION, if there is one, is sent as that of a client which once shook
-- hands: ERA says in which revision. With PROGRESS news of each call are asked for.
local mark, tool = os.getenv("MARK"), os.getenv("TOOL")
local tokens, file = {}, os.getenv("TOKENS")
if file and file ~= "" then
  for token in io.lines(file) do tokens[#tokens + 1] = "Bearer " .. token end
end
local era, session = os.getenv("ERA"), os.getenv("SESSION")
local stateless = era == "2026-07-28"
local headers = {
  ["Content-Type"] = "application/json",
  ["Accept"] = "application/json, text/event-stream",
  ["MCP-Protocol-Version"] = era,
}
if stateless then
  headers["Mcp-Method"] = "tools/call"
  headers["Mcp-Name"] = tool
end
if session and session ~= "" then headers["Mcp-Session-Id"] = session end

local about = {}
if os.getenv("PROGRESS") == "1" then about[#about + 1] = '"progressToken":%d' end
if stateless then
  about[#about + 1] = '"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    .. '"io.modelcontextprotocol/clientCapabilities":{}'
end
local body = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"' .. tool .. '",'
  .. '"arguments":{"text":"' .. mark .. ' %d","to":"emma@example.com"}'
if #about > 0 then body = body .. ',"_meta":{' .. table.concat(about, ",") .. "}" end
body = body .. "}}"
local answer = '"text": ?"ok ' .. mark .. ' (%d+)[ "]'

local edge = 512
local threads = {}
function setup(thread) threads[#threads + 1] = thread end

local sent, first = 0, #tokens > 0 and tonumber(mark:sub(1, 8), 16) % #tokens or 0
wrong = 0 -- a global, as is `example`: `done` reads them from outside of this thread
function request()
  sent = sent + 1
  if #tokens > 0 then headers["Authorization"] = tokens[(first + sent) % #tokens + 1] end
  return wrk.format("POST", nil, headers, body:format(sent, sent, sent))
end

function response(status, _, found)
  -- All that is looked for stands at either end, or at the start of an event: a long text is not gone through.
  local text = found:match(answer)
  local ends = found:sub(1, edge) .. found:sub(-edge)
  if status ~= 200 or not text or text ~= ends:match('"id": ?(%d+)') then
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
