"""A small witness on loopback (C2SP tlog-witness), which shares no code with the gateway."""

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Said = tuple[int, str, bytes]
"""Status, media type and body."""


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def extends(old: int, old_root: bytes, new: int, new_root: bytes, proof: list[bytes]) -> bool:
    """Say whether a proof shows that a tree begins with an earlier one (RFC 6962, 2.1.2)."""
    left = list(proof)

    def roots(first: int, size: int, *, known: bool) -> tuple[bytes, bytes]:
        """Return the roots that a subtree had with its `first` leaves, and has with `size`."""
        if first == size:
            root = old_root if known else left.pop()
            return root, root
        middle = 1 << ((size - 1).bit_length() - 1)
        node = left.pop()
        if first <= middle:
            before, after = roots(first, middle, known=known)
            return before, sha(b"\x01", after, node)
        before, after = roots(first - middle, size - middle, known=False)
        return sha(b"\x01", node, before), sha(b"\x01", node, after)

    if old == 0:
        return not proof
    try:
        return roots(old, new, known=True) == (old_root, new_root) and not left
    except IndexError:
        return False


class Witness:
    """Knows logs by their verifier keys, and cosigns what only grows."""

    def __init__(self, name: str = "witness.example/w1", *, seed: int = 7) -> None:
        self.name = name
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.logs: dict[str, tuple[bytes, bytes]] = {}
        self.trusts_all = True
        """Whether it takes a log's key on first sight: tests learn a new log's key late."""
        self.seen: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[int, int, int]] = []
        """Old size, number of hashes and new size of each request."""
        self.distort: Callable[[Said], Said] = lambda said: said
        self.url = ""

    @property
    def vkey(self) -> str:
        octets = b"\x04" + self.key.public_key().public_bytes_raw()
        hashed = sha(self.name.encode(), b"\n", octets)[:4].hex()
        return f"{self.name}+{hashed}+{base64.b64encode(octets).decode()}"

    def know(self, vkey: str) -> None:
        """Take only logs that were made known, this among them."""
        self.trusts_all = False
        name, hashed, encoded = vkey.split("+", 2)
        self.logs[name] = bytes.fromhex(hashed), base64.b64decode(encoded)[1:]

    def line(self, text: str, at: int, *, key: Ed25519PrivateKey | None = None) -> str:
        """Return a cosignature line over a note's text."""
        signed = (key or self.key).sign(f"cosignature/v1\ntime {at}\n{text}".encode())
        hashed = bytes.fromhex(self.vkey.split("+", 2)[1])
        encoded = base64.b64encode(hashed + at.to_bytes(8, "big") + signed).decode()
        return f"\u2014 {self.name} {encoded}\n"

    def answer(self, path: str, body: bytes) -> Said:
        if path != "/prefix/add-checkpoint":
            return 404, "text/plain", b"no such path\n"
        return self.distort(self._answer(body.decode()))

    def _answer(self, body: str) -> Said:
        head, _, note = body.partition("\n\n")
        first, *hashes = head.split("\n")
        text, _, signatures = note.rpartition("\n\n")
        origin, size, root = text.split("\n")
        word, old = first.split(" ")
        if word != "old" or str(int(old)) != old or len(hashes) > 63 or int(old) > int(size):
            return 400, "text/plain", b"bad\n"
        self.asked.append((int(old), len(hashes), int(size)))
        if origin not in self.logs and not self.trusts_all:
            return 404, "text/plain", b"unknown\n"
        if origin in self.logs and not self._signed(origin, text + "\n", signatures):
            return 403, "text/plain", b"not signed\n"
        kept, kept_root = self.seen.get(origin, (0, sha()))
        if int(old) != kept:
            return 409, "text/x.tlog.size", f"{kept}\n".encode()
        new_root, proof = base64.b64decode(root), [base64.b64decode(one) for one in hashes]
        if not extends(kept, kept_root, int(size), new_root, proof):
            return 422, "text/plain", b"inconsistent\n"
        self.seen[origin] = int(size), new_root
        return 200, "text/plain", self.line(text + "\n", int(time.time())).encode()

    def _signed(self, origin: str, text: str, signatures: str) -> bool:
        hashed, public = self.logs[origin]
        for line in signatures.splitlines():
            dash, name, encoded = line.split(" ")
            octets = base64.b64decode(encoded)
            if (dash, name, octets[:4]) == ("\u2014", origin, hashed):
                with suppress(InvalidSignature):
                    Ed25519PublicKey.from_public_bytes(public).verify(octets[4:], text.encode())
                    return True
        return False


@contextmanager
def witnessing(witness: Witness) -> Iterator[Witness]:
    """Serve a witness; `url` is its submission prefix."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, media, said = witness.answer(self.path, body)
            with suppress(OSError):
                self.send_response(status)
                self.send_header("content-type", media)
                self.send_header("content-length", str(len(said)))
                if status == 503:
                    self.send_header("retry-after", "7")
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    witness.url = f"http://127.0.0.1:{server.server_address[1]}/prefix"
    try:
        yield witness
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
