"""The index of the log: opened with the use cases, kept up while the gateway runs."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager

from gateway.admin.archive import Archive
from gateway.errors import AuditUnavailable
from gateway.storage.answers import Answers
from gateway.storage.index import AuditIndex, NoIndex
from gateway.storage.store import Store
from gateway.wiring.background import begun, ended


@contextmanager
def archive_of(store: Store) -> Iterator[Archive]:
    """Open the log of `store` for searching, with its index, which is made where there is none.

    One that cannot be made costs the answers that need it, and nothing else.
    """
    with ExitStack() as stack:
        index: AuditIndex | NoIndex
        try:
            index = stack.enter_context(closing(AuditIndex.open(store.data_dir)))
        except AuditUnavailable as error:
            index = NoIndex(error)
        indexed = isinstance(index, AuditIndex)
        answers = stack.enter_context(closing(Answers.open(store.data_dir, indexed=indexed)))
        yield Archive(answers, index)


@asynccontextmanager
async def kept_up(archive: Archive) -> AsyncIterator[None]:
    """Keep the index up with the log until the context ends."""
    following = begun(archive.follow(), "indexing the log")
    try:
        yield
    finally:
        await ended(following)
