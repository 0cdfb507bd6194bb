"""When two names look like one to a person or to a model."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gateway.domain.normal import normal
from gateway.domain.tools import Kind, Pin, UpstreamId

_LOOKALIKES = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s"})
_SEPARATORS = str.maketrans("", "", "_-. /")


def folded(name: str) -> str:
    """Return what is left of `name` when case, width, separators and lookalikes are ignored.

    Names with the same folding must not stand beside each other: a definition that was approved
    under the one could be shadowed by the other.
    """
    plain = normal("NFKC", name).casefold()
    return plain.translate(_SEPARATORS).translate(_LOOKALIKES).replace("rn", "m")


@lru_cache(maxsize=8)
def by_folding(names: frozenset[str]) -> Mapping[str, str]:
    """Return one of `names` by its folding, the first by letters: made once for all that one sees of them.

    There may be ten thousand, and each definition of a server is held against them.
    """
    return {folded(name): name for name in sorted(names, reverse=True)}


def tools_elsewhere(pins: Iterable[Pin], server: UpstreamId) -> frozenset[str]:
    """Return the names of tools that other servers have and `server` has not."""
    tools = [pin.target for pin in pins if pin.target.kind is Kind.TOOL]
    own = {tool.name for tool in tools if tool.server == server}
    return frozenset(tool.name for tool in tools if tool.server != server and tool.name not in own)
