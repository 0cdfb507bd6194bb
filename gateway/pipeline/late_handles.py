"""Whose handle of a late call is one: everybody else's, whatever is wrong with it, is none."""

from gateway.domain.late import LateCall
from gateway.domain.tools import UpstreamId
from gateway.ports import Clock
from gateway.ports.late import LateCalls
from gateway.wire.tasks import id_in, is_handle_of


class LateHandles:
    """Finds late calls by the handles that were given out for them."""

    def __init__(self, store: LateCalls, seal_keys: tuple[bytes, ...], clock: Clock) -> None:
        self._store = store
        self._seal_keys = seal_keys
        self._clock = clock

    def find(
        self, handle: object, *, principal: str, server: UpstreamId, endpoint: str
    ) -> LateCall | None:
        """Return the late call that `handle` is of, if it is its principal's, there and now."""
        id_ = id_in(handle)
        late = None if id_ is None else self._store.find(id_)
        if (
            late is None
            or late.principal != principal
            or (late.server, late.endpoint) != (server, endpoint)
            or late.expires_at <= self._clock()
            or not any(is_handle_of(key, late, handle) for key in self._seal_keys)
        ):
            return None
        return late
