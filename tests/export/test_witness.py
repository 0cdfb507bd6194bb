"""What a witness cosigns is kept once it proves itself, and what it disputes is on record."""

import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.audit.cosignature import WitnessKey
from gateway.errors import AuditUnavailable
from gateway.export.follower import Follower
from gateway.export.witness import DISAGREES, WitnessSink
from gateway.export.witness import Witness as Asked
from gateway.ports.following import NotDelivered
from gateway.storage.bundles import BundleReader
from gateway.storage.connection import open_reader
from gateway.storage.cosignatures import DurableCosignatures
from gateway.storage.database import DATABASE
from gateway.storage.following import NewestCheckpointSource, reading
from gateway.storage.journal import JOURNAL
from gateway.storage.store import Store
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from tests.export.witness import Said, Witness, witnessing
from tests.storage.logged import NOW, append, made, write


@pytest.fixture
def witness() -> Iterator[Witness]:
    with witnessing(Witness()) as found:
        yield found


class Rig:
    """One witness's follower on a log on the disk."""

    def __init__(self, store: Store, witness: Witness, *, whole_s: float = 10) -> None:
        self.store = store
        self.alarms: list[dict[str, Any]] = []
        self.paused: list[float] = []
        self.elapsed = 0.0
        self.broken = False
        path = store.data_dir / DATABASE
        self.source = NewestCheckpointSource(path)
        self.sink = WitnessSink(
            Asked(
                name="w1",
                url=f"{witness.url}/",
                key=WitnessKey.parse(witness.vkey),
                every_s=60,
            ),
            poster=GuardedFetcher(
                EgressPolicy.of(["127.0.0.0/8"]), most_bytes=32 << 10, whole_s=whole_s
            ),
            shown=DurableCosignatures(store.writer, partial(reading, path)),
            alarm=self._alarm,
            clock=lambda: NOW,
            elapsed=lambda: self.elapsed,
            pause=self._pause,
        )
        self.follower = Follower(
            "witness w1",
            source=self.source,
            cursors=store.cursors,
            sink=self.sink,
            page=1,
            pause=self._no_more,
        )

    async def _alarm(self, told: str, evidence: Any) -> None:
        if self.broken:
            raise AuditUnavailable("the audit log cannot record this now")
        self.alarms.append({"told": told, **evidence})

    async def _pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    async def _no_more(self, seconds: float) -> None:
        raise TimeoutError(seconds)

    async def grow(self, count: int, **fields: Any) -> None:
        """Have so many further records, and a checkpoint of them."""
        size = self.store.writer.recorded
        await append(self.store, [made(str(n), **fields)[0] for n in range(count)], begin=size)
        await self.store.writer.sign()

    async def asked(self) -> None:
        """Hand on the newest checkpoint once."""
        (newest,) = self.source.stored_after(-1, 1)
        await self.sink.deliver([newest])

    @property
    def kept(self) -> dict[int, str]:
        """The cosigned checkpoints of the log, by their sizes."""
        with closing(BundleReader(open_reader(self.store.data_dir / DATABASE))) as reader:
            return dict(reader.witnessed(1 << 40))


@asynccontextmanager
async def rig_in(folder: Path, witness: Witness, **how: Any) -> AsyncIterator[Rig]:
    store = await Store.open(folder, clock=lambda: NOW)
    rig = Rig(store, witness, **how)
    try:
        yield rig
    finally:
        rig.source.close()
        await store.close()


