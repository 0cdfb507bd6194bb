"""What is embedded of a tool, and what has to be there to do it."""

from collections.abc import Sequence
from typing import Protocol

from gateway.domain._value import value
from gateway.search.tools import ToolText
from gateway.search.words import spaced

FORM = 2
"""Of `aspects_of`: counted up when it changes, so that kept vectors of another form are not used."""


class Embedder(Protocol):
    """Makes texts comparable by meaning. Slow, and no I/O: it is called in a thread."""

    @property
    def model(self) -> str:
        """`sha256:...` of what was loaded; vectors of different models are never compared."""
        ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of length 1 for each text, as 32-bit floats, little-endian."""
        ...


@value
class Aspect:
    """One way to put a tool into words, and how much it counts."""

    text: str
    weight: float


def aspects_of(tool: ToolText) -> tuple[Aspect, ...]:
    """Return what is embedded of a definition. Nothing of its server: that is approved apart."""
    name = spaced(tool.name)
    whole = " ".join(filter(None, (f"{name}.", tool.title, tool.description)))
    parameters = ", ".join(parameter for parameter, _ in tool.parameters)
    if parameters:
        whole = f"{whole} Parameters: {parameters}"
    return (
        Aspect(text=name, weight=0.7),
        Aspect(text=tool.description or name, weight=1.0),
        Aspect(text=whole, weight=1.0),
    )


def server_aspect(tool: ToolText) -> Aspect:
    """Return what is embedded of a tool's server: it speaks for all of its tools."""
    return Aspect(text=f"{spaced(tool.server)}. {tool.server_description}", weight=0.6)
