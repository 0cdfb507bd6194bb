import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.search.minilm import MiniLM
from gateway.search.vectors import numbers
from gateway.search.wordpiece import WordPieces
from tests.search.weights import MODEL, MODEL_DIGEST

TASKS = Path("/proc/self/task")
_VOCABULARY = ["[UNK]", "[CLS]", "[SEP]", "play", "##ing", ",", "cafe", "我", "un", "##able"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Playing, Café", [1, 3, 4, 5, 6, 2]),
        ("我 unable\x00", [1, 7, 8, 9, 2]),
        ("xyz " + "a" * 101, [1, 0, 0, 2]),
        ("", [1, 2]),
    ],
    ids=range(4),
)
def test_words_are_cut_into_pieces_of_the_vocabulary(text, pieces):
    assert WordPieces(_VOCABULARY).numbers(text) == pieces


def test_a_text_is_read_up_to_a_limit():
    pieces = WordPieces(_VOCABULARY).numbers("play " * 1000)
    assert (len(pieces), pieces[0], pieces[-1]) == (128, 1, 2)


@pytest.fixture(scope="module")
def model():
    if not MODEL.exists():
        pytest.skip("the weights are not installed: make model")
    return MiniLM(MODEL, MODEL_DIGEST)


def test_the_model_gives_the_published_numbers(model):
    (vector,) = map(numbers, model.embed(["This is an example sentence"]))
    assert [round(float(number), 4) for number in vector[:4]] == [0.0677, 0.0635, 0.0487, 0.0793]
    assert len(vector) == 384


def test_what_is_embedded_together_does_not_matter(model):
    texts = ["weather in Paris", "a much longer text about files, tables and reports", "x"]
    together, alone = model.embed(texts), [model.embed([text])[0] for text in texts]
    for left, right in zip(together, alone, strict=True):
        assert abs(numbers(left) - numbers(right)).max() < 1e-5


def test_other_weights_than_the_pinned_ones_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(ConfigError, match="cannot be read"):
        MiniLM(path, MODEL_DIGEST)
    path.write_bytes(b"other")
    with pytest.raises(ConfigError, match="is not what was pinned: it is sha256:"):
        MiniLM(path, MODEL_DIGEST)


@pytest.mark.skipif(not TASKS.exists(), reason="threads are counted in /proc")
def test_the_library_under_it_starts_no_threads_of_its_own(tmp_path):
    program = f"""
import os
from contextlib import suppress
from pathlib import Path
from gateway.errors import ConfigError
from gateway.search.finder import load_embedder
with suppress(ConfigError):
    load_embedder(Path({str(tmp_path)!r}), {MODEL_DIGEST!r})
import numpy
numpy.ones((500, 500)) @ numpy.ones((500, 500))
print(len(os.listdir({str(TASKS)!r})))
"""
    environment = {name: text for name, text in os.environ.items() if "NUM_THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )
    assert done.stdout == "1\n"


def test_another_vocabulary_is_refused(model, tmp_path):
    os.link(MODEL, tmp_path / "model.safetensors")
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(ConfigError, match=r"vocab.txt is not what was pinned"):
        MiniLM(tmp_path / "model.safetensors", MODEL_DIGEST)


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 1 << 40),
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 3) + b"[]x",
        b"",
    ],
    ids=["endless", "empty", "no-object", "nothing"],
)
def test_a_file_that_holds_no_such_model_is_refused(model, tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    os.link(MODEL.with_name("vocab.txt"), tmp_path / "vocab.txt")
    with pytest.raises(ConfigError, match="does not hold"):
        MiniLM(path, "sha256:" + hashlib.sha256(content).hexdigest())
