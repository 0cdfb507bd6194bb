"""What a token for a program is asked for: `authorization_details` of one type (RFC 9396), pure."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Never

from gateway.domain._value import value
from gateway.domain.document import canonical
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.wire import jsontext

TYPE: Final = "mcp_script_run"
MOST_TOOLS: Final = 50
MOST_CALLS: Final = 10_000
LONGEST_S: Final = 600
"""No token for a program is good for longer, whatever is asked for."""
LONGEST_PARENT: Final = 128
"""Characters."""

_DEPTH: Final = 64
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MEMBERS: Final = frozenset({"type", "tools", "max_calls", "expires_in", "code_sha256", "parent"})
_NEEDED: Final = frozenset({"type", "tools", "max_calls", "code_sha256"})
_TOOL_MEMBERS: Final = frozenset({"name", "max_calls", "arguments"})
_TOOL_NEEDED: Final = frozenset({"name", "max_calls"})


@value
class WantedTool:
    """Calls of one tool."""

    name: str
    """As it is listed in front of all servers. It need not exist."""
    most: int
    arguments: Mapping[str, Any]
    """Members that the arguments of each call must have, and what each of them must be."""


@value
class WantedRun:
    """One run of one program."""

    tools: tuple[WantedTool, ...]
    most: int
    """Calls of all tools together."""
    lasts_s: int
    sha256: str
    parent: str
    """What the host says that it runs for; empty where it says nothing."""


def wanted(text: str) -> WantedRun:
    """Return the one run that `text` asks for.

    Raises:
        OAuthError: `invalid_authorization_details`: it is not a list of one object that has every
            member it needs and none that is not known, or one of them is out of bounds.

    """
    run = _only(text)
    _check_members(run, _MEMBERS, _NEEDED)
    tools = run["tools"]
    if type(tools) is not list or not 0 < len(tools) <= MOST_TOOLS:
        _refuse(f"tools must be a list of 1 to {MOST_TOOLS}")
    sha256, parent = run["code_sha256"], run.get("parent", "")
    if type(sha256) is not str or not _DIGEST.fullmatch(sha256):
        _refuse("code_sha256 must be 64 lower-case hexadecimal digits")
    if type(parent) is not str or len(parent) > LONGEST_PARENT or not parent.isprintable():
        _refuse(f"parent must be at most {LONGEST_PARENT} printable characters")
    return WantedRun(
        tools=tuple(map(_tool, tools)),
        most=_number(run["max_calls"], "max_calls", MOST_CALLS),
        lasts_s=_number(run.get("expires_in", LONGEST_S), "expires_in", LONGEST_S),
        sha256=sha256,
        parent=parent,
    )


def spelled(run: WantedRun) -> dict[str, Any]:
    """Return `run` as the object that asks for it."""
    return {
        "type": TYPE,
        "tools": [
            {"name": tool.name, "max_calls": tool.most, "arguments": dict(tool.arguments)}
            for tool in run.tools
        ],
        "max_calls": run.most,
        "expires_in": run.lasts_s,
        "code_sha256": run.sha256,
        **({"parent": run.parent} if run.parent else {}),
    }


def _only(text: str) -> Mapping[str, Any]:
    try:
        content = jsontext.read_exact(text.encode(), _DEPTH)
    except ValueError:
        _refuse("they cannot be read as JSON")
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        _refuse("they must be a list of one object")
    run: Mapping[str, Any] = content[0]
    if run.get("type") != TYPE:
        _refuse(f"their type must be {TYPE}")
    return run


def _tool(tool: object) -> WantedTool:
    if not isinstance(tool, dict):
        _refuse("each of tools must be an object")
    if "preapproved" in tool:
        _refuse("people are asked beforehand by the tool run_code alone, not for a token")
    _check_members(tool, _TOOL_MEMBERS, _TOOL_NEEDED)
    name, arguments = tool["name"], tool.get("arguments", {})
    if type(name) is not str:
        _refuse("name must be a text")
    if type(arguments) is not dict or not _is_comparable(arguments):
        _refuse("arguments must be an object of plain JSON")
    most = _number(tool["max_calls"], "max_calls", MOST_CALLS)
    return WantedTool(name=name, most=most, arguments=arguments)


def _check_members(
    content: Mapping[str, Any], known: Collection[str], needed: Collection[str]
) -> None:
    # A member that is not known could be a limit that its author relies on (RFC 9396 section 5).
    if not content.keys() <= set(known):
        _refuse("there is a member that is not known")
    if not content.keys() >= set(needed):
        _refuse("a member is missing")


def _is_comparable(arguments: Mapping[str, Any]) -> bool:
    try:
        canonical(arguments)
    except ValueError:
        return False
    return True


def _number(content: object, named: str, most: int) -> int:
    # `type`, not `isinstance`: a JSON true would pass as the integer 1.
    if type(content) is not int or not 0 < content <= most:
        _refuse(f"{named} must be a whole number from 1 to {most}")
    return content


def _refuse(public: str) -> Never:
    raise OAuthError(ErrorCode.INVALID_AUTHORIZATION_DETAILS, f"authorization_details: {public}")
