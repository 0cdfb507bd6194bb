"""Where vectors of tools and of texts are kept from one process to the next."""

from collections.abc import Collection, Mapping
from typing import Protocol


class VectorStore(Protocol):
    """Vectors by what they are of and by the digest of the model that made them.

    Everything in it can be computed again: what cannot be read is not there, and what cannot be
    written is lost without an error. Blocks on a file; any thread may call it.
    """

    def tools(self, model: str, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return what is kept for these digests of definitions."""
        ...

    def keep_tools(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by digest of definition."""
        ...

    def texts(self, model: str, texts: Collection[str]) -> Mapping[str, bytes]:
        """Return what is kept for these texts."""
        ...

    def keep_texts(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by text; the text itself is not kept. The least recently used ones go."""
        ...
