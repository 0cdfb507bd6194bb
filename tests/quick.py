"""What `make quick` runs: some tests of every file that needs a moment, each with one of its cases.

It is what one runs while one writes; what lands is held by `make test`.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOMS_LEFT_OUT = frozenset(
    {
        "architecture",
        "benchmarks",
        "conformance",
        "deploy",
        "e2e",
        "faults",
        "sandbox",
        "signin_e2e",
    }
)
"""They start gateways, browsers, clients, servers and jails, or read the whole tree."""

LEFT_OUT: Mapping[str, str] = {
    "tests/builtin/test_parity.py": "thousands of calls, each both ways",
    "tests/hosts/test_typescript.py": "a compiler",
    "tests/audit/test_tampering.py": "every kind of tampering, each with both verifiers",
    "tests/audit/test_independent_verifier.py": "a process for each of many logs",
    "tests/audit/test_witnessed_exports.py": "likewise",
    "tests/search/test_search_model.py": "the weights of the model",
    "tests/wiring/test_searching.py": "likewise",
    "tests/admin/test_export_desk.py": "a log of thousands of records, and every proof of it",
    "tests/pipeline/test_one_path.py": "the whole tree is read",
    "tests/pipeline/test_pin_keeper.py::test_items_that_cannot_be_pinned_fill_no_memory": "memory",
    "tests/flow/test_flow_review.py::test_a_deep_document_is_read_without_recursion": "its size",
    "tests/flow/test_flow_forms.py::test_a_megabyte_of_anything_is_read": "megabytes",
    "tests/storage/test_crash.py": "processes that are killed",
    "tests/storage/identity/test_identity_races.py": "processes that race",
    "tests/oauth/test_many_processes.py": "likewise",
    "tests/storage/postgres": "a PostgreSQL, which many of them kill",
    "tests/clients/test_known_clients.py": "a gateway",
    "tests/pipeline/test_what_is_found_again.py::test_questions_and_records_are_those_of_whoever_remembers_nothing": "long stories",
    "tests/pipeline/test_what_a_record_rests_on.py::test_what_an_intent_says_is_so_as_it_is_written": "likewise",
    "tests/oauth/test_token_gate_that_remembers.py::test_nobody_is_known_who_would_not_be_found_anew": "likewise",
    "tests/audit/test_query_members.py::test_no_words_become_another_search": "every text that may be one",
    "tests/http1/test_asked_as_others_do.py::test_what_is_damaged_is_read_by_nobody_else_in_another_way": "every damage",
}
FIXTURES_LEFT_OUT = frozenset({"everything", "notes", "own_notes", "opa", "postgres"})
"""A server of its own, or policies that are compiled."""

SLOW: Mapping[str, str] = {
    "admin": "test_audit_desk test_discovery_desk",
    "audit": "test_merkle test_query",
    "cli": "test_exported_files test_labels_command test_login test_other_commands test_people_commands "
    "test_pins_command",
    "config": "test_contract",
    "docs": "test_sandbox_page test_threat_model_page",
    "export": "test_parquet test_witness",
    "flow": "test_flow_pointing",
    "oauth": "test_malformed_requests",
    "pins": "test_pin_findings",
    "pipeline": "test_runs_of_calls",
    "policy": "test_policy_candidate test_policy_reload test_policy_shipped_tests",
    "signin": "test_account test_consent test_devices test_new_tasks test_password_sign_in test_setup_links",
    "storage": "test_answers test_disclosures test_index test_retention test_retention_faults "
    "test_script_store test_spool test_spool_torn test_writer",
    "upstream": "test_egress test_jailed_network test_jails test_local_crawls test_local_servers "
    "test_resumed_answers test_upstream_faults",
    "web": "test_approval_pages test_connect_pages test_connections",
    "wiring": "test_saved_while_a_reload_builds test_secrets_at_start",
}
"""By room, the files whose tests start programs, hash passwords or fill disks: the first of each is
run."""


MOST = 6
"""At most so many tests of a file, spread over all of them, each with the first of its cases."""


def is_left_out(path: Path, below: Path) -> bool:
    """Tell whether nothing of `path` is run, so that it need not even be loaded."""
    try:
        room, *_ = path.relative_to(below / "tests").parts
    except ValueError:
        return False
    found = path.relative_to(below)
    return room in ROOMS_LEFT_OUT or any(
        one.as_posix() in LEFT_OUT for one in (found, *found.parents)
    )


def chosen(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return what is run and what is not, in their order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for first, *_ in cases.values():
        if _is_quick(first):
            files[first.path].append(first)
    kept = {id(item) for path, tests in files.items() for item in _spread(tests, _most(path))}
    run: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (run if id(item) in kept else left).append(item)
    return run, left


def without_full(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return what is run and what only a full run has, in their order."""
    left = [item for item in items if item.get_closest_marker("full") is not None]
    return [item for item in items if item.get_closest_marker("full") is None], left


def parametrizing(every: Callable[..., None], *, only_first: bool) -> Callable[..., None]:
    """Return what parametrizes as `every` does, without the cases that only a full run has."""

    def parametrize(names: Any, cases: Iterable[Any], *more: Any, **also: Any) -> None:
        cases, ids = list(cases), also.get("ids")
        kept = [number for number, case in enumerate(cases) if not _is_full(case)]
        kept = kept[:1] if only_first else kept
        if kept and len(kept) < len(cases):
            if ids is not None and not callable(ids):
                named = list(itertools.islice(ids, len(cases)))  # they may have no end
                also["ids"] = [named[number] for number in kept]
            cases = [cases[number] for number in kept]
        every(names, cases, *more, **also)

    return parametrize


def _is_full(case: object) -> bool:
    return any(mark.name == "full" for mark in getattr(case, "marks", ()))


def _most(path: Path) -> int:
    return 1 if path.stem in SLOW.get(path.parent.name, "").split() else MOST


def _spread(tests: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Return the first, the last and some between."""
    if len(tests) <= most or most == 1:
        return tests[:most]
    return [tests[number * (len(tests) - 1) // (most - 1)] for number in range(most)]


def _is_quick(item: pytest.Item) -> bool:
    name = item.nodeid.partition("[")[0]
    return name not in LEFT_OUT and FIXTURES_LEFT_OUT.isdisjoint(getattr(item, "fixturenames", ()))
