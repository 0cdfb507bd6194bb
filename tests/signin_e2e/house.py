"""A gateway in front of the notes server, and the people whom it knows."""

import base64
import hashlib
import json
import re
import secrets
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.running import Running, running_gateway
from tests.servers.process import RunningServer
from tests.signin_e2e.authority import Authority
from tests.signin_e2e.browser import Chromium, Person
from tests.signin_e2e.documents import Documents
from tests.signin_e2e.journeys import Site

SERVER = "notes"
PASSWORD = "four quite common words"
NAME = "emma"
LABELS = {"integrity": "trusted", "confidentiality": "internal"}
_NOTES = {
    "defaults": LABELS,
    "tools": {"write_note": {"effect": "write", "payload": ["text"], "result": LABELS}},
}
READ = ("read_note", {"name": "welcome"})
WRITE = ("write_note", {"name": "signed", "text": "by a program that a person let in"})


@dataclass(frozen=True, kw_only=True)
class House:
    """A gateway that is ready, and knows Emma."""

    running: Running
    site: Site

    @property
    def url(self) -> str:
        return self.running.url

    @contextmanager
    def emma(self, browser: Chromium) -> Iterator[Person]:
        """Open a browser in which Emma is not signed in yet."""
        with browser.person(NAME, PASSWORD) as person:
            yield person


@contextmanager
def house(
    folder: Path,
    notes: RunningServer,
    documents: Documents,
    *,
    tls: Authority | None = None,
    **settings: Any,
) -> Iterator[House]:
    """Run a gateway whose endpoint is `/mcp/notes`; everything there is approved.

    With `tls` it speaks https itself. `settings` are further keys of its configuration.
    """
    if tls is not None:
        settings["tls"] = {"certificate": str(tls.certificate), "key": str(tls.key)}
    with running_gateway(folder, {SERVER: {"url": notes.url, **_NOTES}}, **settings) as running:
        running.approve_all(SERVER)
        yield House(
            running=running,
            site=Site(
                endpoint=f"{running.url}/mcp/{SERVER}",
                read=READ,
                write=WRITE,
                documents=documents,
                trust=tls.client_context if tls else None,
                authority=str(tls.ca) if tls else "",
            ),
        )


def egress(authority: Authority) -> Mapping[str, Any]:
    """Return the section with which the gateway may fetch from this machine."""
    return {"allow": ["127.0.0.0/8"], "ca": str(authority.ca)}


async def welcome(running: Running, browser: Chromium, name: str = NAME) -> None:
    """Add a person, who chooses a password with their link."""
    (row,) = running.rows("users", "add", name)
    with browser.person() as person:
        said = await person.enter(row["setup_url"], {"password": PASSWORD, "repeated": PASSWORD})
    assert "Your password is set." in said


def first_link(running: Running) -> str:
    """Return the link that the gateway shows once, while it knows nobody."""
    (link,) = re.findall(r"https?://\S+/setup\?link=[\w-]+", running.shown)
    found: str = link
    return found


def register(issuer: str, redirect_uri: str) -> str:
    """Register a public client (RFC 7591) and return its id."""
    body = {
        "client_name": "A client of a test",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    request = urllib.request.Request(f"{issuer}/oauth/register", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        client_id: str = json.load(answer)["client_id"]
    return client_id


def challenge(verifier: str) -> str:
    """Return the S256 challenge of `verifier` (RFC 7636 section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def asked(house: House, registered: str, **changed: str) -> str:
    """Return an authorization request of a client that has registered itself."""
    request = {
        "response_type": "code",
        "client_id": register(house.url, registered),
        "redirect_uri": registered,
        "scope": "tools:list tools:call",
        "state": "a state",
        "code_challenge": challenge(secrets.token_urlsafe(48)),
        "code_challenge_method": "S256",
        "resource": house.site.endpoint,
        **changed,
    }
    return f"{house.url}/oauth/authorize?{urlencode(request)}"
