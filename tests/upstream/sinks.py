"""A catalog sink that keeps what it is shown."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gateway.domain.document import Document
from gateway.domain.tools import Kind, Profile, UpstreamId


class Catalog:
    """Implements `ports.CatalogSink`."""

    def __init__(self) -> None:
        self.lists: dict[tuple[UpstreamId, Profile, Kind], Sequence[Mapping[str, Any]]] = {}
        self.versions: set[str] = set()
        self.times = 0
        self.pins = 0
        """A number that stands for the pins; a test changes it."""
        self.apart: Collection[str] = ()
        """Names under which lists show something else than what is in force."""

    def compared_with(self, server: UpstreamId) -> object:
        return server, self.pins

    async def seen(
        self,
        server: UpstreamId,
        profile: Profile,
        kind: Kind,
        items: Sequence[Mapping[str, Any]],
        server_version: str,
    ) -> Collection[str]:
        self.times += 1
        self.lists[server, profile, kind] = items
        self.versions.add(server_version)
        return self.apart

    def digests(self, profile: Profile, kind: Kind = Kind.TOOL) -> dict[str, str]:
        """Return the digest of every definition of `kind`, by name."""
        return {
            item["name"]: str(Document.of(dict(item)).digest)
            for (_, seen_in, seen_kind), items in self.lists.items()
            if (seen_in, seen_kind) == (profile, kind)
            for item in items
        }
