"""What goes on beside requests does not end in silence."""

import asyncio
import logging

import pytest

from gateway.wiring.background import begun, ended


async def _fails() -> None:
    raise KeyError("a bug")


async def test_the_operator_is_told_of_work_that_fails_and_it_ends_like_any_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = begun(_fails(), "counting")
    await asyncio.wait([task])
    await ended(task)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "counting has failed and goes on no more"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


async def test_nobody_is_told_of_work_that_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    task = begun(asyncio.sleep(3600), "waiting")
    await ended(task)
    assert task.cancelled()
    assert caplog.records == []
