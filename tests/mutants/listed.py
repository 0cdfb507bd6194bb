"""The guards of the gateway, and the edit that removes each: what `tests/mutants/*.toml` says."""

import functools
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
ROOMS = Path(__file__).parent
"""One file for each folder of guards: `oauth_grants.toml` for those of `gateway/oauth/grants`."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One guard, and the edit that removes it."""

    guard: str
    file: str
    before: str
    """Stands in the file exactly once."""
    after: str
    tests: list[str]
    """The cheapest that must go red."""
    invariant: int = 0
    """Of docs/architecture.md; 0 for a guard that belongs to none of the six."""


def rooms() -> dict[str, list[Mutant]]:
    """Read the lists, each under the name of its file."""
    return {path.stem: _read(path) for path in sorted(ROOMS.glob("*.toml"))}


@functools.cache
def load() -> list[Mutant]:
    """Read all the lists as one."""
    return [mutant for mutants in rooms().values() for mutant in mutants]


def room_of(file: str) -> str:
    """Return the name of the list in which the guards of `file` stand."""
    folders = PurePosixPath(file).parent.parts
    return "_".join(folders[1:] or folders)


def misfits(mutants: Iterable[Mutant]) -> list[str]:
    """Return what no longer fits the code: text that does not stand there exactly once."""
    wrong = []
    for mutant in mutants:
        count = (ROOT / mutant.file).read_text().count(mutant.before)
        if count != 1:
            wrong.append(f"{mutant.guard}: stands {count} times in {mutant.file}: {mutant.before}")
    return wrong


def _read(path: Path) -> list[Mutant]:
    with path.open("rb") as file:
        return [Mutant(**entry) for entry in tomllib.load(file)["mutant"]]
