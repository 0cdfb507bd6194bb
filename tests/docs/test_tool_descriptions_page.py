"""What docs/tool-descriptions.md says in numbers is what the code does."""

from gateway.builtin.briefs import LONGEST_BRIEF, MOST_NAMED, MOST_SELECTED, RESOURCE, TEMPLATE
from gateway.config.discovery import Descriptions
from gateway.storage.disclosures import MOST_OF_ALL, MOST_OF_ONE
from tests.docs.pages import ROOT

PAGE = " ".join((ROOT / "docs" / "tool-descriptions.md").read_text().split())


def test_the_numbers_are_the_codes() -> None:
    told = (
        f"(the first sentence, at most {LONGEST_BRIEF} bytes)",
        f"at most {MOST_SELECTED}. |",
        f"the first {MOST_NAMED} of those",
        f"Of one person, with whatever clients, {MOST_OF_ONE:,} are kept, and of all {MOST_OF_ALL:,}",
        f"`{RESOURCE['uri']}`",
        f"`{TEMPLATE['uriTemplate']}`",
    )
    assert [words for words in told if words not in PAGE] == []


def test_the_times_are_the_defaults() -> None:
    usual = Descriptions()
    assert (usual.mode, usual.idle, usual.cleanup) == ("off", 3600.0, 600.0)
    assert "It is off until you switch it on" in PAGE
    assert "An hour without use ends it (`idle`)" in PAGE
    assert "forgotten every ten minutes (`cleanup`)" in PAGE
