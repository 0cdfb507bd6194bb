"""The bill of materials says exactly what the lock file and the toolchain say."""

import json
import re
from pathlib import Path

import pytest

from deploy.sbom import bom, locked
from gateway.policy import toolchain

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.txt").read_text()

TWO = f"""\
# made by a tool
Alpha_One==1.2.0 ; sys_platform != "win32" \\
    --hash=sha256:{"b" * 64} \\
    --hash=sha256:{"a" * 64}
    # via beta
beta==3 \\
    --hash=sha256:{"c" * 64}
"""


def test_each_requirement_is_read_with_its_version_and_hashes() -> None:
    assert list(locked(TWO)) == [
        ("Alpha_One", "1.2.0", ["a" * 64, "b" * 64]),
        ("beta", "3", ["c" * 64]),
    ]


@pytest.mark.parametrize("line", ["alpha==1.0", "alpha>=1.0 --hash=sha256:" + "a" * 64])
def test_a_requirement_that_is_not_locked_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not locked"):
        list(locked(TWO + line + "\n"))


def test_a_library_becomes_a_component() -> None:
    found = {part["name"]: part for part in bom(TWO, "0.1.0")["components"]}
    assert found["alpha-one"] == {
        "type": "library",
        "bom-ref": "pkg:pypi/alpha-one@1.2.0",
        "name": "alpha-one",
        "version": "1.2.0",
        "purl": "pkg:pypi/alpha-one@1.2.0",
        "properties": [
            {"name": "douane:locked:sha256", "value": "a" * 64},
            {"name": "douane:locked:sha256", "value": "b" * 64},
        ],
    }


def test_every_pinned_build_of_opa_is_a_component_with_its_digest() -> None:
    parts = [part for part in bom(TWO, "0.1.0")["components"] if part["name"] == "opa"]
    digests = {part["hashes"][0]["content"] for part in parts}
    assert digests == {build.sha256 for build in toolchain.BUILDS.values()}
    assert {part["version"] for part in parts} == {".".join(map(str, toolchain.VERSION))}


def test_the_real_lock_file_is_taken_whole() -> None:
    named = {
        line.split("==")[0] for line in LOCK.splitlines() if "==" in line and line[0].isalnum()
    }
    parts = bom(LOCK, "0.1.0")["components"]
    libraries = {part["name"] for part in parts if part["type"] == "library"}
    assert libraries == {re.sub(r"[-_.]+", "-", name).lower() for name in named}


def test_equal_input_is_the_same_bill_and_other_input_is_another() -> None:
    first, again = (json.dumps(bom(LOCK, "0.1.0")) for _ in range(2))
    assert first == again
    assert bom(LOCK, "0.1.0")["serialNumber"] != bom(LOCK, "0.1.1")["serialNumber"]
    assert bom(TWO, "0.1.0")["serialNumber"] != bom(LOCK, "0.1.0")["serialNumber"]


def test_the_product_depends_on_every_part_by_its_reference() -> None:
    bill = bom(TWO, "0.1.0")
    assert bill["specVersion"] == "1.6"
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    product = bill["metadata"]["component"]["bom-ref"]
    references = [part["bom-ref"] for part in bill["components"]]
    assert len(set(references)) == len(references)
    assert bill["dependencies"] == [{"ref": product, "dependsOn": references}]
