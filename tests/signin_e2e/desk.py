"""What a client finds when it opens a browser: a person, who does what the pages ask for."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.signin_e2e.browser import Person

_LOOK_EVERY_S = 0.05


class Desk:
    """A person whom clients find through `BROWSER`, and what they were asked for."""

    def __init__(self, person: Person, folder: Path) -> None:
        self._person = person
        self._asked = folder / "asked"
        self._program = folder / "browser"
        self._visits: list[tuple[str, ...]] = []
        self._answered = 0
        self._closing = False
        self.urls: list[str] = []
        """Where the browser was sent, each time."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Everything that a client is told about the system it runs on."""
        # Without a display, the opener of desktops takes what BROWSER names.
        return {"BROWSER": str(self._program), "PATH": os.environ["PATH"], "NO_COLOR": "1"}

    async def visits(self) -> Sequence[tuple[str, ...]]:
        """Return what the person did each time that the browser was opened.

        A client may go on before the person has seen its last page: this waits for them.
        """
        while self._answered < len(self._lines()):
            await asyncio.sleep(_LOOK_EVERY_S)
        return tuple(self._visits)

    async def visit(self, url: str) -> str:
        """Follow `url` as the person does; return where that ends."""
        self.urls.append(url)
        end = await self._person.follow(url)
        self._visits.append(tuple(self._person.clicks))
        return end

    def open(self) -> None:
        """Put the program in its place."""
        self._asked.touch()
        asked = shlex.quote(str(self._asked))
        self._program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >>{asked}\n')
        self._program.chmod(0o700)

    def close(self) -> None:
        """Let `watch` end, once everything is answered."""
        self._closing = True

    def _lines(self) -> Sequence[str]:
        return self._asked.read_text().split("\n")[:-1]

    async def watch(self) -> None:
        """Answer whatever opens a browser."""
        while True:
            closing = self._closing
            for url in self._lines()[self._answered :]:
                await self.visit(url)
                self._answered += 1
            if closing:
                return
            await asyncio.sleep(_LOOK_EVERY_S)


@asynccontextmanager
async def desk(person: Person, folder: Path) -> AsyncIterator[Desk]:
    """Let `person` answer whatever opens a browser, while the context is open.

    What the person meets with ends it: a client would wait for them in vain.
    """
    made = Desk(person, folder)
    made.open()
    async with asyncio.TaskGroup() as group:
        group.create_task(made.watch())
        try:
            yield made
        finally:
            made.close()
