"""What clients have to manage: sign in and call, refresh by themselves, ask for more when needed."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.signin_e2e.documents import Documents

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """An MCP endpoint, where people are signed in before a client may call."""

    endpoint: str
    read: Call
    """Needs no more than the endpoint's challenge asks for."""
    write: Call
    """Needs one scope more."""
    documents: Documents
    """Where clients publish what they say about themselves."""
    trust: Callable[[], ssl.SSLContext] | None = None
    """Makes what clients verify the endpoint's certificate with; the system's, without it."""
    authority: str = ""
    """The PEM file of its authority, for clients that take a file."""


@dataclass(frozen=True, kw_only=True)
class Journey:
    """What one client managed."""

    signed_in: bool
    """It called a tool, after a person had signed in and consented once."""
    refreshed: bool
    """Its access token had ended, and it called again without the person."""
    stepped_up: bool
    """It lacked a scope, the person consented to it, and the call succeeded."""

    @property
    def complete(self) -> bool:
        return self.signed_in and self.refreshed and self.stepped_up


COMPLETE = Journey(signed_in=True, refreshed=True, stepped_up=True)
SIGNS_IN = ("sign in", "approve")
"""What a person does who is not signed in yet."""
CONSENTS = ("approve",)
"""What a person does in a browser that is signed in."""
