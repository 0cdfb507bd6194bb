"""Which upstream stands behind a server's name."""

from collections.abc import Callable, Mapping

from gateway.domain.tools import Kind, UpstreamId
from gateway.errors import UnknownTool
from gateway.ports import Upstream


class Directory:
    """The configured upstreams, by server."""

    def __init__(
        self,
        upstreams: Mapping[UpstreamId, Upstream],
        *,
        announce: Callable[[UpstreamId, Kind], None],
    ) -> None:
        """`announce` is told of every list that a server says has changed."""
        self._upstreams = dict(upstreams)
        self._announce = announce

    def of(self, server: UpstreamId) -> Upstream:
        """Return the upstream of a configured server.

        Raises:
            UnknownTool: No such server.

        """
        try:
            return self._upstreams[server]
        except KeyError:
            raise UnknownTool("There is no such server.", detail=f"server {server!r}") from None

    def announce(self, server: UpstreamId, kind: Kind) -> None:
        """Note that the server said its list of `kind` changed; it is listed again soon."""
        if server in self._upstreams:
            self._announce(server, kind)
