"""The world outside, on loopback: a name service that is told what to say, sockets that open
nowhere else, and a server with a certificate of an authority of its own."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.http1 import AddressInfo
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from tests.listening import listening

LOOPBACK = EgressPolicy.of(["127.0.0.0/8", "::1"])


class NameService:
    """Says what it was told, in turn; the last answer again and again."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(turns) for name, turns in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int, who: str = "") -> Sequence[str]:
        self.asked.append(name)
        turns = self._answers.get(name)
        if turns is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return turns.pop(0) if len(turns) > 1 else turns[0]


class Sockets:
    """Makes sockets for loopback addresses alone, so that no broken guard reaches further."""

    def __init__(self) -> None:
        self.dialled: list[tuple[str, int]] = []

    def __call__(self, info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        self.dialled.append((address[0], address[1]))
        if not ip_address(address[0]).is_loopback:
            raise OSError("tests stay on loopback")
        return socket.socket(family, kind, protocol)


class Outside:
    """A fetcher with its stubs at hand."""

    def __init__(
        self,
        names: NameService | None = None,
        *,
        policy: EgressPolicy = EgressPolicy(),  # noqa: B008 - immutable
        ca: Path | None = None,
        most_bytes: int = 1024,
        whole_s: float = 5.0,
    ) -> None:
        self.names = names or NameService()
        self.sockets = Sockets()
        self.fetcher = GuardedFetcher(
            policy,
            ca=ca,
            resolver=self.names,
            sockets=self.sockets,
            most_bytes=most_bytes,
            whole_s=whole_s,
        )


class WebServer:
    """Answers with what it is given; keeps the requests, and the names asked for in TLS."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.server_names: list[str | None] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _length_of(head)
            self.requests.append(head + (await reader.readexactly(length) if length else b""))
            writer.write(self.answer)
            await writer.drain()
            # What the client does with the connection is the client's; it is closed by it.
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def note_server_name(self, _: object, name: str | None, __: object) -> None:
        self.server_names.append(name)


def _length_of(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, text = line.partition(b":")
        if name.lower() == b"content-length":
            return int(text)
    return 0


def answer(
    body: bytes = b"{}", *, status: str = "200 OK", headers: Mapping[str, str] | None = None
) -> bytes:
    fields = {"content-type": "application/json", "content-length": str(len(body))}
    lines = [f"{name}: {text}" for name, text in {**fields, **(headers or {})}.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


@asynccontextmanager
async def web_server(
    reply: bytes | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebServer]:
    server = WebServer(answer() if reply is None else reply)
    if tls is not None:
        tls.sni_callback = server.note_server_name
    async with listening(server.serve, tls=tls) as server.port:
        yield server


class Authority:
    """A certificate authority that nobody knows, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
        certificate = self._signed(
            self._name,
            self._key.public_key(),
            lambda builder: builder.add_extension(
                x509.BasicConstraints(ca=True, path_length=None), critical=True
            ),
        )
        self.file = folder / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str) -> ssl.SSLContext:
        """Return the server side of TLS, with a certificate for `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]),
            key.public_key(),
            lambda builder: builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
            ),
        )
        file = self._folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extended: Callable[[x509.CertificateBuilder], x509.CertificateBuilder],
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
        return extended(builder).sign(self._key, hashes.SHA256())
