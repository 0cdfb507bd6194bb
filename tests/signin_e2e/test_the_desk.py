"""A security team's day in a real browser: by mouse, by keyboard alone, in every size and scheme."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import Corridor
from tests.signin_e2e.browser import Chromium
from tests.signin_e2e.desk_sitting import desk_gateway, sitting

NASTY = "<img src=x onerror=alert(1)>\u202e\u200b'\"&"


@pytest.fixture(scope="module")
def raw() -> Iterator[Raw]:
    with raw_in_a_thread() as raw:
        yield raw


@pytest.fixture(scope="module")
def corridor(
    tmp_path_factory: pytest.TempPathFactory, raw: Raw, browser: Chromium
) -> Iterator[Corridor]:
    with desk_gateway(tmp_path_factory.mktemp("desk"), raw, browser) as corridor:
        yield corridor


def ask(corridor: Corridor, text: str) -> str:
    """Have a call wait; return its question."""
    poster = Poster(corridor, "raw")
    result: Any = poster.call("allowed", {"text": text}).json["result"]
    id_: str = result["_meta"]["douane/refusal"]["approval_id"]
    return id_


async def test_a_held_call_is_looked_at_and_answered(corridor: Corridor, browser: Chromium) -> None:
    id_ = ask(corridor, NASTY)
    with sitting(corridor, browser, "ada") as ada:
        await ada.sign_in()
        listed, wrong = await ada.visit("/desk/approvals")
        assert (wrong, "raw/allowed" in listed) == ([], True)
        shown, wrong = await ada.visit(f"/desk/approvals/{id_}")
        assert wrong == []
        assert "<img src=x onerror=alert(1)>\\u{202e}\\u{200b}" in shown
        done = await ada.do(f"/desk/approvals/{id_}", "deny", {"note": "nobody meant this"})
        assert "denied by user:ada" in done
        assert "nobody meant this" in done
        assert ada.troubles == []


async def test_it_is_answered_by_the_keyboard_alone(corridor: Corridor, browser: Chromium) -> None:
    id_ = ask(corridor, "by keyboard")
    with sitting(corridor, browser, "ada") as ada:
        await ada.sign_in()
        skip = ("Tab", "Enter")
        to_the_note = ("Tab", "Tab", *"no", "Tab")
        done = await ada.type(f"/desk/approvals/{id_}", *skip, *to_the_note, "Enter")
        assert "denied by user:ada" in done
        assert ada.troubles == []


async def test_an_auditor_looks_and_has_no_button(corridor: Corridor, browser: Chromium) -> None:
    id_ = ask(corridor, "for others to answer")
    with sitting(corridor, browser, "otto") as otto:
        await otto.sign_in()
        shown, wrong = await otto.visit(f"/desk/approvals/{id_}")
        assert wrong == []
        assert "for others to answer" not in shown
        assert "Somebody else has to answer" in shown
        assert otto.troubles == []
