"""Verifies an export of the form douane-log/1, or an inclusion proof, without Douane.

    python verify_export.py FILE [--proof] [--key VERIFIER] [--checkpoint FILE ...]

Needs Python 3.9 and `cryptography`. Exit: 0 it is what was signed, 1 it is not, 2 no export at all.
"""

import argparse
import base64
import hashlib
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

HEADER = {"format", "log_id", "key", "size", "selection"}
WRONG = (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidSignature)


def need(condition, why):
    if not condition:
        raise ValueError(why)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def parse_key(text):
    """NAME+KEYID+BASE64, the key id being a hash of name and key (C2SP signed-note)."""
    name, key_id, encoded = text.strip().split("+", 2)
    octets = base64.b64decode(encoded, validate=True)
    hashed = sha(name.encode(), b"\n", octets)[:4]
    need(octets[:1] == b"\x01" and len(octets) == 33 and hashed.hex() == key_id, "no Ed25519 key")
    return name, octets[1:], hashed


def open_checkpoint(note, key):  # C2SP tlog-checkpoint
    text, found, signatures = note.rpartition("\n\n")
    for line in signatures.split("\n")[:-1] if found else ():
        signer, _, encoded = line.rpartition(" ")
        signature = base64.b64decode(encoded if signer == f"\u2014 {key[0]}" else "")
        if signature[:4] == key[2]:
            Ed25519PublicKey.from_public_bytes(key[1]).verify(signature[4:], f"{text}\n".encode())
            origin, size, root = text.split("\n")[:3]
            need(origin == key[0] and str(int(size)) == size, "not a checkpoint of this log")
            return int(size), base64.b64decode(root, validate=True)
    raise ValueError("a checkpoint is not signed by the key")


def read(line):
    def once(pairs):
        need(len(dict(pairs)) == len(pairs), "a member stands there twice")
        return dict(pairs)

    need(line.endswith(b"\n"), "a line is cut off")
    return json.loads(line.decode(), object_pairs_hook=once)


def grow(edge, index, count, root):
    """Add a perfect subtree to the right edge: pairs of a size and a root (RFC 9162, 2.1)."""
    size = sum(held for held, _ in edge)
    need(
        type(index) is type(count) is int and index == size, f"{index} stands where {size} belongs"
    )
    need(count > 0 == count & (count - 1) == index % count and len(root) == 32, "no subtree")
    while edge and edge[-1][0] == count:
        root, count = sha(b"\x01", edge.pop()[1], root), count * 2
    edge.append((count, root))


def head(edge):
    right = edge[-1][1] if edge else sha()
    for _, left in reversed(edge[:-1]):
        right = sha(b"\x01", left, right)
    return sum(held for held, _ in edge), right


def inclusion(proof, key):
    """Check what `douane audit show ID --proof --json` says (RFC 9162 section 2.1.3.2)."""
    size, root = open_checkpoint(proof["checkpoint"], key)
    index, last, node = proof["leaf_index"], size - 1, sha(b"\0", proof["body"].encode())
    need(0 <= index < size, "there is no such record")
    for sibling in map(bytes.fromhex, proof["path"]):
        need(last, "the path is too long")
        left = index & 1 or index == last
        node = sha(b"\x01", sibling, node) if left else sha(b"\x01", node, sibling)
        while left and index and not index & 1:
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    need(last == 0 and node == root, "the path does not lead to the root")
    return f"record {proof['leaf_index']}, one of {size} that were signed"


def export(lines, header, key, notes):
    edge, shown, signed = [], 0, -1
    need(header["format"] == "douane-log/1" and type(header["size"]) is int, "another format")
    need(parse_key(header["key"]) == key and header["log_id"] == key[0], "it is of another log")
    kept = sorted((open_checkpoint(note, key) for note in notes), reverse=True)
    while True:
        while kept and kept[-1][0] <= head(edge)[0]:
            need(kept.pop() == head(edge), "a checkpoint that was kept says otherwise")
        if (line := next(lines, None)) is None:
            break
        entry = read(line)
        if set(entry) == {"checkpoint"}:
            signed = open_checkpoint(entry["checkpoint"], key)
            need(signed == head(edge), f"the first {signed[0]} records are not those signed")
        elif set(entry) == {"leaf_index", "leaf_hash", "body"}:
            leaf, shown = sha(b"\0", entry["body"].encode()), shown + 1
            need(leaf.hex() == entry["leaf_hash"], f"record {entry['leaf_index']} was changed")
            grow(edge, entry["leaf_index"], 1, leaf)
        else:
            need(set(entry) == {"leaf_index", "left_out", "root"}, "no line of an export")
            need((root := bytes.fromhex(entry["root"])).hex() == entry["root"], "no hash in hex")
            grow(edge, entry["leaf_index"], entry["left_out"], root)
    need(signed == head(edge) and signed[0] == header["size"], "its end or checkpoint is missing")
    need(not kept, "a checkpoint that was kept covers more records than are here")
    return f"{shown} records, of {signed[0]} that were signed; root {signed[1].hex()}"


def main():
    asked = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    asked.add_argument("file"), asked.add_argument("--proof", action="store_true")
    asked.add_argument("--key"), asked.add_argument("--checkpoint", action="append", default=[])
    args = asked.parse_args()
    try:
        files = [Path(path).read_bytes().decode() for path in args.checkpoint]
        lines = [f.split("\n") if f[:1] == "{" else [json.dumps({"checkpoint": f})] for f in files]
        notes = [[json.loads(one)["checkpoint"] for one in part if "}" in one] for part in lines]
        need(all(notes), "a file of checkpoints holds none")  # what has no } was cut off
        kept = [note for part in notes for note in part]
        with Path(args.file).open("rb") as file:
            top = read(file.readline())
            need(args.proof or set(top) == HEADER, "not the header of an export")
            key = parse_key(args.key or top["key"])
            try:
                found = inclusion(top["proof"], key) if args.proof else export(file, top, key, kept)
            except WRONG as error:
                return print(f"NOT what was signed: {error}") or 1
    except (*WRONG, OSError) as error:
        return print(f"not an export that can be verified: {error!r}", file=sys.stderr) or 2
    whose = "" if args.key else ", by the key that it names: compare that with one from elsewhere"
    return print(f"what was signed: {found}{whose}") or 0


if __name__ == "__main__":
    sys.exit(main())
