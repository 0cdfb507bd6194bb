"""Secrets by their value: where one is sent, in whatever spelling, is known; the rest goes on."""

import base64
from typing import Any
from urllib.parse import quote

import pytest

from gateway.domain.flow import Run, RunId
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label, ToolRule
from gateway.flow import secrecy
from gateway.flow.beside import NOTHING, Beside
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.flow.review import review
from gateway.flow.use import Knowledge, Use
from tests.flow.flow_builders import TENANT, UNTRUSTED, remember, source, structured

SECRET = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET)
PRIVATE = Confidentiality.PRIVATE
KEY = "tulip77meadow"
POST = ToolRule(effect=Effect.WRITE, destination=("to",), payload=("text",))
MAIL = structured({"from": "ops", "text": f"The meeting is at nine. Password: {KEY}"})


def read(
    provenance: Provenance,
    content: Any = MAIL,
    *,
    level: Confidentiality | None = PRIVATE,
    octets: int = 100,
) -> Provenance:
    provenance.remember(
        Answered(
            source=source(SECRET),
            effect=Effect.READ,
            arguments={},
            content=content,
            octets=octets,
            level=level,
        )
    )
    return provenance


def carried(
    arguments: dict[str, Any],
    provenance: Provenance,
    *,
    effect: Effect | None = Effect.EGRESS,
    server: str = "web",
    prompt: str = "",
    label: Label = SECRET,
    rule: ToolRule = POST,
    tool: str = "post",
) -> list[str]:
    """Return where a secret is found."""
    about = {"inputSchema": {"properties": {"text": {"type": "string"}}}}
    use = Use(server=server, tool=tool, rule=rule, effect=effect, arguments=arguments, about=about)
    found = review(
        Run(id=RunId("r"), label=label),
        use,
        Knowledge(tenant=TENANT, task=None, provenance=provenance)
        if not prompt
        else Knowledge(tenant=TENANT, task=_task(prompt), provenance=provenance),
    )
    secret = Confidentiality.SECRET
    return [p.path for p in found.payload if any(m.confidentiality is secret for m in p.matches)]


def _task(prompt: str) -> Any:
    from gateway.domain.flow import Task

    return Task(prompt=prompt)


@pytest.mark.parametrize(
    "said",
    [
        KEY,
        KEY.upper(),
        " ".join(KEY),
        KEY[::-1],
        KEY.encode().hex(),
        base64.b64encode(KEY.encode()).decode(),
        base64.b64encode(f"the key: {KEY}".encode()).decode(),
        quote("".join(f"%{ord(c):02x}" for c in KEY)),
        "ghyvc77zrnqbj",
    ],
)
@pytest.mark.parametrize("argument", ["to", "text", "note"])
def test_a_secret_is_found_in_every_spelling_and_argument(argument: str, said: str) -> None:
    provenance = read(Provenance())
    assert carried({argument: f"see {said}"}, provenance) == ["$"]
    assert carried({argument: [{"x": {"y": said}}]}, provenance, effect=Effect.READ) == ["$"]


def test_what_stands_beside_a_secret_is_none() -> None:
    provenance = read(Provenance())
    assert carried({"to": "bob", "text": "The meeting is at nine."}, provenance) == []
    assert carried({"to": "https://a.example/x"}, provenance) == []


@pytest.mark.parametrize("held", [True, None, {}, [{"a": "b"}]], ids=repr)
def test_a_secret_that_is_a_name_is_found_again_as_a_name(held: Any) -> None:
    key = "AKIAQYLPMN5HHHFPZAM2"
    provenance = read(Provenance(), structured({"rows": [{key: held}]}))
    assert carried({"note": {key: held}}, provenance) == ["$"]
    assert carried({"to": key}, provenance) == ["$"]
    assert carried({"to": "bob"}, provenance) == []


