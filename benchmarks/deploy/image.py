"""The image of deploy/Containerfile, on a base that debootstrap makes where no other is to be had."""

import configparser
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.deploy.engine import Engine
from gateway.policy import toolchain

BASE = "localhost/python:3.11-bookworm"
IMAGE = "localhost/douane:local"
_PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_LONG_S = 1800


def base(engine: Engine) -> dict[str, Any]:
    """Make Debian 12 with Python 3.11 in the official image's place."""
    folder = engine.folder / "base"
    if not engine.podman("images", "-q", BASE):
        shutil.rmtree(folder, ignore_errors=True)
        words = ("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm")
        engine.run(*words, str(folder), within_s=_LONG_S)
        archive = engine.folder / "base.tar"
        engine.run("tar", "-C", str(folder), "--exclude=./var/cache/apt", "-cf", str(archive), ".")
        engine.podman("import", str(archive), BASE)
        archive.unlink()
        shutil.rmtree(folder)
    return {"python": engine.podman("run", "--rm", BASE, "python", "--version")}


def build(engine: Engine) -> dict[str, Any]:
    """Build it; packages come from where this machine's pip takes them."""
    text, folders = pip_settings(_said_by_pip())
    settings = engine.folder / "pip.conf"
    settings.write_text(text)
    cache = engine.folder / "cache"
    cache.mkdir(exist_ok=True)
    for stored in toolchain.cache_folder().glob("opa_*"):
        shutil.copy2(stored, cache)  # looked at by its digest in there, as anywhere
    shown = [f"{settings}:/etc/pip.conf:ro", f"{cache}:/root/.cache/douane"]
    shown += [f"{path}:{path}:ro" for path in (*folders, str(_AUTHORITIES)) if Path(path).exists()]
    mounts = [word for each in shown for word in ("-v", each)]
    engine.build("deploy/Containerfile", IMAGE, "--build-arg", f"PYTHON={BASE}", *mounts)
    found = engine.podman("inspect", "-f", "{{.Digest}} {{.Size}}", IMAGE).split()
    return {"digest": found[0], "bytes": int(found[1])}


def pip_settings(lines: Iterable[str]) -> tuple[str, list[str]]:
    """Return pip's settings as a file of its own, and the folders of this machine that they name.

    `lines` are those of `pip config list`: NAME.KEY='TEXT', from files and from the environment.
    Constraints are a file of this machine, and nothing to whatever is locked by its hash.
    """
    written = configparser.RawConfigParser()
    written.add_section("global")
    for line in lines:
        found = re.fullmatch(r"(?::env:|global)\.([a-z-]+)='(.*)'", line.strip())
        if found and found[1] != "constraint":
            written["global"][found[1]] = found[2].replace("\\n", " ").strip()
    file = io.StringIO()
    written.write(file)
    named = (
        f"{written['global'].get('find-links', '')} {written['global'].get('extra-index-url', '')}"
    )
    paths = [word.removeprefix("file://") for word in named.split()]
    roots = [re.sub(r"/simple/?$", "", path) for path in paths if path.startswith("/")]
    return file.getvalue(), sorted(set(roots))


def _said_by_pip() -> list[str]:
    words = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
