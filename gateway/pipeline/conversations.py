"""What is still open in a session: requests of the server's, and calls whose stream was cut.

Held in this process's memory, for legacy sessions only (the stateless revision has neither). What
is forgotten is refused: an answer to a question nobody saw, a late result that no call waits for.
"""

from collections import OrderedDict
from typing import Any, TypeAlias

from gateway.domain.calls import Call, Permit
from gateway.errors import ProtocolError
from gateway.pipeline.trail import Trail

_MOST = 20_000

RpcId: TypeAlias = str | int
Key: TypeAlias = tuple[str, str | None, type, RpcId]


class Conversations:
    def __init__(self) -> None:
        self._asked: OrderedDict[Key, None] = OrderedDict()
        self._cut: OrderedDict[Key, tuple[Permit, Trail]] = OrderedDict()

    def ask(self, permit: Permit, id_: RpcId) -> None:
        """Note that the server's request `id_` was let through to the client."""
        self._asked[_key(permit.call.server, permit.session, id_)] = None
        _bound(self._asked)

    def require_asked(self, call: Call, session: str | None) -> None:
        """Return, once, if `call` answers a request that was let through to this session.

        Raises:
            ProtocolError: It answers nothing.

        """
        id_ = call.message.id
        key = None if id_ is None else _key(call.server, session, id_)
        if key is None or key not in self._asked:
            raise ProtocolError("this response answers no request of the server's", rpc_id=id_)
        del self._asked[key]

    def cut(self, permit: Permit, trail: Trail) -> None:
        """Note that a call's stream ended before its response, which a later stream may bring."""
        id_ = permit.call.message.id
        if permit.session is not None and id_ is not None:
            self._cut[_key(permit.call.server, permit.session, id_)] = (permit, trail)
            _bound(self._cut)

    def resume(self, permit: Permit, id_: RpcId) -> tuple[Permit, Trail] | None:
        """Return, once, the call of this session that response `id_` belongs to."""
        return self._cut.pop(_key(permit.call.server, permit.session, id_), None)


def _key(server: str, session: str | None, id_: RpcId) -> Key:
    # 1 and "1" are different ids (JSON-RPC 2.0 section 4), although Python compares True == 1.
    return (server, session, type(id_), id_)


def _bound(table: OrderedDict[Key, Any]) -> None:
    if len(table) > _MOST:
        table.popitem(last=False)
