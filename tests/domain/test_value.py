"""What a value is: frozen, compared by content, built by keyword, and silent about secrets."""

from dataclasses import asdict, field, fields, replace
from typing import Any

import pytest

from gateway.domain._value import value


@value
class Door:
    """A value with one field of each sort."""

    name: str
    key: str = field(repr=False)
    seen: str = field(default="", compare=False)
    signs: dict[str, int] = field(default_factory=dict)

    @property
    def sign(self) -> str:
        """What a value works out."""
        return self.name.upper()


DOOR = Door(name="front", key="k-1")


def test_a_value_is_what_it_was_made_with() -> None:
    assert (DOOR.name, DOOR.key, DOOR.seen, DOOR.signs, DOOR.sign) == (
        "front",
        "k-1",
        "",
        {},
        "FRONT",
    )
    assert Door(name="a", key="b").signs is not Door(name="a", key="b").signs


@pytest.mark.parametrize("name", ["name", "key", "other"])
def test_nothing_of_it_changes(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(DOOR, name, "x")
    with pytest.raises(AttributeError):
        delattr(DOOR, name)


def test_it_is_built_by_keyword() -> None:
    made: Any = Door
    for arguments in (("front", "k-1"), ("front",)):
        with pytest.raises(TypeError):
            made(*arguments)
    with pytest.raises(TypeError):
        made(name="front")
    with pytest.raises(TypeError):
        made(name="front", key="k-1", other=1)


def test_what_is_not_to_be_told_is_not() -> None:
    assert repr(DOOR) == "Door(name='front', seen='', signs={})"


def test_it_is_compared_by_what_counts() -> None:
    again = replace(DOOR, seen="today")
    assert (again, hash(Door(name="a", key="b", signs=()))) == (  # type: ignore[arg-type]
        DOOR,
        hash(Door(name="a", key="b", seen="x", signs=())),  # type: ignore[arg-type]
    )
    assert replace(DOOR, key="k-2") != DOOR
    anything: object = ("front", "k-1", "", {})
    assert anything != DOOR


def test_it_is_a_dataclass_to_whoever_asks() -> None:
    assert [one.name for one in fields(DOOR)] == ["name", "key", "seen", "signs"]
    assert asdict(DOOR) == {"name": "front", "key": "k-1", "seen": "", "signs": {}}


def test_a_value_has_no_base() -> None:
    with pytest.raises(TypeError, match="composed"):
        value(type("Back", (Door,), {}))
