"""Running the tests of a policy, and what follows: an operator's own judge it, shipped ones remark.

A shipped test says what the shipped rules do. Where a rule of an operator's changes that, it does what
it is for; so that is told, and never in the way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.policy import lint
from gateway.policy.lint import Module
from gateway.policy.opa import WALL_SECONDS, Opa
from gateway.policy.shipped import is_shipped
from gateway.policy.sources import POLICY_FOLDER, Sources


@value
class RuleTest:
    """How one test of a policy ended."""

    name: str
    """`data.douane_test.test_a_reader_may_read`."""
    where: str
    """`file:line`."""
    passed: bool
    shipped: bool = False
    """Whether its file is a shipped one: then it judges the shipped rules and no others."""

    @property
    def is_planned(self) -> bool:
        """Whether OPA leaves it out, because its name says that it is yet to be written."""
        return self.name.rpartition(".")[2].startswith("todo_")


@value
class Judged:
    """What the tests of a policy say of it."""

    failures: tuple[str, ...] = ()
    """An operator's own tests that fail."""
    notices: tuple[str, ...] = ()
    """Which rules change what shipped tests say."""


def run_all(opa: Opa, staged: Path, sources: Sources) -> list[RuleTest]:
    """Run every `test_` rule of `sources`, which are laid out in `staged`.

    Raises:
        ConfigError: OPA cannot run them.

    """
    tests = opa_test(opa, staged)
    ordered = sorted(tests or [], key=lambda one: (one["location"]["file"], one["location"]["row"]))
    return [_ended(test, sources) for test in ordered]


def judge(opa: Opa, staged: Path, sources: Sources, modules: Sequence[Module]) -> Judged:
    """Have the tests of `sources` judge its rules, whose `modules` were parsed.

    Raises:
        ConfigError: OPA cannot run them.

    """
    tests = run_all(opa, staged, sources)
    failed = [test for test in tests if not test.passed and not test.is_planned]
    return Judged(
        failures=tuple(f"{one.where}: {one.name} fails" for one in failed if not one.shipped),
        notices=notices(opa, staged, sources, modules, failed),
    )


def notices(
    opa: Opa,
    staged: Path,
    sources: Sources,
    modules: Sequence[Module],
    tests: Iterable[RuleTest],
) -> tuple[str, ...]:
    """Return which rules of an operator's change what shipped ones of `tests` say."""
    changed = [test for test in tests if test.shipped and not test.passed]
    if not changed:
        return ()
    first, more = changed[0], len(changed) - 1
    said = f"{first.where}: {first.name}" + (f", and {more} more" if more else "")
    held = _own_rules_that_hold(opa, staged, sources, modules, changed)
    names = [f"{where}: {name}" for name, where in held] or _own_files(sources)
    return tuple(
        f"{name} changes what a shipped test says of the shipped rules ({said})" for name in names
    )


def _ended(test: Mapping[str, Any], sources: Sources) -> RuleTest:
    file = short(test["location"]["file"])
    return RuleTest(
        name=f"{test['package']}.{test['name']}",
        where=f"{file}:{test['location']['row']}",
        passed=not (test.get("fail") or test.get("error") or test.get("skip")),
        shipped=is_shipped(sources.files.get(file, b"")),
    )


def _own_rules_that_hold(
    opa: Opa,
    staged: Path,
    sources: Sources,
    modules: Sequence[Module],
    tests: Sequence[RuleTest],
) -> list[tuple[str, str]]:
    """Return the own rules, by name and `file:line`, that hold while `tests` are evaluated.

    Those that add to a rule of the shipped ones, if any does: the others are what they are made of.
    """
    reached = _reached(opa, staged, tests)
    own = [one for one in modules if not is_shipped(sources.files[one.path])]
    known = {name for one in modules if one not in own for name, _ in lint.heads(one)}
    held = [
        (".".join(name), f"{module.path}:{row}")
        for module in own
        for name, row in lint.heads(module)
        if row in reached.get(module.path, ())
    ]
    adding = [pair for pair in held if tuple(pair[0].split(".")) in known]
    return list(dict.fromkeys(adding or held))


def _reached(opa: Opa, staged: Path, tests: Iterable[RuleTest]) -> dict[str, set[int]]:
    """Return the lines on which something held when `tests` were evaluated; none, if they break."""
    query = "; ".join(f"_ = [1 | {test.name}]" for test in tests)
    ran = opa.run(
        "eval",
        "-b",
        POLICY_FOLDER,
        "--coverage",
        "--format",
        "json",
        "--stdin",
        cwd=staged,
        stdin=query,
    )
    try:
        found = orjson.loads(ran.out).get("coverage", {}).get("files", {})
    except orjson.JSONDecodeError:
        return {}
    return {short(path): set(_rows(file.get("covered", ()))) for path, file in found.items()}


def _rows(spans: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    for span in spans:
        yield from range(span["start"]["row"], span["end"]["row"] + 1)


def _own_files(sources: Sources) -> list[str]:
    own = [path for path in sources.rego if not is_shipped(sources.files[path])]
    return own or ["other data, or a file that is missing,"]


def opa_test(opa: Opa, staged: Path, *how: str) -> Any:
    """Return what `opa test` tells of the policy in `staged`.

    OPA gives each test five seconds by default, which is too few where a machine is slow: one has all the
    time that OPA has.

    Raises:
        ConfigError: OPA cannot run them.

    """
    longest = ("--timeout", f"{WALL_SECONDS:.0f}s")
    return read_json(opa, staged, "test", *how, *longest, "--format", "json", "-b", POLICY_FOLDER)


def read_json(opa: Opa, staged: Path, *arguments: str) -> Any:
    """Return what OPA prints as JSON.

    Raises:
        ConfigError: It prints something else.

    """
    ran = opa.run(*arguments, cwd=staged)
    try:
        return orjson.loads(ran.out)
    except orjson.JSONDecodeError as error:
        raise ConfigError("OPA could not run the tests", problems=ran.lines) from error


def short(path: str) -> str:
    """Return `path` without the folder that policies are laid out in."""
    # `opa test` puts the name of the bundle's folder before paths that begin with it already.
    while path.startswith(f"{POLICY_FOLDER}/"):
        path = path.removeprefix(f"{POLICY_FOLDER}/")
    return path
