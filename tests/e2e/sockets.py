"""HTTP/1.1 by hand: what is sent is what the test says, byte for byte."""

import http.client
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Answered:
    status: int
    headers: dict[str, str]
    """Lower-case names."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """Every message of the body, which may be an event stream."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            return [self.json]
        lines = self.body.decode().splitlines()
        data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        return [json.loads(text) for text in data if text]

    @property
    def error_code(self) -> int | None:
        """The JSON-RPC error code, if it is one."""
        found: int | None = self.json.get("error", {}).get("code")
        return found

    @property
    def refusal(self) -> str | None:
        """The code of the refusal, in a tool's result or in an error."""
        return refusal_in(self.messages[-1])


def refusal_in(message: dict[str, Any]) -> str | None:
    """Return the code of the gateway's refusal in a JSON-RPC message, if it is one."""
    data = message.get("error", {}).get("data") or {}
    meta = message.get("result", {}).get("_meta", {}).get("douane/refusal", {})
    found: str | None = data.get("code") or meta.get("code")
    return found


def head(method: str, path: str, pairs: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def exchange(url: str, octets: bytes) -> Answered:
    """Send `octets` on a connection of their own and return the answer.

    Status 0 stands for a connection that was closed without one.
    """
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(octets)
        response = http.client.HTTPResponse(connection)
        try:
            response.begin()
            body = response.read()
        except (http.client.BadStatusLine, http.client.RemoteDisconnected, ConnectionResetError):
            return Answered(status=0, headers={}, body=b"")
        finally:
            response.close()
    headers = {name.lower(): text for name, text in response.getheaders()}
    return Answered(status=response.status, headers=headers, body=body)


def replies(url: str, octets: bytes) -> list[int]:
    """Send `octets` and return the status of every answer until the gateway hangs up."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=3) as connection:
        connection.sendall(octets)
        received = b""
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionResetError):
            pass
    return [int(line[9:12]) for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
