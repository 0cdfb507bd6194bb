"""A credential that an upstream refuses: it had the message by then, whatever becomes of it."""

from typing import Any

import pytest

from gateway.errors import CredentialRequired, GatewayError, InsufficientScope
from gateway.upstream.faults import Challenged
from gateway.upstream.personal import sent_in_name_of
from tests.pipeline.house import ALICE, MAIL


class Credentials:
    def __init__(self, better: int) -> None:
        self.better = better

    async def headers(self, *_: Any, **__: Any) -> list[tuple[str, str]]:
        return [("authorization", "Bearer a")]

    async def rejected(self, *_: Any, **__: Any) -> list[tuple[str, str]]:
        self.better -= 1
        if self.better < 0:
            raise CredentialRequired("connect it first", url="https://x.example")
        return [("authorization", "Bearer b")]


async def refusing(**_: Any) -> Any:
    raise Challenged(401, "Bearer")


@pytest.mark.parametrize("better", [0, 1, 2])
async def test_what_was_refused_there_had_left(better: int) -> None:
    credentials: Any = Credentials(better)
    with pytest.raises(CredentialRequired) as raised:
        await sent_in_name_of(ALICE, MAIL, credentials, [], refusing)
    assert raised.value.has_left


async def test_what_nobody_has_a_credential_for_never_leaves() -> None:
    credentials: Any = Credentials(0)
    credentials.headers = credentials.rejected
    with pytest.raises(CredentialRequired) as raised:
        await sent_in_name_of(ALICE, MAIL, credentials, [], refusing)
    assert not raised.value.has_left


async def test_who_shares_a_refusal_that_came_to_another_has_sent_nothing() -> None:
    """Of many callers one has a credential renewed, and all are told alike that it cannot be."""
    shared = CredentialRequired("connect it first", url="https://x.example")

    async def rejected(*_: Any, **__: Any) -> Any:
        raise shared

    credentials: Any = Credentials(1)
    credentials.rejected = rejected
    with pytest.raises(CredentialRequired) as raised:
        await sent_in_name_of(ALICE, MAIL, credentials, [], refusing)
    assert raised.value.has_left
    assert not shared.has_left


@pytest.mark.parametrize(
    "error",
    [
        Challenged(401, "Bearer", "n"),
        CredentialRequired("connect it first", url="https://x.example"),
        InsufficientScope("the token lacks a scope", scopes=("tools:call",)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_has_left_says_all_that_it_said(error: GatewayError) -> None:
    left = error.of_one(has_left=True)
    assert (type(left), str(left)) == (type(error), str(error))
    assert vars(left) == {**vars(error), "has_left": True}
