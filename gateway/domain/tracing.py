"""Where a call stands in its client's trace (W3C Trace Context), and which spans it is there."""

import hashlib

from gateway.domain._value import value

_SPAN_OCTETS = 8
_TRACE_OCTETS = 16


@value
class TraceContext:
    """What a client's `traceparent` says, and the `tracestate` that goes with it."""

    trace_id: str
    """32 hex digits, not all of them zeros."""
    span_id: str
    """The caller's span: 16 hex digits, not all of them zeros."""
    flags: int
    """Those that are defined: sampled (1), random trace id (2)."""
    state: str = ""

    def below(self, span_id: str) -> str:
        """Return the `traceparent` of what a span of this trace calls (section 3.2)."""
        return f"00-{self.trace_id}-{span_id}-{self.flags:02x}"


def server_span(decision_id: str) -> str:
    """Return the id of the span in which the gateway serves the call that was decided so."""
    return _derived("server", decision_id, _SPAN_OCTETS)


def client_span(decision_id: str) -> str:
    """Return the id of the span in which the gateway waits for the call's server."""
    return _derived("client", decision_id, _SPAN_OCTETS)


def trace_of_its_own(decision_id: str) -> str:
    """Return the trace of a call whose client has none."""
    return _derived("trace", decision_id, _TRACE_OCTETS)


def _derived(use: str, decision_id: str, octets: int) -> str:
    return hashlib.sha256(f"{use}:{decision_id}".encode()).digest()[:octets].hex()
