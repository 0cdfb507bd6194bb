"""Tools, an embedder that needs no model, and a store that forgets."""

import hashlib
import math
import struct
import threading
from collections.abc import Collection, Mapping, Sequence

from gateway.search.tools import ToolText

_WIDTH = 16


def tool(
    name: str,
    description: str = "",
    *,
    server: str = "srv",
    server_description: str = "",
    parameters: tuple[tuple[str, str], ...] = (),
) -> ToolText:
    """Return a tool whose id is `server/name`."""
    return ToolText(
        id=f"{server}/{name}",
        server=server,
        name=name,
        description=description,
        parameters=parameters,
        server_description=server_description,
        digest="sha256:" + hashlib.sha256(f"{name}|{description}".encode()).hexdigest(),
    )


TOOLS = (
    tool("read_file", "Read a file from disk.", server="files", parameters=(("path", "Where."),)),
    tool("write_file", "Write text to a file on disk.", server="files"),
    tool(
        "sendMail", "Send a message to somebody.", server="mail", parameters=(("to", "Address."),)
    ),
    tool("search_papers", "Find scientific articles.", server="arxiv"),
    tool("get_forecast", "Weather for the next days.", server="weather"),
)
IDS = frozenset(one.id for one in TOOLS)


class Hashed:
    """An `Embedder` in which texts are close that share words."""

    model = "sha256:" + "0" * 64

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.threads: set[int] = set()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.embedded += texts
        self.threads.add(threading.get_ident())
        return [_vector(text) for text in texts]


def _vector(text: str) -> bytes:
    numbers = [0.01] * _WIDTH
    for word in text.lower().replace(".", " ").split():
        numbers[hashlib.sha256(word.encode()).digest()[0] % _WIDTH] += 1.0
    length = math.sqrt(sum(number * number for number in numbers))
    return struct.pack(f"<{_WIDTH}f", *(number / length for number in numbers))


class Remembering:
    """A `VectorStore` in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], bytes] = {}

    def tools(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        return self._found("tool", model, digests)

    def keep_tools(self, model: str, vectors: Mapping[str, bytes]) -> None:
        self.kept |= {("tool", model, name): vector for name, vector in vectors.items()}

    def texts(self, model: str, texts: Collection[str]) -> Mapping[str, bytes]:
        return self._found("text", model, texts)

    def keep_texts(self, model: str, vectors: Mapping[str, bytes]) -> None:
        self.kept |= {("text", model, name): vector for name, vector in vectors.items()}

    def _found(self, layer: str, model: str, names: Collection[str]) -> dict[str, bytes]:
        kept = ((name, self.kept.get((layer, model, name))) for name in names)
        return {name: vector for name, vector in kept if vector is not None}
