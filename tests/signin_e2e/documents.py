"""A web server for client metadata documents, at which clients name themselves by a URL."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.signin_e2e.authority import Authority


class Documents:
    """Documents under https, and how often each was fetched."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.pages: dict[str, bytes] = {}
        self.fetched: list[str] = []

    def publish(self, name: str, redirect_uris: Sequence[str]) -> str:
        """Publish the document of a public client; return its URL, which is the client's id."""
        url = f"{self.origin}/{name}.json"
        document = {
            "client_id": url,
            "client_name": name,
            "redirect_uris": list(redirect_uris),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        self.pages[f"/{name}.json"] = json.dumps(document).encode()
        return url


@contextmanager
def documents(authority: Authority) -> Iterator[Documents]:
    """Serve documents on a free port of `localhost` while the context is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.fetched.append(self.path)
            page = made.pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing: `fetched` does."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = authority.server_context().wrap_socket(server.socket, server_side=True)
    made = Documents(f"https://localhost:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, name="documents")
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
