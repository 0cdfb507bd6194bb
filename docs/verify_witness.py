"""Says what a witness has cosigned of the checkpoints in a file, without Douane.

    python verify_witness.py FILE WITNESS

FILE is an export of the form douane-log/1, the lines of a checkpoints file, or one checkpoint. For an
export run verify_export.py too: it compares each checkpoint in it with the records. WITNESS is a public
key (C2SP tlog-cosignature). Needs Python 3.9 and `cryptography`. Exit: 0 it has cosigned, 1 it has not,
or one is not its own, 2 the file or the key cannot be read.
"""

import argparse
import base64
import hashlib
import itertools
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def parse_key(text):
    """NAME+KEYID+BASE64, the key id being a hash of name and key (C2SP signed-note)."""
    name, key_id, encoded = text.strip().split("+", 2)
    octets = base64.b64decode(encoded, validate=True)
    hashed = hashlib.sha256(name.encode() + b"\n" + octets).digest()[:4]
    if octets[:1] != b"\x04" or len(octets) != 33 or hashed.hex() != key_id:
        raise ValueError("no Ed25519 key of a witness")
    return name, octets[1:], hashed


def notes_in(file):
    first = file.readline()
    if not first.startswith(b"{"):
        yield (first + file.read()).decode()
        return
    for line in itertools.chain([first], file):
        # What has no } was cut off.
        if b"}" in line and "checkpoint" in (entry := json.loads(line.decode())):
            yield entry["checkpoint"]


def cosigned(note, key):
    """Yield size, time and root for each cosignature of the key; each has to be good."""
    text, _, signatures = note.rpartition("\n\n")
    for line in signatures.split("\n"):
        signer, _, encoded = line.rpartition(" ")
        octets = base64.b64decode(encoded if signer == f"\u2014 {key[0]}" else "")
        if octets[:4] == key[2]:
            time = int.from_bytes(octets[4:12], "big")
            said = f"cosignature/v1\ntime {time}\n{text}\n".encode()
            Ed25519PublicKey.from_public_bytes(key[1]).verify(octets[12:], said)
            origin, size, root = text.split("\n")[:3]
            yield int(size), time, base64.b64decode(root).hex(), origin


def main():
    asked = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    asked.add_argument("file"), asked.add_argument("witness")
    args = asked.parse_args()
    try:
        key = parse_key(args.witness)
        with Path(args.file).open("rb") as file:
            found = [one for note in notes_in(file) for one in cosigned(note, key)]
    except InvalidSignature:
        return print(f"NOT cosigned by {key[0]}: a cosignature does not match its checkpoint") or 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        return print(f"cannot be read: {error!r}", file=sys.stderr) or 2
    if not found:
        return print(f"NOT cosigned by {key[0]}: no checkpoint here has its cosignature") or 1
    size, time, root, log = max(found)
    print(
        f"cosigned by {key[0]} at {time} s since 1970, by its clock: {log}, {size} records; root {root}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
