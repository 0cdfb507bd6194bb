"""What a local server is: the command that starts it, and what of this machine it may see."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from gateway.domain._value import value
from gateway.upstream.reach import Destination

SYSTEM: Final = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")))
"""What every jail shows: the system's programs and libraries, which hold no secrets."""

_SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:[ \t]+(?:-S\s+)?([^\s=]+))?")
_SHEBANG_BYTES: Final = 256  # as much of it as the kernel reads
_HOME: Final = re.compile(r"home\s*=(.*)")
_HOPS: Final = 16
"""Links and interpreters behind one program; more is a loop."""


@value
class Launch:
    """A command, ready to be started."""

    argv: tuple[str, ...]
    """The program first, as an absolute path."""
    folder: Path
    """Where it starts; relative paths in its arguments begin here."""
    jailed: bool = True
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside `PATH`, `LANG` and, in a jail, `HOME`; of our own environment it gets nothing."""
    references: tuple[tuple[str, str], ...] = ()
    """Where each variable's value comes from, by name: `("TOKEN", "env:GIT_TOKEN")`."""
    read: tuple[Path, ...] = ()
    """Files and folders that the jail shows."""
    write: tuple[Path, ...] = ()
    """Those that it may also change."""
    reach: tuple[Destination, ...] = ()
    """Where a jailed one gets through a proxy of ours; without any it has no network at all."""

    @property
    def identity(self) -> str:
        """Which server this is, for its pins: another command, or another jail, is another one.

        What the program's files hold is no part of it; whoever can exchange them is trusted.
        """
        spec = {
            "argv": self.argv,
            "folder": str(self.folder),
            "jailed": self.jailed,
            "environment": sorted(self.references),
            "read": sorted(map(str, self.read)),
            "write": sorted(map(str, self.write)),
        }
        if self.reach:
            spec["reach"] = sorted(map(str, self.reach))
        text = json.dumps(spec, sort_keys=True, ensure_ascii=False)
        return f"command:sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"


def find_program(name: str, folder: Path, path: str) -> Path:
    """Return the absolute path of a command's first word, found as a shell in `folder` finds it.

    Raises:
        ValueError: There is no such program.

    """
    found = shutil.which(Path(folder, name)) if "/" in name else shutil.which(name, path=path)
    if found is None:
        raise ValueError(f"there is no program `{name}`; install it, or write its whole path")
    return Path(found).absolute()


def search_path(program: Path) -> str:
    """Return the `PATH` of a program: where it and its interpreters are, and the system's."""
    own = (str(step.parent) for step in _steps(program))
    return ":".join(dict.fromkeys((*own, *_SYSTEM_PATH)))


def own_files(program: Path) -> tuple[Path, ...]:
    """Return what `program` needs of this machine beyond the system: no folder of anybody's data.

    That is the program's own file and those it stands for; its interpreter; a virtual environment
    and its Python's libraries; a `node_modules` folder.
    """
    return tuple(path for path in all_files(program) if not in_system(path))


def all_files(program: Path) -> tuple[Path, ...]:
    """Return what `program` needs of this machine, the system's among it."""
    return tuple(sorted({path for step in _steps(program) for path in _around(step)}))


def _steps(program: Path) -> Iterator[Path]:
    """Yield `program`, what it links to, and the interpreters behind it."""
    waiting = [program]
    seen: list[Path] = []
    while waiting and len(seen) < _HOPS:
        step = waiting.pop()
        if step in seen:
            continue
        seen.append(step)
        yield step
        if step.is_symlink():
            waiting.append(Path(os.path.normpath(step.parent / step.readlink())))
        elif (interpreter := _interpreter(step)) is not None:
            waiting.append(interpreter)
        if (real := step.resolve()) != step:
            waiting.append(real)


def _interpreter(script: Path) -> Path | None:
    try:
        with script.open("rb") as file:
            found = _SHEBANG.match(file.read(_SHEBANG_BYTES))
    except OSError:
        return None
    if found is None:
        return None
    path = Path(found[1].decode(errors="surrogateescape"))
    if path.name == "env" and found[2]:
        named = shutil.which(found[2].decode(errors="surrogateescape"))
        return None if named is None else Path(named)
    return path


def _around(step: Path) -> Iterator[Path]:
    """Yield what has to be there for `step` to run."""
    prefix = step.parent.parent
    if (prefix / "pyvenv.cfg").is_file():
        yield prefix
        yield from _base_libraries(prefix / "pyvenv.cfg")
    elif "node_modules" in step.parts:
        outermost = step.parts.index("node_modules")
        yield Path(*step.parts[: outermost + 1])
    else:
        yield step
        if step.name.startswith("python"):
            yield from _libraries(prefix)


def _base_libraries(settings: Path) -> Iterator[Path]:
    for line in settings.read_text(errors="replace").splitlines():
        if (found := _HOME.fullmatch(line)) and (home := found[1].strip()):
            yield from _libraries(Path(home).parent)


def _libraries(prefix: Path) -> Iterator[Path]:
    if any((prefix / "lib").glob("python3*")):
        yield prefix / "lib"


def in_system(path: Path) -> bool:
    """Whether `path` lies in what every jail shows."""
    return any(path.is_relative_to(root) for root in SYSTEM)
