"""The small types of the configuration: durations, addresses, origins, secrets by reference."""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, PlainValidator, ValidationInfo, WithJsonSchema

from gateway.domain._value import value

LARGEST_SECRET_BYTES = 64 * 1024

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h|d)", re.ASCII)
_REFERENCE = re.compile(r"(env):([A-Za-z_][A-Za-z0-9_]*)|(file):([^\0]+)", re.ASCII)
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\.?",
    re.ASCII | re.IGNORECASE,
)
_LARGEST_PORT = 65535


def duration_s(text: Any) -> float:
    """Return the seconds of a text such as `90d`.

    Raises:
        ValueError: It is none, or is no time at all.

    """
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError("write a duration above zero with its unit: `250ms`, `2s`, `15m`, `1h`")
    return int(found[1]) * _UNITS_S[found[2]]


Duration = Annotated[
    float,
    PlainValidator(duration_s),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"}),
]
"""Seconds, written with a unit."""


@value
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether `host` is an address of this machine's loopback, or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(text: Any) -> Address:
    wrong = "write HOST:PORT, such as `127.0.0.1:8080` or `[::1]:8080`"
    if not isinstance(text, str):
        raise ValueError(wrong)  # noqa: TRY004 - pydantic collects ValueError
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(wrong)
    digits = port.isascii() and port.isdigit()
    if not host or not digits or not 0 < int(port[:6]) <= _LARGEST_PORT:
        raise ValueError(wrong)
    return Address(host=host, port=int(port))


ListenAddress = Annotated[
    Address, PlainValidator(_address), WithJsonSchema({"type": "string", "pattern": ":[0-9]+$"})
]


@value
class UnixOrTcp:
    """Where to listen: an address, or a socket in the file system."""

    at: Address | Path

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return isinstance(self.at, Path) or self.at.is_loopback

    def __str__(self) -> str:
        return f"unix:{self.at}" if isinstance(self.at, Path) else str(self.at)


def _unix_or_tcp(text: Any) -> UnixOrTcp:
    if isinstance(text, str) and text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path:
            raise ValueError("write `unix:` and an absolute path")
        return UnixOrTcp(at=Path(path))
    return UnixOrTcp(at=_address(text))


GrpcAddress = Annotated[
    UnixOrTcp,
    PlainValidator(_unix_or_tcp),
    WithJsonSchema({"type": "string", "pattern": "^unix:/.|:[0-9]+$"}),
]


def _split(text: Any) -> SplitResult:
    wrong = "write a URL that begins with https:// or http://"
    if not isinstance(text, str) or not text.isascii() or re.search(r"[\x00-\x20\x7f\\]", text):
        raise ValueError(wrong)
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(wrong)
    if "@" in parts.netloc:
        raise ValueError("a URL must not carry a user name or password; use `credential`")
    if ":" not in parts.hostname and not _HOST_NAME.fullmatch(parts.hostname):
        raise ValueError(f"`{parts.hostname}` is no host name")
    _ = parts.port  # raises ValueError when it is no port
    return parts


def _origin(text: Any) -> str:
    parts = _split(text)
    if parts.path or parts.query or parts.fragment or text.endswith(("/", "?", "#")):
        raise ValueError("write scheme, host and port only: no path, no trailing slash")
    default = {"http": 80, "https": 443}[parts.scheme]
    host = parts.netloc.lower()
    if parts.port == default or host.endswith(":"):
        raise ValueError(f"leave `:{default}` out; clients do, and the two must be equal")
    if text != f"{parts.scheme}://{host}":
        raise ValueError(f"write it in lower case: `{parts.scheme}://{host}`")
    return str(text)


def _public_origin(text: Any) -> str:
    origin = _origin(text)
    _require_tls(urlsplit(origin))
    return origin


def _require_tls(parts: SplitResult) -> None:
    # Tokens, secrets or keys cross this URL (RFC 9700 section 2.6).
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be https; http is for loopback hosts only")


def _endpoint(text: Any) -> str:
    parts = _split(text)
    if parts.fragment:
        raise ValueError("a server's URL has no fragment; remove `#` and what follows")
    return str(text)


def _trusted_endpoint(text: Any) -> str:
    endpoint = _endpoint(text)
    _require_tls(urlsplit(endpoint))
    return endpoint


def _issuer(text: Any) -> str:
    parts = _split(text)
    if "?" in text or "#" in text:
        raise ValueError("an issuer has no query and no fragment; write it as its metadata does")
    _require_tls(parts)
    return str(text)


_PRIVATE_URI = re.compile(
    r"([a-z][a-z0-9+.-]*):(?://[a-z0-9.-]+(?::[0-9]+)?(?:/[!-~]*)?|/(?!/)[!-~]*)", re.ASCII
)
_ACTIVE_SCHEMES = frozenset(
    {"http", "https", "javascript", "data", "vbscript", "file", "blob", "about", "ftp", "ws", "wss"}
)


def _private_redirect(text: Any) -> str:
    wrong = "write a whole URI with a private scheme, such as `cursor://host/path`"
    found = _PRIVATE_URI.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(wrong)
    if found[1] in _ACTIVE_SCHEMES:
        raise ValueError(f"`{found[1]}` is no private scheme; {wrong}")
    if re.search(r"[*#\\\"'<>]|/\.\.?(/|$)", text):
        raise ValueError("is compared as it stands; write it without `*`, `#`, quotes or `..`")
    return str(text)


