"""How tools are found at `/mcp`: the index, the operator's model, and who else may be asked."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from gateway.config import Config
from gateway.config.discovery import Model
from gateway.errors import ConfigError
from gateway.search.catalog import Approved, Catalog
from gateway.search.finder import Finder, Meaning, load_embedder, load_meaning
from gateway.search.subagent import Subagent
from gateway.storage.vectors import SqliteVectors
from gateway.upstream.egress import EgressPolicy, GuardedFetcher
from gateway.wiring.background import begun, ended

_ANYWHERE = EgressPolicy.of(["0.0.0.0/0", "::/0"])
"""The operator named the URL, as those of servers; nobody else has a say in where it leads."""
_ANSWER_BYTES = 64 * 1024


class Searching:
    """What searches need of a configuration."""

    def __init__(self, catalog: Catalog, subagent: Subagent | None) -> None:
        self.catalog = catalog
        self.subagent = subagent
        self._keeping: asyncio.Task[None] | None = None

    def begin(self, approved: Callable[[], Mapping[str, Approved]]) -> None:
        """Index what is approved in the background, from now on and after every change."""
        self._keeping = begun(self.catalog.keep_ready(approved), "indexing of tools")

    def facts(self) -> Mapping[str, str]:
        """Return what /readyz says of tools that are not placed by meaning yet; nothing, if all are."""
        placed = self.catalog.placed
        if placed is None or placed[0] == placed[1]:
            return {}
        return {"search": f"{placed[0]} of {placed[1]} tools are found by meaning"}

    async def aclose(self) -> None:
        """End what was begun."""
        if self._keeping is not None:
            await ended(self._keeping)
        self.catalog.close()


@asynccontextmanager
async def searching(config: Config) -> AsyncIterator[Searching]:
    """Open what searches need, and close it.

    Raises:
        ConfigError: The model cannot be used, or the file of its vectors.

    """
    async with AsyncExitStack() as stack:
        meaning = None
        if config.discovery.model is not None:
            vectors = SqliteVectors(config.data_dir)
            stack.callback(vectors.close)
            meaning = await asyncio.to_thread(_loaded, config.discovery.model, vectors)
        found = Searching(Catalog(Finder(meaning)), _subagent(config))
        stack.push_async_callback(found.aclose)
        yield found


def check_model(config: Config) -> None:
    """Load the model that `config` names, if it names one, and let it go.

    Raises:
        ConfigError: It cannot be used.

    """
    model = config.discovery.model
    if model is not None:
        with _told_of_its_key():
            load_embedder(model.path, model.digest)


def _loaded(model: Model, store: SqliteVectors) -> Meaning:
    with _told_of_its_key():
        return load_meaning(model.path, model.digest, store)


@contextmanager
def _told_of_its_key() -> Iterator[None]:
    """Say with a problem of the model where in the configuration it is named."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"discovery.model: {error.public}") from error


def _subagent(config: Config) -> Subagent | None:
    said = config.discovery.subagent
    if said is None:
        return None
    fetcher = GuardedFetcher(
        _ANYWHERE, ca=config.egress.ca, most_bytes=_ANSWER_BYTES, whole_s=said.deadline
    )
    token = "" if said.token is None else said.token.resolve(os.environ).reveal()
    return Subagent(said.url, fetcher=fetcher, token=token)
