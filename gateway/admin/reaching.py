"""What somebody can do about a server that cannot be reached."""

from collections.abc import Mapping
from typing import Final

_FAILED: Final = "connection: ConnectFailed"
_TO_DO: Final[Mapping[str, str]] = {
    "ConnectionRefusedError": "nothing listens there: start the server, or correct its `url`",
    "gaierror": "its name has no address: correct its `url`, or mend the DNS of this machine",
    "SSLCertVerificationError": "this machine does not trust its certificate for the name in its `url`",
    "SSLError": "it speaks no TLS there: is its `url` one of http?",
}
_REACH: Final = "is it started, is its `url` right, and does the network let the gateway there?"


def advised(error: str) -> str:
    """Return what is known of a server that gave no answer, with what to do where nobody could reach it."""
    if _FAILED not in error:
        return error
    to_do = next((told for name, told in _TO_DO.items() if name in error), _REACH)
    return f"{error}: {to_do}"
