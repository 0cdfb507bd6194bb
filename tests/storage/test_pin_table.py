"""Pins in memory are listed in order, whatever comes, changes and runs out."""

import random
from dataclasses import replace

from gateway.domain.epoch import Epoch
from gateway.domain.tools import Pin, PinStatus, Profile, UpstreamId
from gateway.storage.pin_table import PinTable, identity_of, pin_key
from tests.storage.suite import NOW, approved, pending, target

SERVERS = ("a", "a-b", "a.b", "a_b", "aa", "b")


def of(server: str, name: str, profile: Profile = Profile.LEGACY) -> Pin:
    made: Pin = pending(replace(target(), server=UpstreamId(server), name=name), profile=profile)
    return made


def in_order(pins: list[Pin]) -> list[Pin]:
    return sorted(pins, key=lambda pin: identity_of(pin_key(pin)))


def test_they_are_in_one_order_whenever_they_came() -> None:
    pins = [of(server, f"t{at}", each) for server in SERVERS for at in range(9) for each in Profile]
    dice = random.Random(5)
    dice.shuffle(pins)
    table = PinTable(Epoch())
    for start in range(0, len(pins), 7):
        table.put(pins[start : start + 7])
        assert table.all(None, NOW) == in_order(pins[: start + 7])
    for server in (*SERVERS, "c"):
        its = [pin for pin in in_order(pins) if pin.target.server == server]
        assert table.all(UpstreamId(server), NOW) == its


def test_what_changes_stays_in_its_place() -> None:
    table = PinTable(Epoch())
    pins = in_order([of(server, "t") for server in SERVERS])
    table.put(pins)
    listed, version = table.all(None, NOW), table.version(NOW)
    changed = replace(pins[2], note="seen")
    table.put([changed])
    assert table.version(NOW) != version
    assert table.all(None, NOW) == [*pins[:2], changed, *pins[3:]]
    assert listed == pins


def test_what_has_run_out_waits_in_its_place() -> None:
    table = PinTable(Epoch())
    lasting, ending = approved(target()), replace(approved(target()), expires_at=NOW + 1)
    ending = replace(ending, target=replace(ending.target, name="z"))
    table.put([ending, lasting])
    version = table.version(NOW)
    assert table.all(None, NOW) == [lasting, ending]
    assert table.all(None, NOW + 1) == [lasting, replace(ending, status=PinStatus.PENDING)]
    assert table.version(NOW + 1) != version
    renewed = replace(ending, expires_at=None)
    table.put([renewed])
    assert table.all(None, NOW + 2) == [lasting, renewed]
