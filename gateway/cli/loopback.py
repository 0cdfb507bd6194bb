"""The way back from the browser: one answer, to a port of this machine (RFC 8252 section 7.3)."""

import hmac
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from gateway.cli.failure import NO, Failed

_PATH = "/callback"
_READ_S = 5.0
_PAGE = """<!doctype html><meta charset="utf-8"><title>Douane</title><p>{text}</p>\n"""
_DONE = "You are signed in. You can close this window."
_NOT_DONE = "You are not signed in. The command line says why; you can close this window."
_UNEXPECTED = "This is not the answer that the command line waits for."
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Connection": "close",
}


class WayBack:
    """A listener on 127.0.0.1 that takes one authorization response."""

    def __init__(self, server: ThreadingHTTPServer, issuer: str, state: str) -> None:
        self._host = f"127.0.0.1:{server.server_port}"
        self._issuer = issuer
        self._state = state
        self._answers: queue.Queue[str | Failed] = queue.Queue(maxsize=1)

    @property
    def redirect_uri(self) -> str:
        return f"http://{self._host}{_PATH}"

    def code(self, *, patience_s: float) -> str:
        """Return the code that the browser brings.

        Raises:
            Failed: The person refused, something else answered, or nobody did in time.

        """
        try:
            answer = self._answers.get(timeout=patience_s)
        except queue.Empty:
            raise Failed("nobody signed in in time; try again", exit_code=NO) from None
        if isinstance(answer, Failed):
            raise answer
        return answer

    def take(self, host: str | None, target: str) -> tuple[int, str]:
        """Take a request for `target`, and return the status and the text to answer with."""
        parts = urlsplit(target)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        query = dict(pairs)
        if host != self._host or parts.path != _PATH or len(query) < len(pairs):
            return 404, _UNEXPECTED
        if not hmac.compare_digest(query.get("state", "").encode(), self._state.encode()):
            # Any page can send a browser here; only ours knows the state, and it may still come.
            return 400, _UNEXPECTED
        try:
            self._answers.put_nowait(self._read(query))
        except queue.Full:
            return 400, _UNEXPECTED
        return 200, _DONE if "code" in query and "error" not in query else _NOT_DONE

    def _read(self, query: dict[str, str]) -> str | Failed:
        # Before anything else of the answer is looked at (RFC 9207 section 2.4).
        if query.get("iss") != self._issuer:
            return Failed(f"the answer is not {self._issuer}'s; nothing was kept", exit_code=NO)
        if "error" in query:
            return Failed(f"not signed in: {_word(query['error'])}", exit_code=NO)
        if not query.get("code"):
            return Failed("the answer holds no code; try again", exit_code=NO)
        return query["code"]


@contextmanager
def way_back(issuer: str, state: str) -> Iterator[WayBack]:
    """Listen on a free port of 127.0.0.1 while the context is open.

    Raises:
        Failed: There is none.

    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _READ_S  # type: ignore[mutable-override]  # the library's is never set again
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, text = waiting.take(self.headers.get("Host"), self.path)
            page = _PAGE.format(text=text).encode()
            self.send_response(status)
            for name, content in _HEADERS.items():
                self.send_header(name, content)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            """Say nothing: the line would hold the code."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    except OSError as error:
        raise Failed(f"127.0.0.1 cannot be listened on: {error}", exit_code=NO) from error
    waiting = WayBack(server, issuer, state)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
    )
    thread.start()
    try:
        yield waiting
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _word(text: str) -> str:
    """Return an OAuth error code, or nothing that somebody made up to be printed."""
    return text if text.isascii() and text.replace("_", "").isalnum() else "an error"
