"""Verifies files of a release by its signed provenance, without Douane.

    python verify_release.py PROVENANCE --key release.pub FILE...

PROVENANCE is douane-VERSION.intoto.json: an in-toto statement in a DSSE envelope, signed with
Ed25519. Needs Python 3.9 and `cryptography`. Exit: 0 every file is what was signed, 1 one is not.
"""

import argparse
import base64
import hashlib
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

KIND = "application/vnd.in-toto+json"
WRONG = (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidSignature)


def need(condition, why):
    if not condition:
        raise ValueError(why)


def opened(text, pem):
    """The statement in an envelope, if the key signed it."""
    key = load_pem_public_key(pem)
    need(isinstance(key, Ed25519PublicKey), "the key is not Ed25519")
    envelope = json.loads(text)
    need(envelope["payloadType"] == KIND, "it is no in-toto statement")
    payload = base64.b64decode(envelope["payload"], validate=True)
    signed = b"DSSEv1 %d %s %d %s" % (len(KIND), KIND.encode(), len(payload), payload)
    (signature,) = envelope["signatures"]
    key.verify(base64.b64decode(signature["sig"], validate=True), signed)
    statement = json.loads(payload)
    need(statement["_type"] == "https://in-toto.io/Statement/v1", "it is no in-toto statement")
    return statement


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("provenance", type=Path)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    try:
        statement = opened(given.provenance.read_bytes(), given.key.read_bytes())
        listed = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        for file in given.files:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            need(listed.get(file.name) == digest, f"{file}: not what was signed")
    except InvalidSignature:
        print("WRONG: not signed with this key", file=sys.stderr)
        return 1
    except (OSError, *WRONG) as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    source, *_ = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    print(f"ok: {len(given.files)} files, made of commit {source['digest']['gitCommit']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
