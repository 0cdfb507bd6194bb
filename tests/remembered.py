"""What OPA and the WebAssembly compiler said of the same bytes before, for one run of the tests.

Two hundred gateways are started in a run, most with the shipped policies: to check, test and compile
them takes two seconds of a processor, and comes out alike. What is remembered is what the pinned
binary answered to the same arguments in a folder with the same files, if it had no complaint or told
of tests how each ended; whatever else is asked is asked of it anew. It lasts as long as the run, in a folder that `KEPT_IN` names.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wasmtime

from gateway.policy import toolchain
from gateway.policy.opa import Opa, Ran

KEPT_IN = "DOUANE_TESTS_REMEMBERED"
_PURE = frozenset({"parse", "check", "test", "build"})
"""What OPA does with the files of a folder and nothing else; in ours nothing reaches out of it."""
_LAID_OUT = "douane-policy-"

_run = Opa.run
_compiling = wasmtime.Config.__init__


def begin() -> None:
    """Remember from now on in this process, and in those that are told `KEPT_IN`."""
    Opa.run = _remembering(_run)  # type: ignore[method-assign]
    wasmtime.Config.__init__ = _cached(_compiling)  # type: ignore[method-assign]
    toolchain._sha256 = functools.cache(toolchain._sha256)


def _remembering(run: Callable[..., Ran]) -> Callable[..., Ran]:
    @functools.wraps(run)
    def remembered(opa: Opa, *arguments: str, cwd: Path | None = None, stdin: str = "") -> Ran:
        folder = os.environ.get(KEPT_IN)
        if folder is None or cwd is None or not _is_pure(opa, arguments, cwd):
            return run(opa, *arguments, cwd=cwd, stdin=stdin)
        before = dict(_files(cwd))
        # Of all files `parse` reads the one that it names, and one that is shipped is in most policies.
        read = {arguments[-1]: before[arguments[-1]]} if arguments[0] == "parse" else before
        kept = Path(folder) / _key(arguments, stdin, read)
        with _asked_once(kept):
            if kept.exists():
                ran, made = pickle.loads(kept.read_bytes())
                for path, content in made.items():
                    (cwd / path).write_bytes(content)
                return Ran(**ran)
            answer = run(opa, *arguments, cwd=cwd, stdin=stdin)
            if answer.ok or _tells_of_tests(arguments, answer):
                made = {
                    path: content for path, content in _files(cwd) if before.get(path) != content
                }
                _keep(kept, ({"ok": answer.ok, "out": answer.out, "err": answer.err}, made))
            return answer

    return remembered


@contextlib.contextmanager
def _asked_once(kept: Path) -> Iterator[None]:
    """Let whoever asks the same at the same time wait: at the start of a run all workers do."""
    with kept.with_suffix(".asked").open("wb") as asked:
        fcntl.flock(asked, fcntl.LOCK_EX)
        yield


def _is_pure(opa: Opa, arguments: tuple[str, ...], cwd: Path) -> bool:
    return (
        arguments[0] in _PURE
        and cwd.name.startswith(_LAID_OUT)
        and opa.binary.parent == toolchain.cache_folder()
        and not any(one.startswith(("/", "..")) for one in arguments)
    )


def _tells_of_tests(arguments: tuple[str, ...], answer: Ran) -> bool:
    """Whether it is all that was to be said, although some of them fail."""
    if arguments[0] != "test" or "json" not in arguments:
        return False
    try:
        return isinstance(json.loads(answer.out), list)
    except json.JSONDecodeError:
        return False


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def _key(arguments: tuple[str, ...], stdin: str, files: dict[str, bytes]) -> str:
    told = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return hashlib.sha256(json.dumps([arguments, stdin, told]).encode()).hexdigest()


def _keep(kept: Path, what: Any) -> None:
    """Write it so that whoever finds the file finds all of it."""
    handle, name = tempfile.mkstemp(dir=kept.parent, prefix="new-")
    with os.fdopen(handle, "wb") as file:
        pickle.dump(what, file)
    Path(name).replace(kept)


def _cached(begin_config: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(begin_config)
    def cached(config: wasmtime.Config) -> None:
        begin_config(config)
        if folder := os.environ.get(KEPT_IN):
            config.cache = _cache_of(folder)

    return cached


@functools.cache
def _cache_of(folder: str) -> str:
    handle, name = tempfile.mkstemp(dir=folder, prefix="cache-", suffix=".toml")
    with os.fdopen(handle, "w") as file:
        file.write(f'[cache]\ndirectory = "{folder}/modules"\n')
    return name
