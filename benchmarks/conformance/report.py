"""`make conformance-report`: the suite's totals at a server directly and through the gateway."""

import json
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from benchmarks.conformance.stage import SERVER, Stage, stage
from benchmarks.conformance.suite import REVISIONS, Revision, Score, run_suite
from benchmarks.report import ROOT, print_table, write_report
from tests.running import Running

FOLDER = ROOT / "var" / "conformance"
LIMITS = (
    "the suite asks nothing about tokens, pins, policy, provenance or audit",
    "the rules of flow observe: it reads a resource that nobody has named, and a person would be asked",
    "tasks-* is an extension, which the suite does not score: the fixture has tasks, by its own hand",
    "the suite cannot sign in: a proxy adds the token, and passes all else unchanged",
    "at /mcp names begin with the server's: there the proxy also puts that in front, and takes it away",
)
_EXPECTED = frozenset({"protocol_error", "unknown_tool"})
"""The suite sends malformed requests on purpose, and asks for tools that the fixture lacks."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One revision, judged twice."""

    revision: str
    direct: Score
    through: Score

    @property
    def figures(self) -> Mapping[str, float]:
        totals = {
            "direct_passed": self.direct.passed,
            "direct_failed": self.direct.failed,
            "gateway_passed": self.through.passed,
            "gateway_failed": self.through.failed,
            "scenarios": len(self.direct.scenarios),
            "scenarios_differing": len(self.direct.differing(self.through)),
        }
        return {f"{self.revision}.{name}": total for name, total in totals.items()}

    @property
    def failures(self) -> list[str]:
        """Say in which scenarios the gateway makes a difference, and whether it conforms."""
        differing = [
            f"{self.revision} {name}: {_words(self.direct, name)} directly, "
            f"{_words(self.through, name)} through the gateway"
            for name in self.direct.differing(self.through)
        ]
        if self.through.conforms:
            return differing
        return [*differing, f"{self.revision}: the suite does not pass through the gateway"]


@dataclass(frozen=True, kw_only=True)
class Front:
    """One revision, judged at the endpoint in front of all servers, where the fixture is the only one."""

    revision: str
    direct: Score
    front: Score

    @property
    def figures(self) -> Mapping[str, float]:
        totals = {"front_passed": self.front.passed, "front_failed": self.front.failed}
        return {f"{self.revision}.{name}": total for name, total in totals.items()}

    @property
    def failures(self) -> list[str]:
        """Say in which scenarios that endpoint makes a difference, and whether it conforms."""
        differing = [
            f"{self.revision} {name}: {_words(self.direct, name)} directly, "
            f"{_words(self.front, name)} in front of all servers"
            for name in self.direct.differing(self.front)
        ]
        if self.front.conforms:
            return differing
        return [*differing, f"{self.revision}: the suite does not pass in front of all servers"]


def judge_front(on: Stage, pair: Pair, revision: Revision, folder: Path) -> Front:
    """Run the suite once more, and keep what it writes in `folder`."""
    front = run_suite(on.front, revision.arguments, folder / "front")
    return Front(revision=revision.name, direct=pair.direct, front=front)


def judge(on: Stage, revision: Revision, folder: Path) -> Pair:
    """Run the suite twice, and keep what it writes in `folder`."""
    return Pair(
        revision=revision.name,
        direct=run_suite(on.direct, revision.arguments, folder / "direct"),
        through=run_suite(on.through, revision.arguments, folder / "gateway"),
    )


def measure() -> tuple[list[Pair], list[Front], Mapping[str, float], list[str]]:
    """Run everything; return the pairs, and what the gateway's own log says of it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    with stage(FOLDER) as on:
        pairs = [judge(on, revision, FOLDER / revision.name) for revision in REVISIONS]
        fronts = [
            judge_front(on, pair, revision, FOLDER / revision.name)
            for pair, revision in zip(pairs, REVISIONS, strict=True)
        ]
        figures, failures = proof_of_work(on.gateway)
    return pairs, fronts, figures, failures


def proof_of_work(gateway: Running) -> tuple[Mapping[str, float], list[str]]:
    """Return what the gateway did meanwhile, and what of it a good score does not excuse.

    A gateway that stands beside the path, or one that refuses what may pass, could score as well.
    """
    exported = gateway.douane("audit", "export", "--where", "kind = outcome")
    rows = [json.loads(line) for line in exported.stdout.splitlines()]
    refused = [row for row in rows if row["verdict"] != "allow"]
    failures = [
        f"the gateway refused {row['method']} {row.get('target', '')}: {row['code']}"
        for row in refused
        if row["code"] not in _EXPECTED
    ]
    if len(rows) == len(refused):
        failures.append("the audit log holds no call of the suite's")
    if not _wants_a_token(gateway):
        failures.append("the gateway answers without a token")
    if (proof := gateway.douane("audit", "verify")).returncode != 0:
        failures.append(f"the audit log does not verify: {proof.stderr or proof.stdout}")
    return {"audit.passed": len(rows) - len(refused), "audit.refused": len(refused)}, failures


def _wants_a_token(gateway: Running) -> bool:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    request = urllib.request.Request(f"{gateway.url}/mcp/{SERVER}", body)
    request.add_header("Content-Type", "application/json")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == HTTPStatus.UNAUTHORIZED
    return False


def _words(score: Score, scenario: str) -> str:
    passed, failed = score.of(scenario)
    return f"{passed} passed, {failed} failed"


def main() -> int:
    """Print the table, write the report, and return 1 if the gateway makes a difference."""
    pairs, fronts, figures, failures = measure()
    print_table(
        ("revision", "scenarios", "direct", "gateway", "differing", "at /mcp"),
        [
            (
                pair.revision,
                len(pair.direct.scenarios),
                f"{pair.direct.passed}/{pair.direct.failed}",
                f"{pair.through.passed}/{pair.through.failed}",
                len(pair.direct.differing(pair.through)),
                f"{front.front.passed}/{front.front.failed}",
            )
            for pair, front in zip(pairs, fronts, strict=True)
        ],
    )
    judged: list[Pair | Front] = [*pairs, *fronts]
    for found in judged:
        figures = {**figures, **found.figures}
        failures = [*failures, *found.failures]
    totals = ", ".join(f"{pair.revision} {pair.through.passed}" for pair in pairs)
    same = "as directly" if not failures else f"{len(failures)} failures"
    return write_report(
        "conformance", figures, failures, LIMITS, summary=f"checks passed {totals}: {same}"
    )


if __name__ == "__main__":
    sys.exit(main())
