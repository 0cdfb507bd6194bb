"""When two names look like one to a person or to a model."""

from collections.abc import Iterable

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


def tools_elsewhere(pins: Iterable[Pin], server: UpstreamId) -> frozenset[str]:
    """Return the names of tools that other servers have and `server` has not."""
    tools = [pin.target for pin in pins if pin.target.kind is Kind.TOOL]
    own = {tool.name for tool in tools if tool.server == server}
    return frozenset(tool.name for tool in tools if tool.server != server and tool.name not in own)
