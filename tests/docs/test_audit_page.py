"""docs/audit.md tells every field and every kind of record."""

from gateway.audit.fields import FIELDS as SEARCHED
from gateway.audit.record import FIELDS, LARGEST_RECORD_BYTES
from gateway.domain.audit import RecordKind
from gateway.storage import writer
from tests.docs.pages import ROOT, prose, rows, spans

PAGE = ROOT / "docs" / "audit.md"


def test_every_field_of_a_record_has_its_row_in_order() -> None:
    told = [row["field"].strip("`") for row in rows(PAGE, "field")]
    assert told == [*FIELDS, "leaf_index", "leaf_hash"]


def test_every_field_that_is_told_can_be_searched() -> None:
    assert {row["field"].strip("`") for row in rows(PAGE, "field")} == set(SEARCHED)


def test_every_kind_of_record_is_told() -> None:
    told = [kind for row in rows(PAGE, "kind") for kind in spans(row["kind"])]
    assert sorted(told) == sorted(RecordKind)


def test_the_numbers_are_the_codes() -> None:
    text = prose(PAGE)
    assert writer.EVERY_SECOND.every_s == 1.0
    assert "within one second" in text
    assert f"{LARGEST_RECORD_BYTES // 1024} KiB" in text


def test_the_page_says_what_the_tree_does_not_prove() -> None:
    text = " ".join(prose(PAGE).split())
    assert "cut off the newest records together with the checkpoints" in text
    assert "can sign another history" in text
