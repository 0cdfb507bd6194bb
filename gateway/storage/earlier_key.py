"""The key that signed access tokens before such keys were kept sealed."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from gateway.errors import ConfigError
from gateway.storage.files import read_private
from gateway.storage.keys import private_key

SIGNING_KEY = "signing.key"


def earlier_signing_key(data_dir: Path) -> ec.EllipticCurvePrivateKey | None:
    """Read the key that signed access tokens before they were kept sealed (`signing.key`), if any.

    Raises:
        ConfigError: It can be read by others, or is not a P-256 key.

    """
    path = data_dir / SIGNING_KEY
    try:
        key = private_key(path, read_private(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise ConfigError(f"{path} is not a P-256 key")
    return key


def forget_earlier_signing_key(data_dir: Path) -> None:
    """Delete the file: the key it holds is kept sealed, and in the clear nowhere."""
    (data_dir / SIGNING_KEY).unlink(missing_ok=True)
