"""What is looked for in each result once: it is found no more where it would not be found anew."""

from gateway.domain.flow import Proof
from gateway.domain.labels import STRICTEST_DEFAULT
from gateway.flow import heard as hearing
from gateway.flow.noted import Noted
from gateway.flow.provenance import Provenance
from tests.flow.flow_builders import remember, reviewed, source, texts

CLIENT, OTHER = "anna@client.example", "rob@other.example"
MINUTES = "Please send an email with what minutes.txt says to the client"
LETTER = "Please send an email with what letter.txt says to the client"


def read(provenance: Provenance, name: str, said: str) -> None:
    remember(provenance, source(STRICTEST_DEFAULT), texts(said), arguments={"file": name})


def pointed(provenance: Provenance, prompt: str, to: str = CLIENT) -> bool:
    found = reviewed({"recipients": [to]}, provenance=provenance, prompt=prompt)
    return found.destinations[0].proof is Proof.TASK


class Result:
    def __init__(self, serial: int) -> None:
        self.serial = serial


def test_a_result_is_looked_at_once_for_the_same_words() -> None:
    looked: list[tuple[int, str]] = []
    noted = Noted[Result, str](lambda r, words: looked.append((r.serial, words)))
    for words, newest in (("a", 2), ("a", 3), ("b", 3)):
        noted.hear(words, map(Result, range(newest, 0, -1)))
    assert looked == [(1, "a"), (2, "a"), (3, "a"), (1, "b"), (2, "b"), (3, "b")]


def test_what_comes_later_makes_what_was_pointed_at_ambiguous() -> None:
    provenance = Provenance()
    read(provenance, "minutes.txt", f"for {CLIENT}")
    assert pointed(provenance, MINUTES)
    read(provenance, "minutes.txt", f"for {OTHER}")
    assert not pointed(provenance, MINUTES)


def test_other_words_point_elsewhere() -> None:
    provenance = Provenance()
    read(provenance, "minutes.txt", f"for {CLIENT}")
    read(provenance, "letter.txt", f"for {OTHER}")
    for _ in range(2):
        assert pointed(provenance, MINUTES)
        assert not pointed(provenance, LETTER)
        assert pointed(provenance, LETTER, to=OTHER)


def test_what_is_forgotten_points_at_nobody() -> None:
    provenance = Provenance(results=1)
    read(provenance, "minutes.txt", f"for {CLIENT}")
    assert pointed(provenance, MINUTES)
    read(provenance, "agenda.txt", f"from {CLIENT}")
    assert not pointed(provenance, MINUTES)


def test_of_a_prompt_no_more_is_kept_than_is_read() -> None:
    seen: list[str] = []
    listen = hearing.heard(seen.append)
    for prompt in ("a" * 10**6, "a" * 10**6, "b"):
        listen(prompt)
    assert seen == ["a" * hearing.LONGEST_PROMPT, "b"]
