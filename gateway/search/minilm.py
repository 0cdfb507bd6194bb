"""all-MiniLM-L6-v2 on numpy alone: six layers of BERT, averaged. Weights are data, never code.

The form of the network is BERT's (https://arxiv.org/abs/1810.04805), its numbers those of
sentence-transformers/all-MiniLM-L6-v2.
"""

import hashlib
import hmac
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.errors import ConfigError
from gateway.search.vectors import Numbers, blob
from gateway.search.wordpiece import WordPieces

VOCABULARY_DIGEST = "sha256:07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""Of `vocab.txt` beside the weights: that of every uncased English BERT model."""
_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_HEAD_WIDTH = _WIDTH // _HEADS
_BATCH = 16
_EPSILON = 1e-12
_HIDDEN = -1e9
"""Added to the attention to a position that is only padding."""
_HEADER_BYTES = 8
_LONGEST_HEADER = 1 << 20

Whole = NDArray[np.int64]


class MiniLM:
    """An `Embedder`. Its weights take about 90 MB; a short query about 10 ms on one core."""

    def __init__(self, path: Path, digest: str) -> None:
        """Load the weights at `path`, in the safetensors format, and `vocab.txt` beside them.

        Raises:
            ConfigError: A file is missing, is not the one that was pinned, or holds another model.

        """
        weights = _read_pinned(path, digest)
        vocabulary = _read_pinned(path.with_name("vocab.txt"), VOCABULARY_DIGEST)
        self._pieces = WordPieces(vocabulary.decode().split("\n"))
        try:
            self._network = _Network(_tensors(weights))
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"{path} does not hold all-MiniLM-L6-v2") from error
        self._model = digest

    @property
    def model(self) -> str:
        """The digest of the weights."""
        return self._model

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of 384 numbers, of length 1, for each text."""
        pieces = [self._pieces.numbers(text) for text in texts]
        # Texts of one length need no padding; close lengths need little.
        order = sorted(range(len(pieces)), key=lambda at: len(pieces[at]))
        vectors = [b""] * len(texts)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            found = self._network.averages([pieces[at] for at in batch])
            for at, vector in zip(batch, found, strict=True):
                vectors[at] = blob(vector)
        return vectors


def _read_pinned(path: Path, digest: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; put the weights and their vocabulary there"
        ) from error
    found = "sha256:" + hashlib.sha256(content).hexdigest()
    if not hmac.compare_digest(found, digest):
        raise ConfigError(
            f"{path} is not what was pinned: it is {found}; "
            "put the pinned file there, or pin this one if it is the one you mean"
        )
    return content


def _tensors(content: bytes) -> dict[str, Numbers]:
    """Read the safetensors format: a length, a JSON header, raw numbers."""
    size = int.from_bytes(content[:_HEADER_BYTES], "little")
    if size > _LONGEST_HEADER:
        raise ValueError("the header is too long")
    begin = _HEADER_BYTES + size
    header = json.loads(content[_HEADER_BYTES:begin])
    return {
        name: _tensor(content, begin, entry)
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


def _tensor(content: bytes, begin: int, entry: dict[str, Any]) -> Numbers:
    shape = tuple(entry["shape"])
    start = begin + int(entry["data_offsets"][0])
    flat = np.frombuffer(content, "<f4", count=math.prod(shape), offset=start)
    # Copied: within the file they are not aligned, which makes products five times slower.
    return flat.reshape(shape).astype(np.float32, copy=True)


class _Layer:
    """One layer: attention, then two products with a bend between them."""

    def __init__(self, tensors: dict[str, Numbers], number: int) -> None:
        name = f"encoder.layer.{number}."
        queries = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
        self._asked = _turned(np.concatenate([tensors[f"{one}.weight"] for one in queries]))
        self._asked_bias = np.concatenate([tensors[f"{one}.bias"] for one in queries])
        self._attended = _Product(tensors, f"{name}attention.output.dense")
        self._attended_norm = _Norm(tensors, f"{name}attention.output.LayerNorm")
        self._wide = _Product(tensors, f"{name}intermediate.dense")
        self._narrow = _Product(tensors, f"{name}output.dense")
        self._norm = _Norm(tensors, f"{name}output.LayerNorm")

    def __call__(self, states: Numbers, padding: Numbers) -> Numbers:
        count, length = states.shape[:2]
        asked = states @ self._asked + self._asked_bias
        split = asked.reshape(count, length, 3, _HEADS, _HEAD_WIDTH).transpose(2, 0, 3, 1, 4)
        query, key, content = split
        attention = _softmax(query @ key.transpose(0, 1, 3, 2) / math.sqrt(_HEAD_WIDTH) + padding)
        mixed = (attention @ content).transpose(0, 2, 1, 3).reshape(count, length, _WIDTH)
        states = self._attended_norm(states + self._attended(mixed))
        return self._norm(states + self._narrow(_gelu(self._wide(states))))


class _Network:
    def __init__(self, tensors: dict[str, Numbers]) -> None:
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = tensors["embeddings.position_embeddings.weight"]
        self._type = tensors["embeddings.token_type_embeddings.weight"][0]
        self._norm = _Norm(tensors, "embeddings.LayerNorm")
        self._layers = [_Layer(tensors, number) for number in range(_LAYERS)]
        if self._words.shape[1] != _WIDTH:
            raise ValueError("the vectors have another width")

    def averages(self, texts: Sequence[Sequence[int]]) -> Numbers:
        """Return the mean of each text's final states, brought to length 1."""
        length = max(map(len, texts))
        numbers: Whole = np.zeros((len(texts), length), dtype=np.int64)
        mask = np.zeros((len(texts), length), dtype=np.float32)
        for row, pieces in enumerate(texts):
            numbers[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        padding = ((1 - mask) * np.float32(_HIDDEN))[:, None, None, :]
        states = self._norm(self._words[numbers] + self._positions[:length] + self._type)
        for layer in self._layers:
            states = layer(states, padding)
        weights = mask[..., None]
        mean = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), dtype=np.float32)


class _Product:
    def __init__(self, tensors: dict[str, Numbers], name: str) -> None:
        self._weight = _turned(tensors[f"{name}.weight"])
        self._bias = tensors[f"{name}.bias"]

    def __call__(self, states: Numbers) -> Numbers:
        return states @ self._weight + self._bias


class _Norm:
    def __init__(self, tensors: dict[str, Numbers], name: str) -> None:
        self._weight = tensors[f"{name}.weight"]
        self._bias = tensors[f"{name}.bias"]

    def __call__(self, states: Numbers) -> Numbers:
        centred = states - states.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return np.asarray(centred / np.sqrt(variance + _EPSILON) * self._weight + self._bias)


def _turned(weight: Numbers) -> Numbers:
    return np.ascontiguousarray(weight.T)


def _softmax(found: Numbers) -> Numbers:
    powers = np.exp(found - found.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _gelu(found: Numbers) -> Numbers:
    return np.asarray(0.5 * found * (1 + _erf(found / np.float32(math.sqrt(2)))))


def _erf(found: Numbers) -> Numbers:
    """Abramowitz and Stegun, 7.1.26: off by less than 1.5e-7."""
    size = np.abs(found)
    t = 1 / (1 + np.float32(0.3275911) * size)
    polynomial = t * (
        np.float32(0.254829592)
        + t
        * (
            np.float32(-0.284496736)
            + t
            * (
                np.float32(1.421413741)
                + t * (np.float32(-1.453152027) + t * np.float32(1.061405429))
            )
        )
    )
    return np.asarray(np.sign(found) * (1 - polynomial * np.exp(-size * size)))
