"""A credential that an upstream refuses: it had the message by then, whatever becomes of it."""

from typing import Any

import pytest

from gateway.errors import CredentialRequired
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
