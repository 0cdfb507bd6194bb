"""The gateway's own keys: made once, kept in files that only their owner can read."""

import secrets
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.storage.files import private_directory, read_private, write_atomically

_SECRET_BYTES = 32


@value
class Keys:
    """Everything that a data directory keeps secret."""

    audit: Ed25519PrivateKey = field(repr=False)
    """Signs checkpoints (`audit.key`)."""
    hmac: bytes = field(repr=False)
    """Names runs and what was disclosed, and is the first key of the hash in records (`hmac.key`)."""
    seal: bytes = field(repr=False)
    """Seals upstream session ids (`seal.key`)."""
    former_seal: bytes | None = field(repr=False, default=None)
    """What sealed them before (`seal.key.former`), while sessions of that time may go on."""

    @classmethod
    def open(cls, data_dir: Path) -> Self:
        """Read the keys of `data_dir`, and make those that are not there yet.

        Raises:
            ConfigError: A key can be read by others, or is not a key.

        """
        private_directory(data_dir)
        former = data_dir / "seal.key.former"
        return cls(
            audit=audit_key(data_dir),
            hmac=secret_in(data_dir / "hmac.key"),
            seal=secret_in(data_dir / "seal.key"),
            former_seal=secret_in(former) if former.exists() else None,
        )


def audit_key(data_dir: Path) -> Ed25519PrivateKey:
    """Read the key that signs checkpoints, and make it where there is none.

    Raises:
        ConfigError: It can be read by others, or is not an Ed25519 key.

    """
    path = data_dir / "audit.key"
    key = private_key(path, _read_or_make(path, _new_pem))
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path} is not an Ed25519 key")
    return key


def secret_in(path: Path) -> bytes:
    """Read the secret of 32 octets in `path`, and make it where there is none.

    Raises:
        ConfigError: It can be read by others, or is not one.

    """
    octets = _read_or_make(path, lambda: secrets.token_bytes(_SECRET_BYTES))
    if len(octets) != _SECRET_BYTES:
        raise ConfigError(f"{path} is not a key of {_SECRET_BYTES} bytes")
    return octets


def _new_pem() -> bytes:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def private_key(path: Path, pem: bytes) -> object:
    """Return the key that `path` holds as PEM.

    Raises:
        ConfigError: It holds none, or an encrypted one.

    """
    try:
        return load_pem_private_key(pem, password=None)
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
    ) as error:  # the text of either may quote the file
        raise ConfigError(f"{path} is not an unencrypted private key (PEM)") from error


def _read_or_make(path: Path, make: Callable[[], bytes]) -> bytes:
    try:
        return read_private(path)
    except FileNotFoundError:
        write_atomically(path, make())
        return read_private(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
