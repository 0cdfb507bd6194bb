"""Names: an extra that is never asked on the event loop, and says what it lacks."""

import threading
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from gateway.dlp.detector import Detector
from gateway.domain.decisions import Duty, Obligation, Verdict
from gateway.errors import ConfigError
from gateway.names import Names
from gateway.policy.answer import read_decision
from tests.pipeline.house import House, decision, result, text


class Slow:
    """Finds one name, and remembers on which threads it was asked."""

    of, group, is_slow = "person", "names", True

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        self.threads.add(threading.get_ident())
        at = text.encode().find(b"Ada")
        if at >= 0:
            yield at, at + 3


MASKED = Obligation(duty=Duty.MASK, detail={"classes": ["names"]})


async def test_what_is_slow_is_never_asked_on_the_event_loop() -> None:
    slow, house = Slow(), House()
    house.detector = Detector({}, [slow])
    house.pipeline = house._wired()
    await house.approve_all()
    house.rule.says = lambda q: decision(
        Verdict.ALLOW, obligations=[MASKED] if q["phase"] == "result" else []
    )
    house.server.answer = lambda permit: result(permit, text("of Ada"))
    seen = await house.handle(house.call("search", {"q": "Ada"}))
    assert seen.json["result"]["content"][0]["text"] == "of [person]"
    (asked,) = [q for q in house.rule.asked if q["phase"] == "call"]
    assert asked["dlp"]["arguments"][0]["class"] == "person"
    assert slow.threads
    assert threading.get_ident() not in slow.threads


@pytest.mark.skipif(find_spec("presidio_analyzer") is not None, reason="the extra is installed")
def test_without_the_extra_it_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match="extra `names`"):
        Names("en_core_web_sm", "en")


def test_a_duty_may_name_the_group_only_where_names_are_found() -> None:
    answer = {
        "verdict": "allow",
        "reasons": [],
        "obligations": [{"duty": "mask", "classes": ["names"]}],
    }
    assert read_decision(answer, id_="d", policy_digest="p").obligations == (MASKED,)
