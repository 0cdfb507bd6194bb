"""What a release says of its files, and how it is signed: in-toto statements in DSSE envelopes."""
# ruff: noqa: INP001 - a program's part, in no package

import base64
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_SLSA = "https://slsa.dev/provenance/v1"
_BUILD = "urn:douane:make-release:1"
_BUILDER = "urn:douane:whoever-holds-the-key"


def statement(
    subjects: Mapping[str, str],
    *,
    commit: str,
    materials: Mapping[str, str],
    parameters: Mapping[str, str],
) -> dict[str, Any]:
    """Return SLSA provenance of files, by name and SHA-256.

    `commit` is what they were made of, `materials` further things that went in, by name and
    SHA-256. Equal input gives equal output: there is no time in it.
    """
    made_of = [{"name": name, "digest": {"sha256": materials[name]}} for name in sorted(materials)]
    return {
        "_type": _STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": subjects[name]}} for name in sorted(subjects)
        ],
        "predicateType": _SLSA,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": dict(parameters),
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *made_of,
                ],
            },
            "runDetails": {"builder": {"id": _BUILDER}},
        },
    }


def signing_key(pem: bytes) -> Ed25519PrivateKey:
    """Read the key of releases.

    Raises:
        ValueError: It is none, or not Ed25519.

    """
    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("the key of releases is Ed25519: openssl genpkey -algorithm ed25519")  # noqa: TRY004
    return key


def public_pem(key: Ed25519PublicKey) -> bytes:
    """Return what others verify with, as `openssl pkey -pubout` writes it."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def envelope(content: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return `content` in a DSSE envelope, signed."""
    payload = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    signature = key.sign(preauthenticated(payload))
    key_id = sha256(public_pem(key.public_key())).hexdigest()
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
    }


def preauthenticated(payload: bytes) -> bytes:
    """Return what is signed for `payload` (DSSE v1, PAE)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
