"""Names of servers and tools as identifiers: each name has one, and no two names have the same.

The identifier follows from the name alone, never from what else there is, so that a program means
the same tool whichever others are added, hidden or removed.
"""

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.domain.programs import ProgramTool

TYPES: Final = frozenset(
    {"Any", "Dict", "List", "Literal", "NotRequired", "TypedDict", "bool", "float", "int", "str"}
)
"""What the stubs of a server mean by these words must not be one of its tools."""

_RESERVED: Final = TYPES | set(keyword.kwlist)
_WORDS: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*", re.ASCII)
_OTHER: Final = re.compile(r"[^A-Za-z0-9]+", re.ASCII)
_HASH_CHARS: Final = 12
_CLEANED_CHARS: Final = 40


def identifier(name: str) -> str:
    """Return the identifier of `name` in a program.

    A name of words is itself, with `__` for a hyphen. Any other becomes its letters and digits,
    `___` and a hash, which no name of words has in it.
    """
    if _WORDS.fullmatch(name) and name not in _RESERVED:
        return name.replace("-", "__")
    cleaned = _OTHER.sub("_", name).strip("_")[:_CLEANED_CHARS].strip("_")
    if not cleaned[:1].isalpha():
        cleaned = f"x_{cleaned}".strip("_")
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{cleaned}___{digest[:_HASH_CHARS]}"


class ToolTable:
    """The tools of a program by identifier: `github`, then `create_issue`."""

    def __init__(self, tools: Iterable[ProgramTool]) -> None:
        """Order `tools` by identifier. Two that share one are both left out: neither is meant."""
        known = {(one.server, one.name): one for one in tools}
        servers = _unambiguous({server for server, _ in known})
        self.servers: dict[str, dict[str, ProgramTool]] = {}
        for shown, server in sorted(servers.items()):
            own = _unambiguous({name for of, name in known if of == server})
            if not own:
                continue
            self.servers[shown] = {
                ident: known[server, name] for ident, name in sorted(own.items())
            }

    def find(self, path: str) -> ProgramTool | None:
        """Return the tool that a program calls as `tools.<server>.<tool>`."""
        package, _, rest = path.partition(".")
        server, _, tool = rest.partition(".")
        return self.servers.get(server, {}).get(tool) if package == PACKAGE else None


PACKAGE: Final = "tools"
"""Servers are in a package of our own: at the top a server could be called as a part of Python."""


def shown(server: str, tool: str) -> str:
    """Return how a program names a tool, without the package: `github.create_issue`."""
    return f"{identifier(server)}.{identifier(tool)}"


def _unambiguous(names: Iterable[str]) -> Mapping[str, str]:
    idents = {name: identifier(name) for name in names}
    times = Counter(idents.values())
    return {ident: name for name, ident in idents.items() if times[ident] == 1}
