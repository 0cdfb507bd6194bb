"""A stop is a file: it outlives the process, and whatever cannot be read is one."""

from pathlib import Path

import pytest

from gateway.errors import BadCommand, Stopped
from gateway.ports.stop import Standstill
from gateway.storage.stop import STOP, Stop

HELD = Standstill(by="user:sam", at=1_800_000_000.5, note="a token is public")


async def test_a_stop_outlives_the_process_until_it_is_lifted(tmp_path: Path) -> None:
    stop = Stop(tmp_path)
    stop.require_none()
    await stop.put(HELD)
    for one in (stop, Stop(tmp_path)):
        assert one.holds == HELD
        with pytest.raises(Stopped):
            one.require_none()
    assert (tmp_path / STOP).stat().st_mode & 0o777 == 0o600
    await stop.lift()
    for one in (stop, Stop(tmp_path)):
        assert one.holds is None
        one.require_none()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"by": "x"}', b"null", b"\xff"])
def test_a_file_that_cannot_be_read_stops_everything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STOP).write_bytes(content)
    with pytest.raises(Stopped):
        Stop(tmp_path).require_none()


async def test_what_is_no_file_stops_everything_and_is_not_lifted(tmp_path: Path) -> None:
    (tmp_path / STOP).mkdir()
    stop = Stop(tmp_path)
    with pytest.raises(BadCommand, match="stay refused"):
        await stop.lift()
    with pytest.raises(Stopped):
        stop.require_none()


async def test_a_stop_that_cannot_be_written_holds_all_the_same(tmp_path: Path) -> None:
    stop = Stop(tmp_path / "nowhere")
    with pytest.raises(BadCommand, match="only until the gateway ends"):
        await stop.put(HELD)
    with pytest.raises(Stopped):
        stop.require_none()
