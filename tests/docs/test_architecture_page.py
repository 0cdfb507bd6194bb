"""docs/architecture.md: its floors and rooms are those that the linter of imports holds."""

import re
import tomllib

from tests.docs.pages import ROOT, blocks, rows, spans

PAGE = ROOT / "docs" / "architecture.md"


def floors() -> list[set[str]]:
    """Return the rooms of each floor, from the roof down, as the linter knows them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (one["layers"] for one in settings["contracts"] if one["type"] == "layers")
    return [set(layer.split(" | ")) for layer in layers]


def test_the_drawn_floors_are_the_linters() -> None:
    (drawn,) = (text for text in blocks(PAGE, "") if text.startswith(" roof"))
    rooms = {room for floor in floors() for room in floor}
    named = [
        {
            word
            for word in re.findall(r"\w+", re.split(r" {2,}", line[8:].strip())[0])
            if word in rooms
        }
        for line in drawn.splitlines()
    ]
    *upper, ground = named
    assert ground == {"ports", "http1", "processes", "turns", "domain", "errors"}
    use_cases, adapters = (
        index for index, one in enumerate(upper) if one & {"pipeline", "storage"}
    )
    merged = [*upper[:use_cases], upper[use_cases] | upper[adapters], *upper[adapters + 1 :]]
    assert merged == floors()[: len(merged)]


def test_every_room_is_said_in_a_sentence() -> None:
    told = {spans(row["room"])[0] for row in rows(PAGE, "room")}
    rooms = {room for floor in floors() for room in floor}
    assert rooms <= {name.removeprefix("gateway/").removesuffix(".py") for name in told}
