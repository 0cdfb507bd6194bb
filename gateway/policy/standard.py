"""The standard a folder of Rego is held to: formatted, strictly typed, tested, all of it covered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.policy.bundle import POLICY_FOLDER, laid_out, type_problems
from gateway.policy.opa import Opa
from gateway.policy.schema import input_schema
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources, read_sources

_SCHEMA = "input.schema.json"
_ALL_OF_IT = {"not_covered": [{"start": {"row": 1}}]}


@value
class RuleTest:
    """How one test of a policy ended."""

    name: str
    """`data.douane_test.test_a_reader_may_read`."""
    where: str
    """`file:line`."""
    passed: bool


def schema_text() -> str:
    """Return the text of the `input.schema.json` that is shipped beside the policies."""
    return json.dumps(input_schema(), indent=2) + "\n"


def shortcomings(opa: Opa, folder: Path) -> list[str]:
    """Return what a folder of Rego lacks to meet the standard, one line each.

    Raises:
        ConfigError: It cannot be judged at all.

    """
    sources = read_sources(PolicySettings(path=str(folder)), opa)
    found = [f"{name}: not formatted (opa fmt)" for name in _unformatted(opa, folder)]
    shipped = folder / _SCHEMA
    if shipped.exists() and shipped.read_text(encoding="utf-8") != schema_text():
        found.append(f"{_SCHEMA}: not the one that the gateway generates")
    with laid_out(sources, tests=True) as staged:
        found += type_problems(opa, staged)
        return found or _failed(opa, staged) or list(_uncovered(opa, staged, sources))


def run_tests(opa: Opa, sources: Sources) -> tuple[RuleTest, ...]:
    """Run every `test_` rule of a policy.

    Raises:
        ConfigError: OPA cannot run them.

    """
    with laid_out(sources, tests=True) as staged:
        return tuple(_test(opa, staged))


def _unformatted(opa: Opa, folder: Path) -> Iterator[str]:
    for line in opa.run("fmt", "--list", ".", cwd=folder).lines:
        yield line.removeprefix("./")


def _failed(opa: Opa, staged: Path) -> list[str]:
    return [f"{test.where}: {test.name} fails" for test in _test(opa, staged) if not test.passed]


def _test(opa: Opa, staged: Path) -> list[RuleTest]:
    tests = _json(opa, staged, "test", "--format", "json", "-b", POLICY_FOLDER)
    return [
        RuleTest(
            name=f"{test['package']}.{test['name']}",
            where=f"{_short(test['location']['file'])}:{test['location']['row']}",
            passed=not (test.get("fail") or test.get("error") or test.get("skip")),
        )
        for test in tests or []
    ]


def _uncovered(opa: Opa, staged: Path, sources: Sources) -> Iterator[str]:
    report = _json(opa, staged, "test", "--coverage", "--format", "json", "-b", POLICY_FOLDER)
    reached = {_short(path): file for path, file in report.get("files", {}).items()}
    for path in sources.rego:
        spans = reached.get(path, _ALL_OF_IT).get("not_covered", [])
        for row in sorted({span["start"]["row"] for span in spans}):
            yield f"{path}:{row}: no test reaches this"


def _json(opa: Opa, staged: Path, *arguments: str) -> Any:
    ran = opa.run(*arguments, cwd=staged)
    try:
        return orjson.loads(ran.out)
    except orjson.JSONDecodeError as error:
        raise ConfigError("OPA could not run the tests", problems=ran.lines) from error


def _short(path: str) -> str:
    # `opa test` puts the name of the bundle's folder before paths that begin with it already.
    while path.startswith(f"{POLICY_FOLDER}/"):
        path = path.removeprefix(f"{POLICY_FOLDER}/")
    return path
