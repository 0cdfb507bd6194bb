"""The attacks of the end-to-end tests, carried by the gateway and by a plane that asks it."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.report import ROOT

_FILES = ("data_flow", "response", "parser", "session")
_BY_PLANE, _BY_GATEWAY = "[plane", "[gateway"


def played() -> tuple[Mapping[str, float], Sequence[str]]:
    """Return how many attacks were carried each way, and which of them did not end as they must."""
    tests = [f"tests/e2e/test_{name}_attacks.py" for name in _FILES]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.xml"
        words = ["-q", "-n", "2", "-k", "plane or gateway", f"--junitxml={found}", *tests]
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False)
        cases = list(ET.parse(found).getroot().iter("testcase"))
    names = {str(case.get("name")): _failed(case) for case in cases}
    figures = {
        f"attacks.by_{way}": sum(1 for name in names if mark in name)
        for way, mark in (("plane", _BY_PLANE), ("gateway", _BY_GATEWAY))
    }
    failures = [f"attack {name}" for name, failed in names.items() if failed]
    return {**figures, "attacks.unlike": len(failures)}, failures


def _failed(case: ET.Element) -> bool:
    return any(case.find(kind) is not None for kind in ("failure", "error"))
