"""The index of the log: opened with the use cases, kept up while the gateway runs."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager

from gateway.admin.archive import Archive, Index
from gateway.errors import AuditUnavailable
from gateway.storage.index import NoIndex
from gateway.wiring.background import begun, ended
from gateway.wiring.stores import Stores


@contextmanager
def archive_of(store: Stores) -> Iterator[Archive]:
    """Open the log of `store` for searching, with its index, which is made where there is none.

    One that cannot be made costs the answers that need it, and nothing else.
    """
    with ExitStack() as stack:
        index: Index
        try:
            index = stack.enter_context(closing(store.log.index()))
        except AuditUnavailable as error:
            index = NoIndex(error)
        indexed = not isinstance(index, NoIndex)
        answers = stack.enter_context(closing(store.log.answers(indexed=indexed)))
        yield Archive(answers, index)


@asynccontextmanager
async def kept_up(archive: Archive) -> AsyncIterator[None]:
    """Keep the index up with the log until the context ends."""
    following = begun(archive.follow(), "indexing the log")
    try:
        yield
    finally:
        await ended(following)
