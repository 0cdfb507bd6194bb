"""A lock file carries approvals to another place, if whom it trusts has signed it."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.admin.lock import LockSigner
from gateway.domain.document import canonical
from gateway.errors import BadCommand, Denied
from tests.admin.world import (
    APPROVER,
    EMMA,
    KEY,
    NOW_TEXT,
    SIGNER,
    USER,
    World,
    approved,
    digest,
    reviewed,
    shown_at,
    sighting,
)


async def test_a_lock_file_approves_elsewhere_exactly_what_it_names() -> None:
    here, there = World(), World()
    await approved(here, "send", "read", "gone", "bad", "kept")
    lock = json.loads(json.dumps(await here.pin_desk.export(USER)))
    await approved(there, "kept", "bad")
    await there.pin_desk.revoke(EMMA, server="mail", name="bad")
    there.log.records.clear()
    await there.show(sighting("send"), sighting("read", "Other."))
    rows = await there.pin_desk.import_(APPROVER, lock=lock)
    assert {row["name"]: row["result"] for row in rows} == {
        "send": "approved",
        "read": "differs",
        "gone": "unknown",
        "bad": "revoked",
        "kept": "unchanged",
    }
    assert {pin.target.name: pin.status.value for pin in there.pins.all()} == {
        "send": "approved",
        "read": "pending",
        "bad": "revoked",
        "kept": "approved",
    }
    (record,) = there.written
    assert (record["method"], record["target"]) == ("pins.import", "send")
    assert record["reasons"][1] == {
        "code": "note",
        "message": f"approved by os:emma; lock file signed by {SIGNER.verifier}",
    }


async def test_only_approved_pins_are_exported() -> None:
    world = World()
    await approved(world, "send", "read")
    await world.show(sighting("new"), sighting("read", "Other."))
    lock = await world.pin_desk.export(USER)
    assert lock["pins"] == [
        {
            "server": "mail",
            "kind": "tool",
            "name": "send",
            "profile": "modern",
            "digest": digest(),
            "approved_by": "os:emma",
            "approved_at": NOW_TEXT,
            "expires_at": None,
            "definition": {"name": "send", "description": "Sends mail."},
        }
    ]
    assert (lock["version"], lock["hash"]) == (3, "rfc8785-sha256/1")
    assert lock["signer"] == SIGNER.verifier


async def test_a_lock_file_that_was_changed_after_it_was_signed_is_refused() -> None:
    world = World()
    await approved(world, "send")
    lock = await world.pin_desk.export(USER)
    lock["pins"][0]["digest"] = digest("send", "Other.")
    with pytest.raises(Denied, match="changed after it was signed"):
        await world.pin_desk.import_(EMMA, lock=lock)


async def test_a_lock_file_of_another_signer_needs_that_signers_key() -> None:
    here, there = World(), World()
    other = LockSigner("douane/there", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\1"))
    desk = there.new_pin_desk(signer=other)
    await here.show(sighting())
    await there.show(sighting())
    await desk.approve(EMMA, server="mail", reviewed=[reviewed()])
    lock = await desk.export(USER)
    with pytest.raises(Denied, match="signed by another key"):
        await here.pin_desk.import_(EMMA, lock=lock)
    (row,) = await here.pin_desk.import_(EMMA, lock=lock, key=other.verifier)
    assert row["result"] == "approved"


async def test_a_signature_made_for_something_else_does_not_fit_a_lock_file() -> None:
    world = World()
    lock = await world.pin_desk.export(USER)
    content = {name: lock[name] for name in lock if name != "signature"}
    bare = KEY.sign(json.dumps(content, separators=(",", ":"), sort_keys=True).encode())
    lock["signature"] = base64.b64encode(bare).decode()
    with pytest.raises(Denied):
        await world.pin_desk.import_(EMMA, lock=lock)


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"version": 3},
        {"version": 4, "hash": "rfc8785-sha256/1"},
        {"version": True},
        {"version": [1]},
        {"hash": "rfc8785-sha256/1"},
        {"pins": {}},
        {"pins": [1]},
        {"pins": [{"server": "mail"}]},
        {"pins": [{"server": 1, "kind": "tool", "name": "a", "profile": "modern", "digest": ""}]},
        {"pins": [{"server": "a", "kind": "x", "name": "a", "profile": "modern", "digest": ""}]},
    ],
)
async def test_what_is_no_lock_file_is_refused_even_if_it_is_signed(change: Any) -> None:
    world = World()
    with pytest.raises(BadCommand):
        await world.pin_desk.import_(EMMA, lock=signed(change))


def signed(change: dict[str, Any]) -> dict[str, Any]:
    content = {"version": 1, "pins": [], "signer": SIGNER.verifier} | change
    signature = KEY.sign(b"douane pins lock v1\n" + canonical(content))
    return {**content, "signature": base64.b64encode(signature).decode()}


OLD = {"server": "mail", "kind": "tool", "name": "send", "profile": "modern", "digest": digest()}


APPROVED = OLD | {"approved_by": "os:emma", "approved_at": NOW_TEXT, "expires_at": None}
KIND = {"hash": "rfc8785-sha256/1"}


async def test_a_lock_file_of_the_second_version_is_read_too() -> None:
    world = World()
    await world.show(sighting())
    lock = signed({"version": 2, "pins": [APPROVED]} | KIND)
    (row,) = await world.pin_desk.import_(APPROVER, lock=lock)
    assert row["result"] == "approved"


@pytest.mark.parametrize(
    "definition", [{"name": "send", "description": "Harmless."}, {}, [], "send", None, 1]
)
async def test_a_definition_in_a_lock_file_is_the_one_that_its_digest_is_of(
    definition: Any,
) -> None:
    """Who reviews the file in git reads the definition; what is approved is the digest."""
    world = World()
    await world.show(sighting())
    lock = signed({"version": 3, "pins": [APPROVED | {"definition": definition}]} | KIND)
    with pytest.raises(BadCommand):
        await world.pin_desk.import_(APPROVER, lock=lock)


async def test_a_lock_file_of_the_first_version_is_read_too() -> None:
    world = World()
    await world.show(sighting())
    (row,) = await world.pin_desk.import_(EMMA, lock=signed({"pins": [OLD]}))
    assert row["result"] == "approved"


@pytest.mark.parametrize(
    "change",
    [
        {"hash": "md5"},
        {"pins": [OLD]},
        {"pins": [{**OLD, "approved_by": "", "approved_at": NOW_TEXT, "expires_at": "soon"}]},
        {"pins": [{**OLD, "approved_by": "", "approved_at": NOW_TEXT, "expires_at": 5}]},
        {"pins": [{**OLD, "approved_by": "", "approved_at": "", "expires_at": "2027-01-15T08:00"}]},
        {"pins": [{**OLD, "approved_by": None, "approved_at": "", "expires_at": None}]},
    ],
)
async def test_what_is_no_lock_file_of_the_second_version_is_refused(change: Any) -> None:
    world = World()
    with pytest.raises(BadCommand):
        await world.pin_desk.import_(
            EMMA, lock=signed({"version": 2, "hash": "rfc8785-sha256/1"} | change)
        )


async def test_a_signature_that_is_no_text_and_a_key_that_is_no_key_are_refused() -> None:
    world = World()
    lock = await world.pin_desk.export(USER)
    with pytest.raises(Denied):
        await world.pin_desk.import_(EMMA, lock={**lock, "signature": 5})
    with pytest.raises(Denied):
        await world.pin_desk.import_(EMMA, lock={**lock, "signature": "?"})
    with pytest.raises(BadCommand, match="keys list"):
        await world.pin_desk.import_(EMMA, lock=lock, key="nonsense")


async def test_of_a_server_that_has_moved_a_lock_file_approves_nothing() -> None:
    world = World()
    await approved(world, "send", "read")
    lock = await world.pin_desk.export(USER)
    await world.show(shown_at("https://b.example:443/mcp", "send"))
    rows = await world.pin_desk.import_(EMMA, lock=lock)
    assert {row["name"]: row["result"] for row in rows} == {"send": "moved", "read": "unchanged"}
    # It says nothing of addresses: where nobody has approved any, the configured one counts.
    fresh = World()
    await fresh.show(shown_at("https://b.example:443/mcp", "send"))
    rows = await fresh.pin_desk.import_(EMMA, lock=lock)
    assert {row["name"]: row["result"] for row in rows} == {"send": "approved", "read": "unknown"}


async def test_a_check_against_a_lock_file_tells_every_difference() -> None:
    world = World()
    await approved(world, "send", "read", "gone")
    lock = await world.pin_desk.export(USER)
    assert (await world.pin_desk.check(USER, lock=lock))["ok"] is True
    await world.show(sighting("read", "Other."))
    await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed("read", "Other.")])
    await world.show(sighting("new"))
    await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed("new")])
    result = await world.pin_desk.check(USER, lock=lock)
    assert {row["name"]: row["problem"] for row in result["drift"]} == {
        "read": "not what the lock file approved",
        "new": "approved here, not in the lock file",
    }
    elsewhere = World()
    result = await elsewhere.pin_desk.check(USER, lock=lock)
    assert {row["problem"] for row in result["drift"]} == {"in the lock file, not seen"}
