"""The tool `run_code`: its definition, what it is asked for, and how a run is told (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.document import Document
from gateway.domain.labels import BOTTOM, Effect, ServerRule, ToolRule
from gateway.domain.programs import Language, ProgramCall, ProgramResult, ProgramStatus
from gateway.domain.scripts import LONGEST_ARGUMENTS, ScriptId, ToolGrant
from gateway.domain.tools import OWN, Kind, Manifest, Pin, PinStatus, Profile, Target, UpstreamId
from gateway.errors import BadCommand
from gateway.wire import jsontext
from gateway.wire.operations import RUN_CODE

MOST_GRANTS: Final = 50
_MOST_CALLS: Final = 10_000
_MOST_CODE: Final = 1 << 20
"""Characters that the schema lets through; the limit in force is the sandbox's."""

DEFINITION: Final[Mapping[str, Any]] = {
    "name": RUN_CODE,
    "title": "Run a program",
    "description": "Run a Python program that calls many tools in one go: `import tools` (or `from "
    "tools import mail`), then `await tools.SERVER.TOOL(argument=...)`; several at once with "
    "asyncio.gather. Read the stubs first: get_tool_details with detail stubs. A result is the "
    "tool's structured content where there is some, else its text. Each call is decided on like a "
    "direct one; one that is refused or fails raises RuntimeError('ToolError[code] server.tool: why'). "
    "The value of the last expression, and what it prints, come back: let the program filter, and "
    "return little. No files, network or environment; no classes that inherit, no yield, no del, no map; of "
    "the library asyncio, json, re, math, datetime, collections, itertools and a few more.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "minLength": 1,
                "maxLength": _MOST_CODE,
                "description": "The program. `await` may stand at the top.",
            },
            "language": {"type": "string", "description": "python, which it is anyway."},
            "grants": {
                "type": "array",
                "maxItems": MOST_GRANTS,
                "description": "Where given, the program may call these tools and no others.",
                "items": {
                    "type": "object",
                    "properties": {
                        "tool": {"type": "string", "description": "Its name: server__tool."},
                        "max_calls": {"type": "integer", "minimum": 1, "maximum": _MOST_CALLS},
                        "arguments": {
                            "type": "object",
                            "description": "Arguments that every one of these calls must have so.",
                        },
                        "preapproved": {
                            "type": "boolean",
                            "description": "Ask a person now, once, for these calls; where they go "
                            "must stand in `arguments`.",
                        },
                    },
                    "required": ["tool", "max_calls"],
                    "additionalProperties": False,
                },
            },
            "resume": {
                "type": "string",
                "maxLength": 128,
                "description": "Instead of code: the run that waited for a person, and goes on.",
            },
        },
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
}

_EXTRACTS: Final = (
    " `await tools.Client.extract(value=..., schema={...})` has your own model read a text and answer "
    "as the JSON Schema says; what it returns is as trustworthy as the text."
)

ONLY_PYTHON: Final = (Language.PYTHON,)

_TYPESCRIPT: Final = (
    " Or, with language typescript, one in TypeScript, all of it: `await tools.SERVER.TOOL({...})`, "
    "Promise.all, `return` the value at the end; a failed call throws a ToolError with code; no "
    "imports. It cannot wait for a person."
)
_NO_EXTRACT: Final = " Client.extract is for Python alone."
_ABSENT: Final = {
    Language.TYPESCRIPT.value: "programs in typescript are not run here: whoever operates this "
    "gateway can install its extra for them (pip install 'douane[typescript]') and allow them "
    "(code.typescript). Write it in python"
}

TARGET: Final = Target(server=OWN, kind=Kind.TOOL, name=RUN_CODE)

SELF: Final = Target(server=OWN, kind=Kind.SERVER, name=OWN)

RULE: Final = ServerRule(
    default=BOTTOM,
    # What a program does its calls do, each by its own effect; and what it has seen they have
    # raised the run to, which its result is labelled with: also in one that began meanwhile.
    tools={RUN_CODE: ToolRule(effect=Effect.READ, result=BOTTOM)},
)


def definition_of(
    *, extracts: bool = False, languages: Sequence[Language] = ONLY_PYTHON
) -> Mapping[str, Any]:
    """Return what is listed; `extracts`: programs can have their client's model read something."""
    text = DEFINITION["description"] + (_EXTRACTS if extracts else "")
    if Language.TYPESCRIPT not in languages:
        return {**DEFINITION, "description": text}
    schema = DEFINITION["inputSchema"]
    language = {"enum": [one.value for one in languages], "default": Language.PYTHON.value}
    properties = {**schema["properties"], "language": language}
    return {
        **DEFINITION,
        "description": text + _TYPESCRIPT + (_NO_EXTRACT if extracts else ""),
        "inputSchema": {**schema, "properties": properties},
    }


