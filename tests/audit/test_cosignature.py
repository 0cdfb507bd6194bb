"""A witness's key and word are taken in the very form that C2SP says, and in no other."""

import base64

import pytest

from gateway.audit.checkpoint import BadCheckpoint, open_checkpoint
from gateway.audit.cosignature import (
    Sightings,
    Witnessed,
    WitnessKey,
    add_checkpoint,
    cosignature_in,
    cosigned,
    size_in,
)
from tests.audit.exported import SignedLog
from tests.export.witness import Witness, sha

AT = 1_679_315_147
LOG = SignedLog(20)
WITNESS = Witness()
KEY = WitnessKey.parse(WITNESS.vkey)
NOTE = LOG.note(9)
TEXT = NOTE.rpartition("\n\n")[0] + "\n"


def with_line(size: int, at: int = AT, witness: Witness = WITNESS) -> str:
    """Return a checkpoint that a witness has cosigned."""
    note = LOG.note(size)
    return note + witness.line(note.rpartition("\n\n")[0] + "\n", at)


def test_a_key_is_read_and_written_as_it_is_published() -> None:
    assert str(KEY) == WITNESS.vkey
    assert KEY.id == WITNESS.vkey.rpartition("+")[0]
    assert WitnessKey.parse(f" {WITNESS.vkey}\n") == KEY


def _key(name: str, octets: bytes) -> str:
    """Return a key whose id is that of a witness's, whatever it is."""
    hashed = sha(name.encode(), b"\n\x04", octets[1:])[:4].hex()
    return f"{name}+{hashed}+{base64.b64encode(octets).decode()}"


def _keys() -> dict[str, str]:
    name, hashed, encoded = WITNESS.vkey.split("+", 2)
    octets = base64.b64decode(encoded)
    return {
        "empty": "",
        "without a name": _key("", octets),
        "with a space in its name": _key("w 1", octets),
        "of another id": f"{name}+00000000+{encoded}",
        "of another name": f"other.example+{hashed}+{encoded}",
        "cut off": WITNESS.vkey[:-4],
        "too long": _key(name, octets + b"\0"),
        "of a log's type": _key(name, b"\x01" + octets[1:]),
        "no base64": f"{name}+{hashed}+{encoded[:-2]}!=",
        "of a log": str(LOG.verifier),
        "for the terminal": _key("w\x1b[31m", octets),
    }


@pytest.mark.parametrize("how", _keys())
def test_what_is_no_key_of_a_witness_is_refused(how: str) -> None:
    with pytest.raises(BadCheckpoint):
        WitnessKey.parse(_keys()[how])


def test_a_cosignature_is_taken_with_its_time() -> None:
    found = cosigned(with_line(9), KEY)
    assert found is not None
    assert (found.time, found.line) == (AT, WITNESS.line(TEXT, AT))
    assert cosigned(NOTE, KEY) is None
    assert open_checkpoint(with_line(9), LOG.verifier).size == 9


def test_of_several_the_newest_counts_and_each_has_to_be_good() -> None:
    lines = WITNESS.line(TEXT, AT + 5) + WITNESS.line(TEXT, AT)
    found = cosignature_in(lines, TEXT, KEY)
    assert found is not None
    assert found.time == AT + 5
    with pytest.raises(BadCheckpoint, match="does not match"):
        cosignature_in(lines + WITNESS.line("x\n", AT), TEXT, KEY)


@pytest.mark.parametrize("part", [5, 11, 13, 40, 75])
def test_each_octet_of_a_cosignature_counts(part: int) -> None:
    start, _, encoded = WITNESS.line(TEXT, AT).rstrip("\n").rpartition(" ")
    octets = bytearray(base64.b64decode(encoded))
    octets[part] ^= 1
    with pytest.raises(BadCheckpoint):
        cosignature_in(f"{start} {base64.b64encode(octets).decode()}\n", TEXT, KEY)
    shorter = base64.b64encode(octets[:part]).decode()
    with pytest.raises(BadCheckpoint):
        cosignature_in(f"{start} {shorter}\n", TEXT, KEY)


def test_a_log_signature_by_the_same_key_is_no_cosignature() -> None:
    signed = WITNESS.key.sign(TEXT.encode())
    line = f"\u2014 {WITNESS.name} {base64.b64encode(KEY.key_id + signed).decode()}\n"
    with pytest.raises(BadCheckpoint):
        cosignature_in(line, TEXT, KEY)


def test_a_request_has_the_form_of_the_specification() -> None:
    proof = [b"\x01" * 32, b"\x02" * 32]
    ones, twos = (base64.b64encode(one).decode() for one in proof)
    assert add_checkpoint(3, proof, NOTE) == f"old 3\n{ones}\n{twos}\n\n{NOTE}".encode()
    assert add_checkpoint(0, (), NOTE) == f"old 0\n\n{NOTE}".encode()


def test_a_size_is_a_number_and_a_line_break() -> None:
    assert [size_in(body) for body in (b"0\n", b"41\n", b"9000000000000000000\n")] == [
        0, 41, 9_000_000_000_000_000_000,
    ]  # fmt: skip
    for body in (b"", b"4", b"04\n", b"+4\n", b" 4\n", b"4\n\n", b"4\r\n", b"\xd9\xa4\n", b"1e3\n"):
        assert size_in(body) is None


def test_the_largest_checkpoint_that_each_has_cosigned_is_what_it_saw() -> None:
    second = Witness("witness.example/w2", seed=9)
    seen = Sightings([KEY, WitnessKey.parse(second.vkey)])
    for note in (with_line(9), with_line(12, AT + 1), with_line(3, AT + 2), NOTE):
        seen.take(open_checkpoint(note, LOG.verifier))
    assert seen.found == (Witnessed(name=WITNESS.name, time=AT + 1, size=12),)
    assert seen.missing == "no checkpoint here is cosigned by witness.example/w2"
    with pytest.raises(BadCheckpoint, match=r"witness\.example/w1 does not match"):
        seen.take(open_checkpoint(NOTE + WITNESS.line("x\n", AT), LOG.verifier))
