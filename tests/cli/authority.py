"""A gateway's public endpoints as `douane login` sees them, and the browser of a person."""

import base64
import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit


class Authority:
    """Answers as it is told to, and writes down what it was asked."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.metadata: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/oauth/authorize",
            "token_endpoint": f"{issuer}/oauth/token",
            "revocation_endpoint": f"{issuer}/oauth/revoke",
            "device_authorization_endpoint": f"{issuer}/oauth/device_authorization",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.tokens: list[tuple[int, Any]] = []
        """Answers of the token endpoint, in order."""
        self.device: tuple[int, Any] = (200, {})
        self.revoked: tuple[int, Any] = (200, None)
        self.redirect = ""
        """Where the token endpoint redirects to instead, if anywhere."""
        self.asked: list[tuple[str, dict[str, str]]] = []

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        self.asked.append((path, form))
        if path == "/.well-known/oauth-authorization-server":
            return 200, self.metadata
        if path == "/oauth/device_authorization":
            return self.device
        if path == "/oauth/revoke":
            return self.revoked
        if self.redirect:
            return 302, None
        return self.tokens.pop(0)

    def forms(self, path: str) -> list[dict[str, str]]:
        return [form for asked, form in self.asked if asked == path]


@contextmanager
def authority() -> Iterator[Authority]:
    """Run one on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(dict(parse_qsl(body.decode(), keep_blank_values=True)))

        def _answer(self, form: dict[str, str]) -> None:
            status, content = made.answer(self.path, form)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            body = b"" if content is None else body
            self.send_response(status)
            if status == 302:
                self.send_header("Location", made.redirect)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Authority(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def granted(number: int = 1, **changes: Any) -> tuple[int, Any]:
    return 200, {
        "access_token": f"access-{number}",
        "token_type": "Bearer",
        "expires_in": 600,
        "refresh_token": f"refresh-{number}",
        "scope": "admin",
    } | changes


class Browser:
    """Opens what it is told to, and comes back with `answers`: changes to the response's query."""

    def __init__(self, issuer: str, *answers: dict[str, str | None]) -> None:
        self._issuer = issuer
        self._answers = answers or ({},)
        self.request: dict[str, str] = {}
        self.pages: list[tuple[int, str, dict[str, str]]] = []
        self._thread: threading.Thread | None = None

    def open(self, url: str) -> bool:
        self.request = dict(parse_qsl(urlsplit(url).query))
        self._thread = threading.Thread(target=self._come_back)
        self._thread.start()
        return True

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _come_back(self) -> None:
        for changes in self._answers:
            query = {"code": "c0de", "state": self.request["state"], "iss": self._issuer} | changes
            given = {name: text for name, text in query.items() if text is not None}
            self.pages.append(fetch(f"{self.request['redirect_uri']}?{urlencode(given)}"))


def fetch(url: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    """Return status, body and headers of a GET on this machine."""
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
