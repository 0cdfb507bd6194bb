"""The wheel alone, without a checkout: all that `init`, `check` and `serve` need is in it."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from deploy.release import wheel
from tests.servers.process import ROOT


def ran(*words: str | Path, folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(folder: Path, built: Path) -> Path:
    """Install it as pip does, in an environment that shares our libraries and not our checkout."""
    ran(sys.executable, "-m", "venv", "--without-pip", "env", folder=folder)
    own = folder / "env" / "bin" / "python"
    where = ("--python", own, "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    ran(sys.executable, "-m", "pip", *where, built, folder=folder)
    (site,) = folder.glob("env/lib/python*/site-packages")
    (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return own.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("dist"))


@pytest.mark.full
def test_a_wheel_needs_no_checkout(built: Path, tmp_path: Path) -> None:
    listed = ran("git", "ls-files", "gateway", "policies", folder=ROOT).splitlines()
    packed = {name.replace("policies/", "gateway/_policies/", 1) for name in listed if name}
    assert packed <= set(zipfile.ZipFile(built).namelist())

    programs = installed(tmp_path, built)
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    ran(programs / "douane", "init", folder=outside)
    tests = list((outside / "policies").glob("*_test.rego"))
    assert {test.name for test in tests} == {
        file.name for file in ROOT.glob("policies/*_test.rego")
    }
    for test in tests:  # half of what a check takes; that they pass is held elsewhere
        test.unlink()
    said = ran(programs / "douane", "check", "--offline", folder=outside)
    assert "nothing is wrong" in said
    where = ran(
        programs / "python", "-c", "import gateway; print(gateway.__file__)", folder=outside
    )
    assert Path(where.strip()).is_relative_to(tmp_path)
    toolchain = (programs / "python", "-m", "gateway.policy.toolchain")
    assert Path(ran(*toolchain, folder=outside).strip()).is_file()


def test_equal_files_make_an_equal_wheel(built: Path, tmp_path: Path) -> None:
    assert wheel(tmp_path).read_bytes() == built.read_bytes()