def _network(text: Any) -> str:
    try:
        return str(ipaddress.ip_network(text if isinstance(text, str) else "", strict=True))
    except ValueError:
        raise ValueError("write an IP address or network, such as `10.0.0.0/8`") from None


_url = WithJsonSchema({"type": "string", "format": "uri"})
Origin = Annotated[str, PlainValidator(_origin), _url]
"""Scheme, host and port (RFC 6454 section 6.2), without a trailing slash."""
PublicOrigin = Annotated[str, PlainValidator(_public_origin), _url]
Endpoint = Annotated[str, PlainValidator(_endpoint), _url]
TrustedEndpoint = Annotated[str, PlainValidator(_trusted_endpoint), _url]
"""An endpoint that secrets are sent to or keys are taken from (RFC 6749 section 3.2)."""
Issuer = Annotated[str, PlainValidator(_issuer), _url]
"""Compared byte for byte with what its documents and tokens say (RFC 8414 section 2)."""
PrivateRedirect = Annotated[str, PlainValidator(_private_redirect), _url]
"""A redirect URI that an application registered with its operating system (RFC 8252 section 7.1)."""
Network = Annotated[str, PlainValidator(_network), WithJsonSchema({"type": "string"})]


_EXTENSION = re.compile(r"[A-Za-z0-9.-]{1,128}/[A-Za-z0-9_.-]{1,128}", re.ASCII)


def _extension(name: Any) -> str:
    if not isinstance(name, str) or not _EXTENSION.fullmatch(name):
        raise ValueError("write an extension's whole name, such as `io.modelcontextprotocol/ui`")
    return name


Extension = Annotated[str, PlainValidator(_extension), WithJsonSchema({"type": "string"})]
"""A protocol extension (MCP 2026-07-28, extensions); case and all, as capabilities name it."""
Host = Literal["claude", "copilot-studio", "gemini"]
"""A host that is known to refuse keywords of JSON Schema which schemas can do without."""


def _from_folder(text: Any, info: ValidationInfo) -> Path:
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError("write a path")
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / text


LocalPath = Annotated[
    Path, PlainValidator(_from_folder), WithJsonSchema({"type": "string", "format": "path"})
]
"""A path; a relative one starts at the configuration file's folder."""


def _policy_path(text: Any, info: ValidationInfo) -> str:
    if isinstance(text, str) and "://" in text:
        if not text.startswith("https://"):
            raise ValueError("a bundle is fetched over https only")
        return _endpoint(text)
    return str(_from_folder(text, info))


PolicyPath = Annotated[str, PlainValidator(_policy_path), WithJsonSchema({"type": "string"})]
"""A `LocalPath`, or an https URL."""


class Secret:
    """A secret's text, which no repr, log or error shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text, for the one place that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"


@value
class SecretRef:
    """Where a secret is kept: never the secret."""

    kind: Literal["env", "file"]
    name: str
    """The variable's name, or the file's path."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def resolve(self, environ: Mapping[str, str]) -> Secret:
        """Read the secret, without its trailing line break.

        Raises:
            ValueError: There is none, it is empty, or it is not one line of printable ASCII.

        """
        text = environ.get(self.name, "") if self.kind == "env" else self._read()
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            raise ValueError(f"`{self}` is missing or empty; set it")
        if not (text.isascii() and text.isprintable()):
            # It becomes a header's value, where a line break would begin another header.
            raise ValueError(f"`{self}` must be one line of printable ASCII; store the bare secret")
        return Secret(text)

    def _read(self) -> str:
        try:
            with Path(self.name).open("rb") as file:
                data = file.read(LARGEST_SECRET_BYTES + 1)
        except OSError as error:
            raise ValueError(f"`{self}` cannot be read: {error.strerror}") from None
        if len(data) > LARGEST_SECRET_BYTES:
            raise ValueError(f"`{self}` is larger than {LARGEST_SECRET_BYTES} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ValueError(f"`{self}` is not UTF-8 text") from None


def _secret_ref(text: Any, info: ValidationInfo) -> SecretRef:
    found = _REFERENCE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("secrets come by reference only: write `env:NAME` or `file:PATH`")
    context = info.context or {}
    if found[1]:
        ref = SecretRef(kind="env", name=found[2])
    else:
        ref = SecretRef(kind="file", name=str(context.get("folder", Path()) / found[4]))
    if context.get("environ") is not None:
        ref.resolve(context["environ"])
    return ref


SecretReference = Annotated[
    SecretRef,
    PlainValidator(_secret_ref),
    WithJsonSchema({"type": "string", "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"}),
]


def planned(*words: str, instead: str) -> BeforeValidator:
    """Refuse `words`, which the contract names and this version cannot do yet."""

    def check(content: Any) -> Any:
        if isinstance(content, str) and content in words:
            raise ValueError(f"`{content}` is not available in this version; {instead}")
        return content

    return BeforeValidator(check)


def as_word(written: Any) -> Any:
    """Return a bare `on` or `off` as the word that it is: YAML 1.1 reads a truth value."""
    return {True: "on", False: "off"}[written] if type(written) is bool else written


Dpop = Annotated[Literal["off", "offered", "required"], BeforeValidator(as_word)]
"""Whether tokens are bound to a key of their client (RFC 9449)."""
