"""What is still open in a session: requests of the server's, and calls whose stream was cut.

It is filed under whose it is: a server without sessions knows no other mark, and ids of its requests
are easily guessed. What a host asked for is no question to the programs that have tokens of it. Held in this process's memory, for legacy sessions only (the stateless revision has neither). What
is forgotten is refused: an answer to a question nobody saw, a late result that no call waits for.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from gateway.domain.bounded import Shared, digest_of, octets_of
from gateway.domain.calls import Asked, Call, Permit, octets_of_permit
from gateway.domain.identity import Principal
from gateway.errors import ProtocolError
from gateway.pipeline.asides import Asides
from gateway.pipeline.cancelled import Cancelled
from gateway.pipeline.trail import Trail
from gateway.wire import jsontext
from gateway.wire.bare_notices import names_another
from gateway.wire.jsonrpc import is_id
from gateway.wire.server_message import ServerMessage

_OCTETS: Final = 64 * 1024**2
"""Some 20,000 questions, each with as much of it as is shown."""
_CUT_OCTETS: Final = 32 * 1024**2
"""A call whose stream was cut is kept whole, with what it was given."""
_LONGEST_TOLD: Final = 1_000
"""Characters of a question of a server's that whoever allows an answer to it is shown."""

RpcId: TypeAlias = str | int
Whose: TypeAlias = tuple[str, str]
"""A server and a person: neither has another's forgotten by asking much."""


class Conversations:
    def __init__(self) -> None:
        self._asked: Shared[Whose, bytes, Asked] = Shared(octets=_OCTETS)
        self._cut: Shared[Whose, bytes, tuple[Permit, Trail]] = Shared(octets=_CUT_OCTETS)
        self.asides = Asides()
        """What requests and tokens are called at servers."""
        self.cancelled = Cancelled()
        """Also of calls that another configuration still carries."""

    def ask(self, permit: Permit, id_: RpcId, asked: Asked) -> None:
        """Note that the server's request `id_` was let through to the client."""
        key = _key(permit.call, permit.principal, permit.session, id_)
        self._asked.put(*key, asked, octets_of(asked))

    def ask_again(self, permit: Permit, id_: RpcId, asked: Asked) -> None:
        """Note that a request may be answered again, unless the server has asked another by its id."""
        if self._asked.get(*_key(permit.call, permit.principal, permit.session, id_)) is None:
            self.ask(permit, id_, asked)

    def asked(self, call: Call, principal: Principal, session: str | None) -> Asked:
        """Return the request that `call` answers, let through to `principal`, here.

        Raises:
            ProtocolError: It answers nothing.

        """
        id_ = call.message.id
        key = None if id_ is None else _key(call, principal, session, id_)
        asked = None if key is None else self._asked.get(*key)
        if asked is None:
            raise ProtocolError("this response answers no request of the server's", rpc_id=id_)
        return asked

    def require_asked(
        self, call: Call, principal: Principal, session: str | None, answers: Asked
    ) -> None:
        """Return, once, if `call` still answers what it was judged as an answer to.

        Raises:
            ProtocolError: That was answered already, or the server has asked another by its id.

        """
        if self.asked(call, principal, session) != answers:
            said = "the server asks something else by now"
            raise ProtocolError(said, rpc_id=call.message.id)
        if call.message.id is not None:
            self._asked.pop(*_key(call, principal, session, call.message.id))

    def is_open(self, permit: Permit, cancelled: ServerMessage) -> bool:
        """Whether what the server takes back is the permit's own request, or one that it asked here."""
        if not names_another(cancelled.params, permit.call.message):
            return True
        id_ = cancelled.params["requestId"]
        key = _key(permit.call, permit.principal, permit.session, id_)
        return is_id(id_) and self._asked.get(*key) is not None

    def cut(self, permit: Permit, trail: Trail) -> None:
        """Note that a call's stream ended before its response, which a later stream may bring."""
        id_ = permit.call.message.id
        if permit.session is not None and id_ is not None:
            key = _key(permit.call, permit.principal, permit.session, id_)
            # This outlives the configuration that would look.
            self._cut.put(*key, (permit.waiting, trail), octets_of_permit(permit))

    def resume(self, permit: Permit, id_: RpcId) -> tuple[Permit, Trail] | None:
        """Return, once, the call of this session that response `id_` belongs to."""
        return self._cut.pop(*_key(permit.call, permit.principal, permit.session, id_))


def asked_by(method: str, params: Mapping[str, Any], data: bytes) -> Asked:
    """Return what is remembered of a request of a server's, which its client gets as `data`."""
    text = jsontext.write_octets(params).decode()
    more = len(text) - _LONGEST_TOLD
    told = text if more <= 0 else f"{text[:_LONGEST_TOLD]}... and {more} more characters"
    return Asked(method=method, digest=digest_of(data).hex(), text=told)


def _key(call: Call, principal: Principal, session: str | None, id_: RpcId) -> tuple[Whose, bytes]:
    # 1 and "1" are different ids (JSON-RPC 2.0 section 4), and a digest is of them as they are.
    name = digest_of(call.server, principal.key, principal.script, session, id_)
    return (call.server, principal.person), name
