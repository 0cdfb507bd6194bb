"""Tools as Python stubs: one function each, typed after the schemas that were approved (pure).

Names and texts are the servers' own: none of them can end a comment or a string, or hide in one.
"""

import keyword
import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.domain.programs import ProgramTool
from gateway.sandbox.names import PACKAGE, TYPES, identifier
from gateway.sandbox.schemas import Reader, choices, is_open, kind, literals, members, required
from gateway.sandbox.screen import one_line

_HEAD: Final = "from typing import Any, Dict, List, Literal, NotRequired, TypedDict\n\n"
_TEXT_CHARS: Final = 300
_SIMPLE: Final = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "null": "None",
}
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def python_module(tools: Mapping[str, ProgramTool]) -> str:
    """Return the stubs of a server's tools, which come by their identifiers."""
    taken = {*TYPES, *tools}
    return _HEAD + "\n".join(_function(ident, tool, taken) for ident, tool in tools.items())


def python_stub(tool: ProgramTool) -> str:
    """Return the stub of one tool, with how a program comes by it."""
    ident = identifier(tool.name)
    how = f"# from {PACKAGE} import {identifier(tool.server)}\n"
    return how + _function(ident, tool, {*TYPES, ident})


def _function(ident: str, tool: ProgramTool, taken: set[str]) -> str:
    types = _Types(ident, taken)
    signature = types.parameters(tool.input_schema)
    result = "Any"
    if tool.output_schema is not None:
        result = types.of(tool.output_schema, Reader(tool.output_schema), "Result")
    text = f'    """{_quoted(tool.description)}"""\n' if tool.description else ""
    body = f"async def {ident}({signature}) -> {result}:\n{text}    ...\n"
    return "".join(f"{one}\n" for one in types.declared) + body


class _Types:
    """The types of one tool, in the order in which they have to be declared."""

    def __init__(self, ident: str, taken: set[str]) -> None:
        self._ident = ident
        self._taken = taken
        self.declared: list[str] = []

    def parameters(self, schema: Mapping[str, Any]) -> str:
        """Return what stands between the parentheses: by name, or one dict where names cannot be."""
        reader = Reader(schema)
        opened = reader.opened(schema, 0) or {}
        named = members(opened)
        if not named:
            return "**arguments: Any"
        if not all(map(_is_name, named)):
            return f"arguments: {self.of(schema, reader, 'Arguments')}, /"
        needed = required(opened)
        listed = [
            f"{name}: {self.of(one, reader, name, 1)}{'' if name in needed else ' = ...'}"
            for name, one in named.items()
        ]
        more = ["**_: Any"] if is_open(opened) else []
        return ", ".join(["*", *listed, *more])

    def of(self, schema: Any, reader: Reader, hint: str, depth: int = 0) -> str:
        """Return the type of `schema`; one that needs a name gets it after `hint`."""
        opened = reader.opened(schema, depth)
        if opened is None:
            return "Any"
        if "const" in opened or "enum" in opened:
            values = literals(opened)
            return f"Literal[{', '.join(map(ascii, values))}]" if values else "Any"
        if (several := choices(opened)) is not None:
            types = [
                self.of(one, reader, f"{hint}_{number}", depth + 1)
                for number, one in enumerate(several, start=1)
            ]
            return "Any" if "Any" in types else " | ".join(dict.fromkeys(types))
        named = members(opened)
        if named is not None:
            return self._object(opened, named, reader, hint, depth)
        if opened.get("type") == "array":
            return f"List[{self.of(opened.get('items'), reader, f'{hint}_item', depth + 1)}]"
        return _SIMPLE.get(kind(opened), "Any")

    def _object(
        self,
        schema: Mapping[str, Any],
        named: Mapping[str, Any],
        reader: Reader,
        hint: str,
        depth: int,
    ) -> str:
        if not named or is_open(schema):
            more = schema.get("additionalProperties")
            alike = not named and isinstance(more, dict)
            inner = self.of(more, reader, f"{hint}_value", depth + 1) if alike else "Any"
            return f"Dict[str, {inner}]"
        needed = required(schema)
        fields = {
            name: self.of(one, reader, f"{hint}_{name}", depth + 1) for name, one in named.items()
        }
        marked = {
            name: kind if name in needed else f"NotRequired[{kind}]"
            for name, kind in fields.items()
        }
        title = self._title(hint)
        self.declared.append(_declared(title, marked))
        return title

    def _title(self, hint: str) -> str:
        """Return a name that nothing else in the module has."""
        base = re.sub(r"\W", "_", f"{self._ident}_{hint}", flags=re.ASCII)[:80]
        title, number = base, 1
        while title in self._taken:
            number += 1
            title = f"{base}_{number}"
        self._taken.add(title)
        return title


def _declared(title: str, fields: Mapping[str, str]) -> str:
    if all(_is_name(name) and name not in TYPES for name in fields):
        lines = "".join(f"    {name}: {kind}\n" for name, kind in fields.items())
        return f"class {title}(TypedDict):\n{lines}"
    # Names of members can be anything: this form has them as text.
    listed = ", ".join(f"{name!a}: {kind}" for name, kind in fields.items())
    return f"{title} = TypedDict({title!a}, {{{listed}}})\n"


def _is_name(name: str) -> bool:
    return _FIELD.fullmatch(name) is not None and not keyword.iskeyword(name)


def _quoted(text: str) -> str:
    """Return a stranger's text so that it can stand between three quotes."""
    return one_line(text, _TEXT_CHARS).replace("\\", "\\\\").replace('"', "'")