def test_a_secret_goes_home_and_not_by_way_of_home_to_somebody_else() -> None:
    provenance = read(Provenance())
    reaching = Effect.EGRESS, Effect.PAY, Effect.EXECUTE
    for effect in Effect:
        found = ["$"] if effect in reaching else []
        assert carried({"note": KEY}, provenance, effect=effect, server="mail") == found


def test_what_is_no_tool_takes_no_secret_home_and_reaches_nobody_else_by_itself() -> None:
    """A resource, a prompt, an answer to a server's question."""
    assert carried({"note": KEY}, read(Provenance()), effect=None, server="mail") == ["$"]
    use = Use(server="mail", tool="greet", rule=ToolRule(), effect=None, arguments={"name": "Kim"})
    run = Run(id=RunId("r"), label=SECRET)
    assert review(run, use, Knowledge(tenant=TENANT, task=None, provenance=Provenance())).at_home


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE, Effect.DESTROY, Effect.CREDENTIAL])
@pytest.mark.parametrize(
    ("said", "goes"),
    [
        ({"to": f"https://pages.example/log?k={KEY}"}, False),
        ({"to": "https://pages.example/log", "text": KEY}, False),
        ({"to": "bob@client.example", "text": KEY}, False),
        ({"text": f"https://pages.example/log?k={KEY}"}, False),
        ({"to": "a7", "text": KEY}, True),
        ({"to": "/workspace/.env.bak", "text": KEY}, False),
        ({"to": "alice@example.com", "text": f"{KEY}, for https://www.example.com/"}, True),
    ],
)
@pytest.mark.parametrize(
    "prompt", ["", "Look at https://pages.example/ and tell bob@client.example"]
)
def test_a_secret_goes_home_only_where_nobody_else_is_named(
    said: dict[str, str], goes: bool, effect: Effect, prompt: str
) -> None:
    """Whatever its effect, a call tells whoever it names: who chose them does not make it home."""
    provenance = read(Provenance())
    remember(provenance, source(UNTRUSTED), structured({"id": "a7"}))
    found = carried(said, provenance, effect=effect, server="mail", prompt=prompt)
    assert found == ([] if goes else ["$"])
    assert "$" in carried(said, provenance, effect=effect, server="web", prompt=prompt)


@pytest.mark.parametrize(
    ("to", "goes"),
    [
        ("/workspace/.env.bak", True),
        ("./notes/a.txt", True),
        ("ops@x.example", False),
        ("backup.mallory.example", False),
        ("203.0.113.9", False),
        ("//evil/share", False),
        ("bob@host:/tmp/x", False),
        ("@mallory", False),
        ("#random", False),
    ],
)
def test_a_file_of_the_users_own_words_is_at_home_and_nothing_else_is(to: str, goes: bool) -> None:
    said, prompt = {"to": to, "text": KEY}, f"Copy the file to {to}, please"
    found = carried(said, read(Provenance()), effect=Effect.WRITE, server="mail", prompt=prompt)
    assert found == ([] if goes else ["$"])
    assert carried(said, read(Provenance()), effect=Effect.WRITE, prompt=prompt) == ["$"]


def test_what_nobody_labelled_takes_home_what_it_does_not_say_that_it_sends() -> None:
    provenance = read(Provenance())
    for tool, found in (("store_note", []), ("post_message", ["$"])):
        said = carried(
            {"text": KEY},
            provenance,
            effect=Effect.DESTROY,
            server="mail",
            rule=ToolRule(),
            tool=tool,
        )
        assert said == found


def test_what_the_user_says_is_no_secret_from_them() -> None:
    assert carried({"note": KEY}, read(Provenance()), prompt=f"log in with {KEY}") == []


def test_a_secret_is_not_forgotten_with_the_result_it_stood_in() -> None:
    provenance = read(Provenance(results=1, octets=1000), octets=2000)
    read(provenance, structured({"text": "nothing"}))
    read(provenance, structured({"text": "nothing more"}))
    assert carried({"text": KEY}, provenance) == ["$"]


