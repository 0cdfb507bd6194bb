"""What `make deploy-report` tries, what it finds missing, and what it takes for wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.deploy.composed import for_a_trial
from benchmarks.deploy.image import pip_settings
from benchmarks.deploy.talk import CALLED, wrong
from benchmarks.deploy.tools import PACKAGES, STEPS, limits, refused, version_in
from benchmarks.deploy.unit import score
from tests.servers.process import ROOT

GOOD: dict[str, Any] = {
    "ready": {"status": "ready", "checks": {}, "programs": "jailed"},
    "call": CALLED,
    "program": '{"value": 42}',
}


def test_a_step_is_tried_where_all_it_needs_is_here_and_was_done() -> None:
    done: set[str] = set()
    for step in STEPS:
        assert refused(step, PACKAGES, done, 0) == ""
        done.add(step.name)


def test_what_is_missing_is_named() -> None:
    first, second, *_ = STEPS
    assert refused(first, {"podman"}, (), 0) == "not here: debootstrap"
    assert refused(first, PACKAGES, (), 1000) == "needs root"
    assert refused(second, PACKAGES, (), 0) == "needs base"


def test_every_program_that_a_step_needs_is_looked_for() -> None:
    assert {name for step in STEPS for name in step.needs} == set(PACKAGES)


@pytest.mark.parametrize(
    ("said", "name", "version"),
    [
        ("podman version 4.3.1\n", "podman", "4.3.1"),
        ("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1\nspec: 1.0.2-dev\n", "runc", "1.1.5"),
        (
            "using podman version: 4.3.1\npodman-composer version  1.0.3\n",
            "podman-compose",
            "1.0.3",
        ),
        ("debootstrap 1.0.128+nmu2+deb12u2", "debootstrap", "1.0.128"),
        ("nothing", "runc", "?"),
    ],
)
def test_a_version_is_read_from_what_a_program_says(said: str, name: str, version: str) -> None:
    assert version_in(said, name) == version


def test_limits_are_given_where_root_may_not_raise_them() -> None:
    hard = {"nofile": 20000, "nproc": 96365}
    assert limits("CapEff:\t000001fffeffffff\n", hard, 32768) == [
        "nofile=20000:20000",
        "nproc=32768:32768",
    ]
    assert limits("CapEff:\t000001ffffffffff\n", hard, 32768) == []


def test_pip_in_a_build_takes_packages_from_where_ours_does() -> None:
    text, folders = pip_settings(
        [
            ":env:.find-links='/srv/wheels'",
            "global.extra-index-url='file:///srv/one/simple\\nfile:///srv/two/simple'",
            "global.constraint='/etc/pip/constraints.txt'",
            "install.user='no'",
        ]
    )
    assert "find-links = /srv/wheels" in text
    assert "constraint" not in text
    assert "extra-index-url = file:///srv/one/simple file:///srv/two/simple" in text
    assert folders == ["/srv/one", "/srv/two", "/srv/wheels"]


def test_a_trial_changes_of_compose_only_what_is_its_own() -> None:
    shipped = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    trial = for_a_trial(shipped, port=9, token=Path("/token"))
    assert trial["services"]["gateway"]["ports"] == ["127.0.0.1:9:8080"]
    for name, service in shipped["services"].items():
        tried = trial["services"][name]
        changed = {key for key in service.keys() | tried if service.get(key) != tried.get(key)}
        own = {"image", "entrypoint", "command"} if name == "notes" else {"build", "ports"}
        assert changed <= {"volumes"} | own
        assert all(volume[0] == "/" or volume == "data:/data" for volume in tried["volumes"])
    assert trial["networks"] == shipped["networks"]


def test_nothing_is_wrong_with_what_has_to_be() -> None:
    assert wrong(GOOD, jails=True) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"ready": {"status": "not ready", "checks": {}, "programs": "jailed"}},
        {"ready": {"status": "ready", "checks": {}, "programs": "not jailed: no bwrap"}},
        {"call": "denied"},
        {"program": "{}"},
    ],
)
def test_what_is_not_as_it_has_to_be_is_wrong(bad: dict[str, Any]) -> None:
    assert len(wrong(GOOD | bad, jails=True)) == 1


def test_the_score_of_a_unit_is_read() -> None:
    said = "→ Overall exposure level for douane.service: 1.8 OK 🙂\n"
    assert score(said) == "1.8"
    assert score("") == "?"
