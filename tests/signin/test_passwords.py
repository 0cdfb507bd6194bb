"""Passwords: what may be chosen, how it is kept, how much work may wait."""

import asyncio
import os
import unicodedata
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from gateway.signin import passwords as room
from gateway.signin.errors import Throttled, Unacceptable
from gateway.signin.passwords import Passwords, outgrown, require_acceptable

GOOD = "four easy words here"
CHEAP = Argon2id(
    salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=8
).derive_phc_encoded(GOOD.encode())


async def test_a_password_is_kept_as_argon2id_of_19_mib_and_two_passes() -> None:
    phc = await Passwords(os.urandom).hashed(GOOD)
    assert phc.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


async def test_the_right_password_matches_and_another_does_not() -> None:
    passwords = Passwords(os.urandom)
    phc = await passwords.hashed(GOOD)
    assert await passwords.matches(GOOD, phc)
    assert not await passwords.matches(GOOD + "!", phc)


async def test_the_same_password_is_never_kept_the_same_way_twice() -> None:
    passwords = Passwords(os.urandom)
    assert await passwords.hashed(GOOD) != await passwords.hashed(GOOD)


async def test_one_password_has_one_spelling_whatever_the_keyboard() -> None:
    passwords = Passwords(os.urandom)
    phc = await passwords.hashed("caf\u00e9 with\u00a0nine spoons")
    assert await passwords.matches("cafe\u0301 with nine spoons", phc)


async def test_where_there_is_no_hash_as_much_is_computed_and_nothing_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    def verified(password: bytes, phc: str) -> bool:
        seen.append(phc)
        return True

    monkeypatch.setattr(room, "_verified", verified)
    assert not await Passwords(os.urandom).matches(GOOD, "")
    assert [phc[:31] for phc in seen] == ["$argon2id$v=19$m=19456,t=2,p=1$"]


async def test_a_damaged_hash_matches_nothing() -> None:
    assert not await Passwords(os.urandom).matches(GOOD, "$argon2id$v=19$m=19456,t=2,p=1$x")


def test_a_hash_made_more_cheaply_is_outgrown() -> None:
    assert outgrown(CHEAP)
    assert outgrown("$argon2i$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA")
    assert not outgrown("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA")


async def test_only_so_many_are_computed_at_once_and_only_so_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passwords = Passwords(os.urandom, at_once=2, most_waiting=1)
    release, running, most = asyncio.Event(), 0, 0

    async def slowly(job: Any) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return True

    monkeypatch.setattr(asyncio, "to_thread", slowly)
    waiting = [asyncio.create_task(passwords.matches(GOOD, CHEAP)) for _ in range(3)]
    while running < 2:
        await asyncio.sleep(0)
    with pytest.raises(Throttled):
        await passwords.matches(GOOD, CHEAP)
    release.set()
    assert await asyncio.gather(*waiting) == [True, True, True]
    assert most == 2
    assert await passwords.matches(GOOD, CHEAP)


async def test_what_is_too_long_in_every_spelling_is_not_composed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces: list[int] = []

    def counted(_: str, text: str) -> str:
        pieces.append(len(text))
        return text

    monkeypatch.setattr(unicodedata, "normalize", counted)
    endless = "\u0301\u0316" * 10_000
    assert not await Passwords(os.urandom).matches(endless, CHEAP)
    with pytest.raises(Unacceptable, match="12 to 256"):
        require_acceptable(endless, "alice")
    assert pieces == []


def test_a_password_counts_as_many_characters_as_it_shows() -> None:
    require_acceptable("".join(chr(0x1F80 + i) for i in range(8)) * 32, "alice")
    require_acceptable(unicodedata.normalize("NFD", "\u1f82 four easy words") * 15, "alice")


@pytest.mark.parametrize(
    "password", [GOOD, "x7#kQ9!mZ2$w", "пароль из пяти слов", "0123456789abcdef" * 16]
)
def test_a_long_enough_password_may_be_chosen(password: str) -> None:
    require_acceptable(password, "alice")


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("elevenchars", "12 to 256"),
        ("0123456789abcdef" * 16 + "g", "12 to 256"),
        ("aaaaaaaaaaaaaaaa", "first that anybody"),
        ("121212121212", "first that anybody"),
        ("Administrator", "first that anybody"),
        ("1Q2w3e4r5t6y", "first that anybody"),
        ("Password2026", "first that anybody"),
        ("qwertyqwerty12", "first that anybody"),
        ("douanedouane1", "first that anybody"),
        ("alice.cooper", "user name"),
        ("Alice.Cooper2026", "user name"),
        ("nine\u0000hidden words", "control"),
    ],
)
def test_a_hopeless_password_is_refused(password: str, why: str) -> None:
    with pytest.raises(Unacceptable, match=why):
        require_acceptable(password, "alice.cooper")