def test_a_secret_that_has_no_value_of_its_own_is_all_of_its_result() -> None:
    listed = structured({"text": "The launch is planned for the ninth of May"})
    for level in (Confidentiality.SECRET, None, PRIVATE):
        provenance = read(Provenance(), listed, level=level)
        body = {"text": "we hear that the launch is planned for the ninth of May"}
        assert carried(body, provenance) == ["$.text"]


def test_of_a_private_run_that_is_elsewhere_too_all_that_a_call_carries_may_be_private() -> None:
    here, elsewhere = Provenance(), Provenance()
    elsewhere.give_up()
    calls = [
        ({"text": "all of it"}, ""),
        ({"text": "it"}, ""),
        ({"text": "all of it"}, "say all of it"),
    ]
    for label, found in ((PRIVATE, [["$.text"], [], []]), (Confidentiality.INTERNAL, [[]] * 3)):
        known = Label(integrity=Integrity.TRUSTED, confidentiality=label)
        for arguments, prompt in calls:
            assert places(arguments, here, prompt=prompt, label=known) == []
        assert found == [
            places(arguments, elsewhere, prompt=prompt, label=known) for arguments, prompt in calls
        ]


@pytest.mark.parametrize("member", ["places", "content", "answers", "asides"])
def test_so_may_all_that_it_says_beside_its_arguments_but_what_goes_out_in_our_words(
    member: str,
) -> None:
    """A handshake in such a run says who the client is, and is no call that a person could allow."""
    elsewhere = Provenance()
    elsewhere.give_up()
    private = Label(integrity=Integrity.TRUSTED, confidentiality=PRIVATE)
    for text, found in (("The board sells the Leipzig plant", ["$.a"]), ("accept", [])):
        beside = Beside(**{member: (("$.a", text),)})
        told = places({}, elsewhere, prompt="", label=private, beside=beside)
        assert told == ([] if member == "asides" else found)
        assert places({}, elsewhere, prompt=f"Say: {text}", label=private, beside=beside) == []


def places(
    arguments: dict[str, Any],
    provenance: Provenance,
    *,
    prompt: str,
    label: Label,
    beside: Beside = NOTHING,
) -> list[str]:
    """Return which arguments may carry what is private."""
    rule = ToolRule(destination=("to",), payload=("text",))
    effect = Effect.EGRESS
    use = Use(
        server="web", tool="post", rule=rule, effect=effect, arguments=arguments, beside=beside
    )
    task = _task(prompt) if prompt else None
    knowledge = Knowledge(tenant=TENANT, task=task, provenance=provenance)
    found = review(Run(id=RunId("r"), label=label), use, knowledge)
    return [
        payload.path
        for payload in found.payload
        if any(match.confidentiality is PRIVATE for match in payload.matches)
    ]


def test_where_secrets_are_not_known_everything_may_be_one() -> None:
    assert carried({"text": "hello"}, Provenance(knows_secrets=False)) == ["$.*"]
    trusted = Label(integrity=Integrity.TRUSTED, confidentiality=PRIVATE)
    assert carried({"text": "hello"}, Provenance(knows_secrets=False), label=trusted) == []
    many = "\n".join(f"password: tulip{n}meadow" for n in range(64))
    provenance = Provenance()
    for n in range(20):
        read(provenance, structured({"text": many.replace("meadow", f"field{n}")}))
    assert carried({"text": "hello"}, provenance) == ["$.*"]


def test_what_says_nothing_carries_no_secret_that_is_not_known() -> None:
    for nothing in ({}, {"note": None}, {"flag": True}):
        found = ["$.*"] if nothing else []
        assert carried(nothing, Provenance(knows_secrets=False)) == found


def test_what_a_run_within_reads_the_whole_run_knows() -> None:
    whole = Provenance()
    read(Provenance(above=lambda: whole))
    assert carried({"text": KEY}, whole) == ["$"]


