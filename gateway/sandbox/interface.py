"""The tools of a program as modules of the interpreter: names that it can call, and their types."""

import re
from collections import OrderedDict
from typing import Any, Final, NoReturn

from pydantic_monty import ExternalModule

from gateway.domain.programs import ProgramTool
from gateway.sandbox.names import ToolTable
from gateway.sandbox.stubs import python_module

_WORD: Final = re.compile(r"\w+")
_KEPT: Final = 16
"""Sets of tools whose stubs are kept; one has as many as principals see different tools."""


class Interface:
    """What a program with these tools sees."""

    def __init__(self, tools: tuple[ProgramTool, ...]) -> None:
        self.table = ToolTable(tools)
        self._untyped = {
            server: ExternalModule(dict.fromkeys(own, _never), stubs="")
            for server, own in self.table.servers.items()
        }
        self._typed: dict[str, ExternalModule] = {}

    def package(self, code: str) -> ExternalModule:
        """Return the package for a program: all servers, with types where it names one.

        Who checks reads all types that there are, and those of a thousand tools take longer than
        most programs.
        """
        named = self._named(code)
        for server in named:
            if server not in self._typed:
                own = self.table.servers[server]
                stubs = python_module(own)
                self._typed[server] = ExternalModule(dict.fromkeys(own, _never), stubs=stubs)
        servers: dict[str, Any] = self._untyped | {server: self._typed[server] for server in named}
        shown = "".join(f"from . import {server} as {server}\n" for server in named)
        return ExternalModule(servers, stubs=shown)

    def is_ready(self, code: str) -> bool:
        """Whether all types of the program's package were made before."""
        return self._typed.keys() >= {*self._named(code)}

    def _named(self, code: str) -> list[str]:
        words = set(_WORD.findall(code))
        return [server for server in self._untyped if server in words]


class Interfaces:
    """Interfaces of sets of tools; the same tuple again costs nothing."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[tuple[ProgramTool, ...], Interface]] = OrderedDict()

    def of(self, tools: tuple[ProgramTool, ...]) -> Interface:
        """Return the interface of these tools."""
        known = self._kept.pop(id(tools), None) or (tools, Interface(tools))
        self._kept[id(tools)] = known  # which keeps the tuple, so that nothing else gets its id
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return known[1]


def _never(*_: object, **__: object) -> NoReturn:
    """Stand for a tool: the interpreter says that it was called, and calls nothing itself."""
    raise RuntimeError("calls of tools are answered by whoever drives the program")
