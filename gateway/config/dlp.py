"""An operator's own classes of sensitive data: `dlp`. What becomes of them is policy's."""

from typing import Annotated, Self

import re2
from pydantic import AfterValidator, StringConstraints, model_validator

from gateway.config.section import Section, Word, written
from gateway.config.values import LocalPath
from gateway.dlp.lists import Listed, read_list

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
_LARGEST_BYTES = 256 * 1024**2


def _pattern(text: str) -> str:
    try:
        found = re2.compile(text.encode())
    except re2.error as error:
        raise ValueError(f"is no RE2 expression: {error}") from None
    if found.search(b"") is not None:
        raise ValueError("matches where there is nothing, and so everywhere")
    return text


_Pattern = Annotated[
    str, StringConstraints(min_length=1, max_length=2048), AfterValidator(_pattern)
]


class ListSection(Section):
    file: LocalPath
    """Of `douane dlp list`: hashes of values, or of passages of documents."""

    @model_validator(mode="after")
    def _is_a_list(self) -> Self:
        self.read("own:checked")
        return self

    def read(self, of: str) -> Listed:
        """Return the list, whose values are of class `of`.

        Raises:
            ValueError: It cannot be read, or is none.

        """
        try:
            if self.file.stat().st_size > _LARGEST_BYTES:
                raise ValueError(f"`{self.file}` is larger than {_LARGEST_BYTES} bytes")
            return read_list(of, self.file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read `{self.file}`: {error}") from None


class NamesSection(Section):
    model: Word
    """A spaCy model that is installed, such as `en_core_web_sm`."""
    language: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}$")] = "en"
    """Of the model (ISO 639-1)."""


class DlpSection(Section):
    patterns: dict[_Name, _Pattern] = written({})
    """RE2 expressions; what matches is of class `own:NAME`."""
    names: NamesSection | None = None
    """With it people and places are found, of classes `person` and `address`; that is slow."""
    lists: dict[_Name, ListSection] = written({})
    """What stands word for word; it is of class `own:NAME`."""

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if twice := self.patterns.keys() & self.lists.keys():
            raise ValueError(f"`{min(twice)}` names a pattern and a list; give each its own name")
        return self