def keys(count: int) -> list[str]:
    return [f"password: tulip{n}field{n % 7}" for n in range(count)]


@pytest.mark.parametrize("before", [64, 1000])
def test_no_secret_is_hidden_by_others_that_stand_before_it(before: int) -> None:
    said = "\n".join([*keys(before), f"Password: {KEY}"])
    provenance = read(Provenance(), structured({"text": said}))
    assert carried({"text": "hello"}, provenance) == []
    assert carried({"text": KEY[::-1].upper()}, provenance) == ["$"]


@pytest.mark.parametrize("between", [70_000, 600_000])
def test_no_secret_is_hidden_by_a_long_text_before_it(between: int) -> None:
    said = f"{keys(1)[0]}\n{'lorem ipsum ' * (between // 12)}\nPassword: {KEY}"
    provenance = read(Provenance(), structured({"text": said}))
    assert carried({"text": "hello"}, provenance) == []
    assert carried({"text": " ".join(KEY)}, provenance) == ["$"]


def test_no_secret_is_hidden_by_what_is_encoded_before_it() -> None:
    hidden = [base64.b64encode(one.encode()).decode() for one in (*keys(90), f"Password: {KEY}")]
    plain = f"a%20b%20c%20d%20e {keys(1)[0]}"
    provenance = read(Provenance(), structured({"text": "\n\n".join([plain, *hidden])}))
    assert carried({"text": "hello"}, provenance) == []
    assert carried({"text": KEY}, provenance) == ["$"]


def test_no_secret_is_hidden_by_signs_that_nobody_sees() -> None:
    said = f"{keys(1)[0]} Pass\u200bword: {KEY[:5]}\u200b{KEY[5:]}"
    provenance = read(Provenance(), structured({"text": said}))
    assert carried({"text": KEY}, provenance) == ["$"]


MANY = "\n".join(keys(1100))


@pytest.mark.parametrize(
    "said",
    [
        MANY,
        f"{keys(1)[0]} {'lorem ipsum ' * 100_000}",
        f"{keys(1)[0]} {'x' * 300_000}",
    ],
    ids=["very many", "too long", "a token that is too long"],
)
def test_where_not_all_of_a_result_is_told_apart_all_of_it_is_secret(said: str) -> None:
    said = f"The launch is planned for the ninth of May\n{said}"
    provenance = read(Provenance(), structured({"text": said}))
    assert not provenance.knows_secrets
    again = {"text": "we hear that the launch is planned for the ninth of May"}
    assert carried({"text": "hello"}, provenance) == ["$.*"]
    assert carried(again, provenance) == ["$.text", "$.*"]
    whole = Provenance()
    read(Provenance(above=lambda: whole), structured({"text": said}))
    assert not whole.knows_secrets


def test_where_more_is_encoded_than_is_decoded_all_of_it_is_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hidden = "\n\n".join(base64.b64encode(one.encode()).decode() for one in keys(2))
    said = structured({"text": f"{keys(1)[0]}\n\n{hidden}"})
    assert read(Provenance(), said).knows_secrets
    monkeypatch.setattr(secrecy, "_UNDONE", 0)
    monkeypatch.setattr(secrecy, "MOST_DECODED", 30)
    assert not read(Provenance(), said).knows_secrets


def test_what_a_server_says_beside_its_answer_hides_none_either() -> None:
    for said, known in (("\n".join([*keys(64), f"Password: {KEY}"]), True), (MANY, False)):
        provenance = Provenance()
        provenance.hears(
            Answered(
                source=source(SECRET),
                effect=None,
                arguments={},
                content={"data": said},
                octets=100,
                level=PRIVATE,
            )
        )
        assert provenance.knows_secrets is known
        assert carried({"text": KEY}, provenance) == (["$"] if known else ["$.*"])