def own_pins(
    *, extracts: bool = False, languages: Sequence[Language] = ONLY_PYTHON
) -> Mapping[tuple[Target, Profile], Pin]:
    """Return what stands for `run_code`, which the gateway vouches for itself, by family.

    Where it asks clients something, also what stands for it as a server that asks.
    """
    definition = dict(definition_of(extracts=extracts, languages=languages))
    ours = {TARGET: definition, **({SELF: {"name": "douane"}} if extracts else {})}
    return {
        (target, profile): _pin(target, profile, content)
        for target, content in ours.items()
        for profile in Profile
    }


def _pin(target: Target, profile: Profile, definition: dict[str, Any]) -> Pin:
    manifest = Manifest(target=target, profile=profile, definition=Document.of(definition))
    return Pin(
        target=target,
        profile=profile,
        status=PinStatus.APPROVED,
        observed=manifest,
        approved=manifest,
        approved_by="gateway",
        first_seen=0.0,
    )


@value
class Wanted:
    """What one call of `run_code` is for."""

    code: str
    resume: ScriptId | None
    grants: tuple[Mapping[str, Any], ...] | None
    language: Language = Language.PYTHON


def wanted(arguments: Mapping[str, Any], languages: Sequence[Language] = ONLY_PYTHON) -> Wanted:
    """Return what arguments that fit the schema ask for, in one of `languages`.

    Raises:
        BadCommand: They ask for nothing, for two things, for too much, or in a language that is not
            there.

    """
    code, resume = arguments.get("code"), arguments.get("resume")
    if (code is None) is (resume is None):
        raise BadCommand("give either code or resume")
    language = arguments.get("language", Language.PYTHON.value)
    if language not in languages:
        raise BadCommand(_ABSENT.get(language, f"programs are written in {' or '.join(languages)}"))
    grants = arguments.get("grants")
    if resume is not None and grants is not None:
        raise BadCommand("a run that goes on keeps its grants; leave them out")
    _require_short(grants or ())
    return Wanted(
        code=code or "",
        resume=None if resume is None else ScriptId(resume),
        grants=None if grants is None else tuple(grants),
        language=Language(language),
    )


def _require_short(grants: Iterable[Mapping[str, Any]]) -> None:
    """Return if `grants` say little enough: it is kept for as long as their program runs and waits."""
    try:
        said = jsontext.write_octets([grant.get("arguments") for grant in grants])
    except ValueError as error:
        raise BadCommand("the grants' arguments are no JSON") from error
    if len(said) > LONGEST_ARGUMENTS:
        raise BadCommand("the grants say too much of arguments: 64 KiB of JSON together at most")


def granted(
    asked: Iterable[Mapping[str, Any]],
    named: Mapping[str, tuple[UpstreamId, str]],
    approval: Mapping[str, Any] | None,
) -> tuple[ToolGrant, ...]:
    """Return the grants that a call of `run_code` asks for.

    `named` says which server and tool a name is; `approval` is a person's yes to this very call.

    Raises:
        BadCommand: There is no such tool.

    """
    found = []
    for grant in asked:
        target = named.get(grant["tool"])
        if target is None:
            raise BadCommand(f"there is no tool {grant['tool'][:200]!r} to be granted")
        server, tool = target
        asks = grant.get("preapproved") is True and approval is not None
        found.append(
            ToolGrant(
                server=server,
                tool=tool,
                most=grant["max_calls"],
                arguments=grant.get("arguments") or {},
                approval_id=str(approval["id"]) if asks and approval is not None else "",
                approved_by=str(approval["by"]) if asks and approval is not None else "",
            )
        )
    return tuple(found)


def told(result: ProgramResult, run: ScriptId) -> Mapping[str, Any]:
    """Return the result of a call of `run_code`: one text that holds JSON."""
    report: dict[str, Any] = {
        "status": result.status.value,
        "run": run,
        "value": result.value,
        **({"console": result.console} if result.console else {}),
        **({"error": result.error} if result.error else {}),
        "calls": _calls(result.calls),
    }
    if result.status is not ProgramStatus.OK and result.side_effects:
        report["side_effects"] = [call.seq for call in result.side_effects]
    if result.status is ProgramStatus.PARKED:
        report["waits_for"] = list(result.waits_for)
        report["next"] = (
            "A person has to answer first: tell the user. Then call run_code with resume "
            f"{run!r}. Do not run the program again: its calls so far are done."
        )
    failed = result.status not in {ProgramStatus.OK, ProgramStatus.PARKED}
    return {
        "content": [{"type": "text", "text": jsontext.write_octets(report).decode()}],
        **({"isError": True} if failed else {}),
    }


def _calls(calls: Iterable[ProgramCall]) -> list[Mapping[str, Any]]:
    """Return what became of calls; of those alike that follow each other the first, and how many."""
    found = []
    for _, alike in groupby(calls, lambda one: (one.server, one.tool, one.state, one.code)):
        first, *more = alike
        found.append(_call(first, 1 + len(more)))
    return found


def _call(call: ProgramCall, times: int) -> Mapping[str, Any]:
    return {
        "seq": call.seq,
        **({"times": times} if times > 1 else {}),
        "tool": f"{call.server}.{call.tool}",
        "state": call.state.value,
        **({"code": call.code} if call.code else {}),
    }
