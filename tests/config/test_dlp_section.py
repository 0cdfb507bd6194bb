"""`dlp` of the configuration: what cannot be looked for is said when it is read."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.config.dlp import DlpSection
from gateway.dlp.lists import made_list
from gateway.wiring.sensitive import classes_of, detector_of


def read(folder: Path, **section: object) -> DlpSection:
    return DlpSection.model_validate(section, context={"folder": folder})


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    (tmp_path / "a.list").write_text(made_list(["Ada Lovelace"], documents=False, key=bytes(16)))
    return tmp_path


def test_own_classes_are_looked_for_and_may_be_named(listed: Path) -> None:
    section = read(listed, patterns={"project": "PRJ-[0-9]+"}, lists={"people": {"file": "a.list"}})
    found = detector_of(section).look("PRJ-1 of Ada Lovelace").classes
    assert found == {"own:project", "own:people"}
    assert found < classes_of(section)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"patterns": {"a": "("}}, "no RE2 expression"),
        ({"patterns": {"a": "x*"}}, "matches where there is nothing"),
        ({"patterns": {"A": "x"}}, "pattern"),
        ({"lists": {"a": {"file": "none.list"}}}, "cannot read"),
        ({"lists": {"a": {"file": "b.list"}}}, "this is no list"),
        ({"patterns": {"a": "x"}, "lists": {"a": {"file": "a.list"}}}, "give each its own name"),
    ],
)
def test_what_cannot_be_looked_for_is_said(
    listed: Path, section: dict[str, object], said: str
) -> None:
    (listed / "b.list").write_text("Ada Lovelace\n")
    with pytest.raises(ValidationError, match=said):
        read(listed, **section)
