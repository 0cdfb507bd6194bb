"""Names of people and places, by Presidio and a model of language: an extra, and slow."""

from collections.abc import Iterator
from threading import Lock
from typing import Any, Final

from gateway.errors import ConfigError

_ENTITIES: Final = {"person": "PERSON", "address": "LOCATION"}
_LONGEST: Final = 100_000
"""Characters that are looked at in one go; what is longer is looked at in pieces."""


class Names:
    """One model, asked once about a text for both classes."""

    def __init__(self, model: str, language: str) -> None:
        """Load the spaCy `model` of `language` (ISO 639-1), which is installed; nothing is fetched.

        Raises:
            ConfigError: Presidio or the model is not installed.

        """
        self._language = language
        self._analyzer = _analyzer(model, language)
        self._lock = Lock()
        self._last: tuple[str, list[Any]] = ("", [])

    @property
    def finders(self) -> tuple["Finder", ...]:
        """What finds each class."""
        return tuple(Finder(self, of) for of in _ENTITIES)

    def spans(self, of: str, text: str) -> Iterator[tuple[int, int]]:
        """Yield where something of class `of` stands in `text`, in bytes of UTF-8."""
        with self._lock:
            if self._last[0] != text:
                self._last = text, self._analyzed(text)
            found = self._last[1]
        for start, end, entity in found:
            if entity == _ENTITIES[of]:
                before = len(text[:start].encode("utf-8", "surrogatepass"))
                yield before, before + len(text[start:end].encode("utf-8", "surrogatepass"))

    def _analyzed(self, text: str) -> list[tuple[int, int, str]]:
        found = []
        for begin in range(0, len(text), _LONGEST):
            piece = text[begin : begin + _LONGEST]
            told = self._analyzer.analyze(
                piece, language=self._language, entities=list(_ENTITIES.values())
            )
            found += [(begin + one.start, begin + one.end, one.entity_type) for one in told]
        return found


class Finder:
    """Finds one class; of group `names`."""

    group = "names"
    is_slow = True

    def __init__(self, names: Names, of: str) -> None:
        self.of = of
        self._names = names

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where something of it stands in `text`, in bytes of UTF-8."""
        return self._names.spans(self.of, text)


def _analyzer(model: str, language: str) -> Any:
    try:
        import spacy.util  # noqa: PLC0415 - an extra, which takes seconds to load
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # noqa: PLC0415
        from presidio_analyzer.nlp_engine import NlpEngineProvider  # noqa: PLC0415
        from presidio_analyzer.predefined_recognizers import SpacyRecognizer  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "`dlp.names` needs Presidio: install Douane with its extra `names`, or leave it out"
        ) from None
    if not spacy.util.is_package(model):
        # Presidio would fetch it.
        raise ConfigError(f"`dlp.names.model`: no spaCy model called {model} is installed")
    engine = NlpEngineProvider(
        nlp_configuration={
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": language, "model_name": model}],
        }
    ).create_engine()
    recognizer = SpacyRecognizer(
        supported_language=language, supported_entities=list(_ENTITIES.values())
    )
    registry = RecognizerRegistry(recognizers=[recognizer], supported_languages=[language])
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])
