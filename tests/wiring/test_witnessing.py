"""Each witness of the configuration is asked, by a follower of its own, and nowhere else."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from gateway.config import Config, load
from gateway.ports.following import NotDelivered, StoredRecord
from gateway.storage.store import Store
from gateway.web.metrics import Metrics
from gateway.wiring.exporting import configured_in
from gateway.wiring.recorded import recorded
from gateway.wiring.witnessing import witnesses_of
from tests.export.witness import Witness, witnessing
from tests.storage.logged import NOW, append, made

FIRST = StoredRecord(leaf_index=0, leaf_hash=b"", body=b"")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "data", clock=lambda: NOW)
    await append(store, made("1"))
    await store.writer.sign()
    yield store
    await store.close()


def config(folder: Path, **urls: str) -> Config:
    path = folder / "douane.yaml"
    witnesses = {
        name: {"url": url, "key": Witness(seed=seed).vkey}
        for seed, (name, url) in enumerate(urls.items(), 7)
    }
    said = {
        "version": 1,
        "public_url": "http://127.0.0.1:1",
        "audit": {"checkpoints": {"witnesses": witnesses}},
        "alerts": {"baselines": "off"},
    }
    path.write_text(orjson.dumps(said).decode())
    return load(path, {})


def test_every_witness_follows_under_a_name_of_its_own(tmp_path: Path, store: Store) -> None:
    found = config(tmp_path, w1="https://w.example/1", w2="https://w.example/2")
    followers = recorded(lambda: found, store, Metrics()).followers
    assert {one.name for one in followers} == {"witness w1", "witness w2"}
    assert configured_in(found) == {"witness w1", "witness w2"}


@pytest.mark.parametrize("url", ["https://10.0.0.1/in", "https://169.254.169.254/latest"])
async def test_a_witness_at_no_public_address_has_to_be_allowed(
    tmp_path: Path, store: Store, url: str
) -> None:
    ((_, sink),) = witnesses_of(config(tmp_path, w1=url), store)
    with pytest.raises(NotDelivered, match="not public"):
        await sink.deliver([FIRST])


async def test_what_a_witness_disputes_is_on_record(tmp_path: Path, store: Store) -> None:
    with witnessing(Witness()) as witness:
        witness.seen[store.log_id] = 7, b"another root"
        ((_, sink),) = witnesses_of(config(tmp_path, w1=witness.url), store)
        with pytest.raises(NotDelivered, match="has cosigned 7 records"):
            await sink.deliver([FIRST])
    with closing(store.log.reader()) as reader:
        (record,) = reader.after(1)
    assert (record["kind"], record["code"]) == ("system", "witness_disagrees")
    assert record["reasons"][0]["message"].startswith("witness w1 has cosigned 7 records of this")
    assert record["evidence"] == {
        "witness": "w1",
        "key": witness.vkey.rpartition("+")[0],
        "status": 409,
        "cosigned": 7,
        "size": 2,
    }
