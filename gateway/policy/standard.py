"""The standard a folder of Rego is held to: formatted, strictly typed, tested, all of it covered."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.errors import ConfigError
from gateway.policy.bundle import laid_out, parsed, type_problems
from gateway.policy.opa import Opa
from gateway.policy.schema import input_schema
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources, read_sources
from gateway.policy.testing import RuleTest, notices, opa_test, run_all, short
from gateway.policy.toolchain import find_opa

_SCHEMA = "input.schema.json"
_ALL_OF_IT = {"not_covered": [{"start": {"row": 1}}]}


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
        return found or _failed(opa, staged, sources) or list(_uncovered(opa, staged, sources))


def run_tests(opa: Opa, sources: Sources) -> tuple[RuleTest, ...]:
    """Run every `test_` rule of a policy.

    Raises:
        ConfigError: OPA cannot run them.

    """
    with laid_out(sources, tests=True) as staged:
        return tuple(run_all(opa, staged, sources))


def changed(opa: Opa, sources: Sources, tests: Sequence[RuleTest]) -> tuple[str, ...]:
    """Return which rules of an operator's change what shipped ones of `tests` said of `sources`."""
    with laid_out(sources, tests=True) as staged:
        modules = [parsed(opa, staged, path) for path in sources.rego]
        return notices(opa, staged, sources, modules, tests)


def _unformatted(opa: Opa, folder: Path) -> Iterator[str]:
    for line in opa.run("fmt", "--list", ".", cwd=folder).lines:
        yield line.removeprefix("./")


def _failed(opa: Opa, staged: Path, sources: Sources) -> list[str]:
    tests = run_all(opa, staged, sources)
    return [f"{test.where}: {test.name} fails" for test in tests if not test.passed]


def _uncovered(opa: Opa, staged: Path, sources: Sources) -> Iterator[str]:
    report = opa_test(opa, staged, "--coverage")
    reached = {short(path): file for path, file in report.get("files", {}).items()}
    for path in sources.rego:
        spans = reached.get(path, _ALL_OF_IT).get("not_covered", [])
        for row in sorted({span["start"]["row"] for span in spans}):
            yield f"{path}:{row}: no test reaches this"


def main(arguments: list[str]) -> int:
    """Hold a folder of Rego to the house's standard, and print what it lacks."""
    if len(arguments) != 1:
        print("usage: python -m gateway.policy.standard FOLDER", file=sys.stderr)  # noqa: T201
        return 2
    try:
        found = shortcomings(find_opa(), Path(arguments[0]))
    except ConfigError as error:
        found = [str(error)]
    for line in found:
        print(line, file=sys.stderr)  # noqa: T201 - this is a command
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
