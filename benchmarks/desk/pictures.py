"""`make pictures`: take the pictures of docs/desk.md anew, of a real gateway in a real browser."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import ROOT
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, instead, raw_in_a_thread
from tests.e2e.site import Corridor
from tests.e2e.test_changes_while_it_runs import lists, poisoned
from tests.signin_e2e.browser import Chromium, chromium
from tests.signin_e2e.desk_sitting import desk_gateway, sitting

FOLDER = ROOT / "docs" / "pictures"
SIZE = (1180, 720)


def prepare(corridor: Corridor, raw: Raw) -> str:
    """Have calls wait and a definition change; return a question."""
    poster = Poster(corridor, "raw")
    found = ""
    for text in ("the list you asked for", "hidden\u200b words \u202e", "a third one"):
        result: Any = poster.call("allowed", {"text": text}).json["result"]
        found = result["_meta"]["douane/refusal"]["approval_id"]
    raw.play(instead("tools/list", lists(poisoned("slow"))))
    corridor.running.rows("servers", "refresh", "raw")
    return found


async def take(corridor: Corridor, browser: Chromium, question: str, folder: Path) -> None:
    """Take every picture as an administrator sees the page."""
    pages = {
        "now": ("/desk", "light"),
        "question": (f"/desk/approvals/{question}", "light"),
        "pin": ("/desk/pins/one?server=raw&kind=tool&name=slow", "dark"),
        "record": ("/desk/record?verdict=ask", "dark"),
    }
    with sitting(corridor, browser, "rita") as rita:
        await rita.sign_in()
        for name, (path, scheme) in pages.items():
            file = folder / f"desk-{name}.png"
            await rita.picture(path, file, scheme=scheme, size=SIZE, whole=False)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    with (
        chromium() as browser,
        raw_in_a_thread() as raw,
        tempfile.TemporaryDirectory() as folder,
        desk_gateway(Path(folder), raw, browser) as corridor,
    ):
        asyncio.run(take(corridor, browser, prepare(corridor, raw), FOLDER))
    return 0


if __name__ == "__main__":
    sys.exit(main())
