"""What an exchange over HTTP raises, in this package's words."""

from gateway.errors import CredentialRequired, LimitExceeded, UpstreamBroke, UpstreamFailed
from gateway.http1.faults import BadMessage, ConnectFailed, ConnectTimedOut, HttpFault, Silent
from gateway.upstream.settings import Timeouts

PUBLIC = "The upstream server gave no usable answer."


class Challenged(CredentialRequired):
    """The upstream refused the credential that it was shown, or the lack of one."""

    def __init__(self, status: int, challenge: str, nonce: str = "") -> None:
        super().__init__(
            "The upstream server wants a credential that the gateway does not hold.",
            detail=f"status {status}",
        )
        self.has_left = True
        self.status = status
        self.challenge = challenge
        """Its `WWW-Authenticate`; empty if it sent none."""
        self.nonce = nonce
        """Its `DPoP-Nonce`, likewise."""


class Late(UpstreamFailed):
    """The upstream took too long, and nobody waits for it any more."""


def no_answer(error: HttpFault, timeouts: Timeouts) -> UpstreamFailed:
    """Say what happened before there was an answer's head."""
    match error:
        case ConnectTimedOut():
            return _timed_out("connect", f"no connection within {timeouts.connect_s:g} s")
        case TimeoutError():
            waited_s = min(timeouts.idle_s, timeouts.hard_s)
            return _timed_out("first byte", f"no answer within {waited_s:g} s")
        case _:
            return _broke(error)


def broken_answer(error: HttpFault, timeouts: Timeouts) -> UpstreamFailed:
    """Say what happened between an answer's head and its end."""
    match error:
        case Silent():
            return _timed_out("idle", f"no byte for {timeouts.idle_s:g} s")
        case TimeoutError():
            return _timed_out("hard maximum", f"no end within {timeouts.hard_s:g} s")
        case _:
            broke = _broke(error)
            return UpstreamBroke(broke.public, detail=broke.detail)


def late(which: str, waited_s: float) -> Late:
    """Say that nothing came within `waited_s` seconds."""
    return _timed_out(which, f"nothing within {waited_s:g} s")


def unusable(detail: str) -> UpstreamFailed:
    return UpstreamFailed(PUBLIC, detail=detail)


def too_large(detail: str) -> LimitExceeded:
    return LimitExceeded("The upstream server's answer is too large.", detail=detail)


def _timed_out(which: str, how: str) -> Late:
    return Late("The upstream server did not answer in time.", detail=f"{which}: {how}")


def _broke(error: HttpFault) -> UpstreamFailed:
    why = f": {error}" if isinstance(error, BadMessage | ConnectFailed) else ""
    return unusable(f"connection: {type(error).__name__}{why}")
