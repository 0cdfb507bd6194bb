"""States of calls that a server has interrupted to ask something (2026-07-28): sealed on their way.

To its client a state is opaque, and a server need not say in it whom it is for. So what leaves is
sealed for one principal, program, server and target, and what comes back sealed otherwise is none.
"""

import base64
import hmac
from typing import Final

from gateway.domain._value import value
from gateway.domain.calls import Call
from gateway.domain.identity import Principal
from gateway.errors import UpstreamFailed
from gateway.wire.session import mac

STATE: Final = "requestState"
RESPONSES: Final = "inputResponses"
REQUESTS: Final = "inputRequests"
BROUGHT_BACK: Final = frozenset({STATE, RESPONSES})
"""Members of the params of a call that goes on where its server had interrupted it."""
ASKING: Final = frozenset({STATE, REQUESTS})
"""Members of a result that is one only once its caller has answered."""
LONGEST_STATE: Final = 64 * 1024
"""Bytes of a server's own state: it travels in every message of its call."""

_PURPOSE: Final = "request state"
"""No server's name has a space in it, so no seal of a session is one of these."""
_OURS: Final = "douane-state."
_LONGEST_SEALED: Final = len(_OURS) + 4 * (LONGEST_STATE // 3 + 1) + 1 + 64


@value
class Round:
    """Whose call a server has interrupted, and which."""

    server: str
    principal: str
    program: str
    method: str
    target: str
    """The tool's or the prompt's name, or the resource's URI."""

    @property
    def parts(self) -> tuple[str, ...]:
        """All of it, in order."""
        return (self.server, self.principal, self.program, self.method, self.target)


def round_of(call: Call, principal: Principal) -> Round:
    """Return the round that `call`, which `principal` makes, is of."""
    params = call.message.params
    member = "uri" if call.message.method == "resources/read" else "name"
    return Round(
        server=call.server,
        principal=principal.key,
        program="" if call.script is None else call.script.script.id,
        method=call.message.method,
        target=str(params.get(member, "")),
    )


def seal_state(key: bytes, of: Round, state: object) -> str:
    """Return `state`, which a server gave out, in a form that comes home in the same round only.

    Raises:
        UpstreamFailed: It is no text, or too long.

    """
    octets = state.encode("utf-8", "surrogatepass") if isinstance(state, str) else None
    if octets is None or len(octets) > LONGEST_STATE:
        raise UpstreamFailed("the upstream server's request state is no text, or too long")
    return _sealed(key, of, octets)


def open_state(key: bytes, of: Round, sealed: object) -> str | None:
    """Return the state that was sealed for this round, or `None` for anything else."""
    if not isinstance(sealed, str) or not sealed.isascii() or len(sealed) > _LONGEST_SEALED:
        return None
    text = sealed.removeprefix(_OURS).partition(".")[0]
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_")
        state = octets.decode("utf-8", "surrogatepass")
    except ValueError:
        return None
    # Sealing again, rather than checking the parts, leaves one spelling of each.
    return state if hmac.compare_digest(_sealed(key, of, octets), sealed) else None


def _sealed(key: bytes, of: Round, octets: bytes) -> str:
    text = base64.urlsafe_b64encode(octets).decode().rstrip("=")
    return f"{_OURS}{text}.{mac(key, _PURPOSE, *of.parts, text)}"