async def test_a_witness_follows_the_log_from_one_checkpoint_to_a_later_one(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        witness.know(str(rig.store.verifier))
        for count in (1, 2, 5, 300, 513, 3):
            await rig.grow(count)
            assert await rig.follower.step()
        sizes = [size for _, _, size in witness.asked]
        assert sizes == [1, 3, 8, 308, 821, 824]
        assert [old for old, _, _ in witness.asked] == [0, *sizes[:-1]]
        assert rig.follower.done == 823
        ((size, note),) = rig.kept.items()
        text, _, lines = note.rpartition("\n\n")
        ours, theirs = lines.splitlines(keepends=True)
        assert size == 824
        assert ours.startswith(f"\u2014 {rig.store.log_id} ")
        at = int.from_bytes(b64decode(theirs.split()[2])[4:12], "big")
        assert theirs == witness.line(text + "\n", at)
        assert abs(at - time.time()) < 3600


async def test_it_is_asked_for_the_newest_and_not_too_often(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        (old,) = rig.source.stored_after(-1, 1)
        await rig.grow(1)
        await rig.sink.deliver([old])  # read before the other was signed
        assert [size for _, _, size in witness.asked] == [2]
        await rig.asked()  # which is cosigned already
        assert len(witness.asked) == 1
        assert rig.paused == []
        await rig.grow(1)
        rig.elapsed = 45
        await rig.asked()
        assert rig.paused == [15]


async def test_a_restart_goes_on_where_the_witness_is(tmp_path: Path, witness: Witness) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(3)
        await rig.asked()
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(4)
        await rig.asked()
    assert witness.asked == [(0, 0, 3), (3, 4, 7)]


async def test_a_cosignature_that_was_lost_is_asked_for_again(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(3)
        witness.distort = lambda _: (502, "text/plain", b"")
        with pytest.raises(NotDelivered, match="status 502"):
            await rig.asked()
        witness.distort = lambda said: said
        await rig.asked()
        assert [(old, size) for old, _, size in witness.asked] == [(0, 3), (0, 3), (3, 3)]
        assert list(rig.kept) == [3]


async def test_a_witness_that_lags_behind_is_shown_the_growth_from_there(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(2)
        await rig.asked()
        kept = dict(witness.seen)
        await rig.grow(2)
        await rig.asked()
        witness.seen = kept  # it was put back from a backup
        await rig.grow(2)
        await rig.asked()
        assert [(old, size) for old, _, size in witness.asked][-2:] == [(4, 6), (2, 6)]
        assert rig.alarms == []


def _other(witness: Witness) -> Witness:
    return Witness(witness.name, seed=8)


LIES = {
    "another key under the same name": lambda w: w.line("x\n", 1, key=_other(w).key),
    "another name": lambda w: Witness("else.example").line("x\n", 1),
    "nothing": lambda _: "",
    "no text": lambda _: b"\xff\xfe",
    "no base64": lambda w: f"\u2014 {w.name} ====\n",
    "a key id alone": lambda w: w.line("x\n", 1)[: len(f"\u2014 {w.name} ") + 8] + "\n",
}


@pytest.mark.parametrize("lie", LIES)
async def test_what_is_no_cosignature_is_not_kept(
    lie: str, tmp_path: Path, witness: Witness
) -> None:
    told = LIES[lie](witness)
    body = told if isinstance(told, bytes) else told.encode()
    witness.distort = lambda _: (200, "text/plain", body)
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        with pytest.raises(NotDelivered, match="its answer"):
            await rig.asked()
        assert rig.kept == {}
        assert rig.alarms == []


async def test_a_cosignature_of_another_root_is_not_kept(tmp_path: Path, witness: Witness) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        other = f"{rig.store.log_id}\n1\n{'A' * 43}=\n"
        for text, at in ((other, 1), (other, 0)):
            body = witness.line(text, at).encode()
            witness.distort = lambda _, body=body: (200, "text/plain", body)  # type: ignore[misc]
            with pytest.raises(NotDelivered, match="is no cosignature"):
                await rig.asked()
        assert rig.kept == {}


@pytest.mark.parametrize("at", [0, 253_402_300_800, (1 << 64) - 1])
async def test_a_cosignature_without_a_time_is_not_kept(
    at: int, tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        (newest,) = rig.source.stored_after(-1, 1)
        text = newest.body.decode().rpartition("\n\n")[0] + "\n"
        witness.distort = lambda _: (200, "text/plain", witness.line(text, at).encode())
        with pytest.raises(NotDelivered, match="has no time"):
            await rig.asked()


async def test_lines_of_other_keys_are_passed_over(tmp_path: Path, witness: Witness) -> None:
    def among_others(said: Said) -> Said:
        stranger = Witness("stranger.example").line("x\n", 1)
        same_name = _other(witness).line("x\n", 1)
        return said[0], said[1], stranger.encode() + same_name.encode() + said[2]

    witness.distort = among_others
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        await rig.asked()
        ((_, note),) = rig.kept.items()
        assert note.count("\u2014 ") == 2


async def test_a_huge_answer_is_not_taken(tmp_path: Path, witness: Witness) -> None:
    witness.distort = lambda said: (200, "text/plain", said[2] + b"x" * 1_000_000)
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        with pytest.raises(NotDelivered, match="no cosignature of the key witness"):
            await rig.asked()


async def test_a_slow_witness_is_not_waited_for(tmp_path: Path, witness: Witness) -> None:
    def slow(said: Said) -> Said:
        time.sleep(0.5)
        return said

    witness.distort = slow
    async with rig_in(tmp_path, witness, whole_s=0.1) as rig:
        await rig.grow(1)
        with pytest.raises(NotDelivered, match=r"within 0.1 s"):
            await rig.asked()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (400, "calls the request malformed"),
        (403, "does not take the log's signature"),
        (404, "does not know this log"),
        (201, "status 201"),
        (301, "status 301"),
        (503, "status 503"),
    ],
)
async def test_a_refusal_is_told_and_is_no_alarm(
    status: int, says: str, tmp_path: Path, witness: Witness
) -> None:
    witness.distort = lambda said: (status, said[1], said[2])
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        with pytest.raises(NotDelivered, match=says) as refused:
            await rig.asked()
        assert refused.value.retry_after_s == (7 if status == 503 else 0)
        assert (rig.kept, rig.alarms) == ({}, [])


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("text/plain", b"3\n"),
        ("text/x.tlog.size", b"3"),
        ("text/x.tlog.size", b"03\n"),
        ("text/x.tlog.size", b"-3\n"),
        ("text/x.tlog.size", b"9" * 40 + b"\n"),
        ("text/x.tlog.size", b""),
    ],
)
async def test_a_conflict_without_a_size_is_a_failure(
    media: str, body: bytes, tmp_path: Path, witness: Witness
) -> None:
    witness.distort = lambda _: (409, media, body)
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        with pytest.raises(NotDelivered, match="does not say which size"):
            await rig.asked()
        assert rig.alarms == []


async def test_a_log_that_was_put_back_is_an_alarm_once(tmp_path: Path, witness: Witness) -> None:
    await write(tmp_path / "log", made("1"))
    backup = (tmp_path / "log" / DATABASE).read_bytes()
    newest = (tmp_path / "log" / "checkpoint").read_text()
    async with rig_in(tmp_path / "log", witness) as rig:
        await rig.grow(8)
        await rig.asked()
    for part in (*(tmp_path / "log").glob(f"{DATABASE}*"), tmp_path / "log" / JOURNAL):
        part.unlink()
    (tmp_path / "log" / DATABASE).write_bytes(backup)
    (tmp_path / "log" / "checkpoint").write_text(newest)
    async with rig_in(tmp_path / "log", witness) as rig:
        rig.broken = True
        with pytest.raises(AuditUnavailable):
            await rig.asked()
        rig.broken = False
        for _ in range(3):
            with pytest.raises(NotDelivered, match="cosigned 10 records of this log, which has"):
                await rig.asked()
        (alarm,) = rig.alarms
        assert "it was cut off or put back" in alarm.pop("told")
        assert alarm == {
            "witness": "w1",
            "key": witness.vkey.rpartition("+")[0],
            "status": 409,
            "cosigned": 10,
            "size": 2,
        }
        await rig.grow(20, server="crm")  # another history, larger by now
        for _ in range(2):
            with pytest.raises(NotDelivered, match="does not see the first 10 records"):
                await rig.asked()
        assert [(one["status"], one["cosigned"]) for one in rig.alarms] == [(409, 10), (422, 10)]
        assert rig.kept == {}


@pytest.mark.parametrize("said", [b"", b"1\n", b"no\n"])
async def test_another_history_of_the_same_size_is_an_alarm(
    said: bytes, tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        await rig.asked()
    witness.distort = lambda _: (409, "text/x.tlog.size", said)
    async with rig_in(tmp_path, witness) as rig:  # which is shown that checkpoint once more
        for _ in range(2):
            with pytest.raises(NotDelivered, match="does not see the first 1 records"):
                await rig.asked()
        (alarm,) = rig.alarms
        assert (alarm["status"], alarm["cosigned"], alarm["size"]) == (409, 1, 1)


async def test_another_history_of_the_size_that_the_witness_says_is_an_alarm(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        witness.distort = lambda _: (409, "text/x.tlog.size", b"1\n")
        with pytest.raises(NotDelivered, match="does not see the first 1 records"):
            await rig.asked()
        assert [old for old, _, _ in witness.asked] == [0, 1]
        assert len(rig.alarms) == 1


@pytest.mark.parametrize("status", [409, 422])
async def test_a_witness_that_has_cosigned_nothing_disputes_nothing(
    status: int, tmp_path: Path, witness: Witness
) -> None:
    witness.distort = lambda _: (status, "text/x.tlog.size", b"0\n")
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        with pytest.raises(NotDelivered, match=f"status {status}"):
            await rig.asked()
        assert rig.alarms == []


async def test_a_witness_that_moved_on_between_two_answers_is_no_alarm(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(4)
        sizes = iter([b"4\n", b"2\n"])
        witness.distort = lambda _: (409, "text/x.tlog.size", next(sizes))
        with pytest.raises(NotDelivered, match="status 409"):
            await rig.asked()
        assert rig.alarms == []


async def test_it_begins_once_however_often_the_witness_says_another_size(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:  # another copy of it goes on elsewhere
        await rig.grow(1)
        for size in (7, 8, 9):
            witness.distort = lambda _, size=size: (409, "text/x.tlog.size", b"%d\n" % size)  # type: ignore[misc]
            with pytest.raises(NotDelivered, match=f"has cosigned {size} records"):
                await rig.asked()
        assert [one["cosigned"] for one in rig.alarms] == [7]
        witness.distort = lambda said: said
        await rig.asked()
        await rig.grow(1)
        witness.distort = lambda _: (409, "text/x.tlog.size", b"9\n")
        with pytest.raises(NotDelivered):
            await rig.asked()
        assert [one["cosigned"] for one in rig.alarms] == [7, 9]


async def test_what_is_cosigned_here_and_missing_is_an_alarm_without_asking(
    tmp_path: Path, witness: Witness
) -> None:
    async with rig_in(tmp_path, witness) as rig:
        await rig.grow(1)
        shown = DurableCosignatures(rig.store.writer, partial(reading, tmp_path / DATABASE))
        await shown.keep(WitnessKey.parse(witness.vkey).id, 9, "x\n")
        with pytest.raises(NotDelivered, match="cosigned 9 records of this log, which has 1"):
            await rig.asked()
        assert (len(rig.alarms), witness.asked) == (1, [])


def test_the_code_of_the_record_is_the_documented_one() -> None:
    assert DISAGREES == "witness_disagrees"
