"""The gateway's own keys as a data directory has them: by the names that PostgreSQL has them under."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from gateway.errors import ConfigError
from gateway.storage.files import read_private, write_atomically
from gateway.storage.keys import audit_key, secret_in
from gateway.storage.record_keys import RecordKeys, named

_AUDIT: Final = "audit"
_FILES: Final[Mapping[str, str]] = {
    "hmac": "hmac.key",
    "seal": "seal.key",
    "seal.former": "seal.key.former",
}
_OF_RECORDS: Final = "record-hash-"


def found(data_dir: Path) -> Mapping[str, bytes]:
    """Return the keys of a directory; none, where it has none yet.

    Raises:
        ConfigError: One can be read by others, or is no key.

    """
    if not (data_dir / "audit.key").exists():
        return {}
    octets = audit_key(data_dir).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    keys = {_AUDIT: octets}
    for name, file in _FILES.items():
        if (data_dir / file).exists():
            keys[name] = secret_in(data_dir / file)
    if "hmac" not in keys:
        raise ConfigError(f"{data_dir / 'hmac.key'} is missing")
    of_records = RecordKeys.open(data_dir, keys["hmac"]).all
    return keys | {
        f"{_OF_RECORDS}{number}": key for number, key in enumerate(of_records[1:], start=2)
    }


def keep(data_dir: Path, keys: Mapping[str, bytes]) -> None:
    """Write the keys into a directory; durable on return, and done again it is the same."""
    for name, octets in keys.items():
        _write(data_dir / _file_of(name), _as_pem(octets) if name == _AUDIT else octets)


def _file_of(name: str) -> str:
    if name == _AUDIT:
        return "audit.key"
    if name.startswith(_OF_RECORDS):
        return named(int(name.removeprefix(_OF_RECORDS)))
    return _FILES[name]


def _write(path: Path, octets: bytes) -> None:
    if not path.exists() or read_private(path) != octets:
        write_atomically(path, octets)


def _as_pem(octets: bytes) -> bytes:
    key = load_der_private_key(octets, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
