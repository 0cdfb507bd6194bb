"""Tools as TypeScript declarations: one function each, typed after the approved schemas (pure)."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.programs import ProgramTool
from gateway.sandbox.names import PACKAGE, ToolTable, identifier
from gateway.sandbox.schemas import Reader, choices, is_open, kind, literals, members, required
from gateway.sandbox.screen import one_line

_RESERVED: Final = frozenset(
    (
        *("arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger"),
        *("default", "delete", "do", "else", "enum", "eval", "export", "extends", "false"),
        *("finally", "for", "function", "if", "implements", "import", "in", "instanceof"),
        *("interface", "let", "new", "null", "package", "private", "protected", "public"),
        *("return", "static", "super", "switch", "this", "throw", "true", "try", "typeof"),
        *("undefined", "var", "void", "while", "with", "yield"),
    )
)
_SIMPLE: Final = {
    "integer": "number",
    "number": "number",
    "string": "string",
    "boolean": "boolean",
    "null": "null",
}
_TEXT_CHARS: Final = 300
_MEMBER_CHARS: Final = 160
_DECLARED_CHARS: Final = 2 << 20
"""Of all servers together, for one program."""
_ANYTHING: Final = "any"
"""The type of what no schema tells: as in Python a program may do with it what it likes."""
_WORD: Final = re.compile(r"\w+")
_FIELD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)


def typescript_name(name: str) -> str:
    """Return the identifier of a server or a tool: Python's, with `_` after a word of TypeScript's.

    No other identifier ends so.
    """
    ident = identifier(name)
    return f"{ident}_" if ident in _RESERVED else ident


def typescript_paths(table: ToolTable) -> Mapping[str, Mapping[str, str]]:
    """Return what a program in TypeScript calls each tool, with what the table calls it."""
    return {
        typescript_name(next(iter(tools.values())).server): {
            typescript_name(tool.name): f"{PACKAGE}.{server}.{ident}"
            for ident, tool in tools.items()
        }
        for server, tools in table.servers.items()
    }


def typescript(table: ToolTable, code: str) -> str:
    """Return declarations of all tools for a program, with types of those that it names.

    The others take anything. Who checks reads all types that there are, which takes its time.
    """
    words = set(_WORD.findall(code))
    parts, most = [], _DECLARED_CHARS
    for tools in table.servers.values():
        name = typescript_name(next(iter(tools.values())).server)
        body = "".join(_named(tool, words) for tool in tools.values() if name in words)
        most -= len(body)
        if body and most >= 0:
            parts.append(f"declare namespace {PACKAGE}.{name} {{\n{body}}}\n")
        else:
            parts.append(f"declare namespace {PACKAGE} {{ const {name}: any; }}\n")
    return "".join(parts) or f"declare const {PACKAGE}: {{}};\n"


def typescript_stub(tool: ProgramTool) -> str:
    """Return the declaration of one tool."""
    return f"declare namespace {PACKAGE}.{typescript_name(tool.server)} {{\n{_function(tool)}}}\n"


def _named(tool: ProgramTool, words: set[str]) -> str:
    name = typescript_name(tool.name)
    untyped = f"  function {name}(input?: {_ANYTHING}): Promise<{_ANYTHING}>;\n"
    return _function(tool) if name in words else untyped


def _function(tool: ProgramTool) -> str:
    given = _type(tool.input_schema, Reader(tool.input_schema), 1)
    asked = "" if required(tool.input_schema) else "?"
    result = _ANYTHING
    if tool.output_schema is not None:
        result = _type(tool.output_schema, Reader(tool.output_schema), 1)
    text = f"  /** {_commented(tool.description, _TEXT_CHARS)} */\n" if tool.description else ""
    name = typescript_name(tool.name)
    return f"{text}  function {name}(input{asked}: {given}): Promise<{result}>;\n"


def _type(schema: Any, reader: Reader, depth: int) -> str:
    opened = reader.opened(schema, depth)
    if opened is None:
        return _ANYTHING
    if "const" in opened or "enum" in opened:
        values = literals(opened)
        return " | ".join(map(json.dumps, values)) if values else _ANYTHING
    if (several := choices(opened)) is not None:
        types = dict.fromkeys(_type(one, reader, depth + 1) for one in several)
        return _ANYTHING if _ANYTHING in types else " | ".join(types)
    named = members(opened)
    if named is not None:
        return _object(opened, named, reader, depth)
    if opened.get("type") == "array":
        return f"Array<{_type(opened.get('items'), reader, depth + 1)}>"
    return _SIMPLE.get(kind(opened), _ANYTHING)


def _object(schema: Mapping[str, Any], named: Mapping[str, Any], reader: Reader, depth: int) -> str:
    if not named or is_open(schema):
        more = schema.get("additionalProperties")
        alike = not named and isinstance(more, dict)
        return f"Record<string, {_type(more, reader, depth + 1) if alike else _ANYTHING}>"
    needed = required(schema)
    pad = "  " * (depth + 1)
    lines = []
    for name, one in named.items():
        key = name if _FIELD.fullmatch(name) else json.dumps(name)
        said = one.get("description") if isinstance(one, dict) else None
        text = f" // {_commented(said, _MEMBER_CHARS)}" if isinstance(said, str) and said else ""
        kind = _type(one, reader, depth + 1)
        lines.append(f"{pad}{key}{'' if name in needed else '?'}: {kind};{text}\n")
    return f"{{\n{''.join(lines)}{'  ' * depth}}}"


def _commented(text: str, most: int) -> str:
    """Return a stranger's text so that it can stand in a comment."""
    return one_line(text, most).replace("*/", "* /")
