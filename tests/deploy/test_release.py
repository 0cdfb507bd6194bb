"""What a release says of its files is what its key signed, and verifies without us."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deploy.provenance import envelope, public_pem, signing_key, statement
from deploy.release import requirements, unlike
from deploy.sbom import bom, debian, locked
from tests.servers.process import ROOT

VERIFIER = ROOT / "docs" / "verify_release.py"
LOCK = (ROOT / "requirements.txt").read_text()
CONTENT = b"a wheel"


def stated(subject: bytes = CONTENT) -> dict[str, object]:
    return statement(
        {"douane.whl": sha256(subject).hexdigest()},
        commit="c" * 40,
        materials={"requirements.txt": "d" * 64},
        parameters={"python": "3.11.2"},
    )


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Return a folder with a file, its signed provenance and the public key."""
    key = Ed25519PrivateKey.generate()
    (tmp_path / "douane.whl").write_bytes(CONTENT)
    (tmp_path / "intoto.json").write_text(json.dumps(envelope(stated(), key)))
    (tmp_path / "release.pub").write_bytes(public_pem(key.public_key()))
    return tmp_path


def verified(folder: Path) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, str(VERIFIER), "intoto.json", "--key", "release.pub", "douane.whl"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_what_was_signed_verifies_and_tells_its_commit(released: Path) -> None:
    done = verified(released)
    assert done.stdout == f"ok: 1 files, made of commit {'c' * 40}\n"
    assert done.returncode == 0


def test_another_file_of_the_same_name_is_found(released: Path) -> None:
    (released / "douane.whl").write_bytes(b"another wheel")
    done = verified(released)
    assert (done.returncode, done.stderr) == (1, "WRONG: douane.whl: not what was signed\n")


def test_another_ones_signature_is_found(released: Path) -> None:
    another = Ed25519PrivateKey.generate()
    (released / "intoto.json").write_text(json.dumps(envelope(stated(), another)))
    done = verified(released)
    assert (done.returncode, done.stderr) == (1, "WRONG: not signed with this key\n")


def test_a_statement_that_was_exchanged_under_its_signature_is_found(released: Path) -> None:
    (released / "douane.whl").write_bytes(b"another wheel")
    signed = json.loads((released / "intoto.json").read_text())
    mine = envelope(stated(b"another wheel"), Ed25519PrivateKey.generate())
    (released / "intoto.json").write_text(json.dumps(signed | {"payload": mine["payload"]}))
    assert verified(released).returncode == 1


def test_equal_files_are_stated_equally() -> None:
    assert json.dumps(stated()) == json.dumps(stated())
    assert json.dumps(stated()) != json.dumps(stated(b"another wheel"))


def test_a_key_of_another_kind_signs_no_release() -> None:
    written = generate_ec(SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(ValueError, match="Ed25519"):
        signing_key(written)


def test_a_wheel_is_installed_with_all_it_needs_by_hash() -> None:
    text = requirements("douane-1.whl", "a" * 64, LOCK)
    assert text.splitlines()[0] == f"./douane-1.whl --hash=sha256:{'a' * 64}"
    assert list(locked(text.partition("\n")[2])) == list(locked(LOCK))


def test_packages_of_an_image_are_components() -> None:
    said = "libc6:amd64\t2.36-9+deb12u13\tamd64\nbubblewrap\t0.8.0-2\tamd64\n"
    parts = {part["name"]: part["purl"] for part in bom(LOCK, "1", debian(said))["components"]}
    assert parts["libc6"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64"
    assert parts["bubblewrap"] == "pkg:deb/debian/bubblewrap@0.8.0-2?arch=amd64"


def test_an_image_of_another_commit_is_none_of_the_release() -> None:
    record = "gateway/a.py,sha256=x,1\ngateway/b.py,sha256=y,2\ndouane.dist-info/RECORD,,\n"
    installed = record + "../../../bin/douane,sha256=z,3\n"
    assert unlike(record, installed) == []
    assert unlike(record, installed.replace("=y", "=changed")) == ["gateway/b.py"]
    assert unlike(record, "") == ["gateway/a.py", "gateway/b.py"]
