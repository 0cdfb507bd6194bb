"""A configuration is read whole, or refused with every problem and its line."""

from pathlib import Path

import pytest

from gateway.config import Config, SecretRef, load, parse
from gateway.domain.descriptions import Guidance
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label, ServerRule, ToolRule
from gateway.errors import ConfigError

FILE = Path("/etc/douane/douane.yaml")
HEAD = "version: 1\npublic_url: http://127.0.0.1:8080\n"


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, file=FILE, environ=environ)
    prefix = f"{FILE}:"
    assert all(problem.startswith(prefix) for problem in caught.value.problems)
    return [problem.removeprefix(prefix) for problem in caught.value.problems]


def config(text: str) -> Config:
    return parse(HEAD + text, file=FILE)


def test_two_keys_are_enough_and_everything_else_is_safe() -> None:
    found = config("")
    assert (str(found.listen), str(found.admin_listen)) == ("127.0.0.1:8080", "127.0.0.1:8081")
    assert found.data_dir == Path("/etc/douane/var")
    assert (found.auth.mode, found.auth.token_lifetime) == ("embedded", 600)
    assert found.policy.path == "/etc/douane/policies"
    assert (found.policy.engine, found.policy.mode, found.policy.opa) == ("wasm", "enforce", None)
    assert found.audit.model_dump() == {
        "durability": "power",
        "deadline": 2.0,
        "on_failure": "refuse",
        "spool": None,
        "checkpoints": {
            "every": 1.0,
            "records": 5000,
            "file": None,
            "url": None,
            "headers": {},
            "witnesses": {},
        },
        "heartbeat": 60.0,
        "export": {},
        "retention": None,
        "redaction": "hashed",
    }
    assert found.pins.model_dump() == {
        "recheck": 900.0,
        "fresh": 60.0,
        "expire": None,
        "exclude_meta": (),
        "results": "label",
    }
    assert found.limits.model_dump() == {
        "request_bytes": 4194304,
        "json_depth": 64,
        "calls_per_minute": 600,
        "result_bytes": 4194304,
        "upstream_connect": 5.0,
        "upstream_idle": 60.0,
        "upstream_hard": 900.0,
        "upstream_failures": 5,
        "upstream_rest": 1.0,
        "upstream_ping": None,
        "session_idle": 900.0,
        "processes": 64,
        "process_memory": 1 << 30,
        "process_idle": 900.0,
        "quotas": (),
    }
    assert (found.tls, found.trusted_proxies, found.allowed_origins) == (None, (), ())
    assert found.servers == {}


def test_a_role_is_what_its_groups_say_and_nobody_else_has_it() -> None:
    roles = config("roles:\n  approver: {groups: [blue]}\n").roles
    assert roles.of(frozenset({"blue", "users"})) == {"approver", "user"}
    assert roles.of(frozenset({"admins", "auditors", "security"})) == {"admin", "auditor"}
    assert roles.of(frozenset()) == frozenset()


def test_a_server_becomes_the_rule_that_the_pipeline_reads() -> None:
    server = config(
        """
servers:
  mail:
    url: https://mail.example.com/mcp
    defaults: {confidentiality: secret}
    tools:
      send:
        effect: egress
        destination: [to, cc]
        payload: [body]
        result: {integrity: trusted}
        typed: ["$.items[*].sender"]
"""
    ).servers["mail"]
    assert server.rule == ServerRule(
        default=Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.SECRET),
        tools={
            "send": ToolRule(
                effect=Effect.EGRESS,
                destination=("to", "cc"),
                payload=("body",),
                result=Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PRIVATE),
                typed=("$.items[*].sender",),
            )
        },
    )


def test_the_tenant_becomes_the_domains_value() -> None:
    tenant = config("tenant: {self: [a@b.example], domains: [b.example], members: [no]}").tenant
    assert tenant.value.self_ == {"a@b.example"}
    assert tenant.value.domains == {"b.example"}
    assert tenant.value.members == {"no"}  # a word, as in YAML 1.2, not a boolean


def test_a_run_goes_on_for_a_minute_at_least() -> None:
    assert config("runs: {idle: 1m}\n").runs.model_dump() == {
        "of": "client",
        "idle": 60.0,
        "most": 100,
        "new_task_choice": True,
    }
    (told,) = problems(f"{HEAD}runs: {{idle: 59s}}\n")
    assert "at least `1m`" in told


def test_durations_are_seconds() -> None:
    limits = config(
        "limits: {upstream_connect: 250ms, upstream_idle: 2s, upstream_hard: 1h}"
    ).limits
    assert (limits.upstream_connect, limits.upstream_idle, limits.upstream_hard) == (0.25, 2, 3600)


def test_all_problems_are_told_at_once_in_the_order_of_their_lines() -> None:
    assert problems("version: 1\nlisten: 8080\nroles: {approvr: {groups: []}}\n") == [
        "1: public_url: is missing; add it",
        "2: listen: write HOST:PORT, such as `127.0.0.1:8080` or `[::1]:8080`",
        "3: roles.approvr: unknown key; did you mean `approver`?",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("polcy: {}", "3: polcy: unknown key; did you mean `policy`?"),
        (
            "audit:\n  zzz: 1",
            "4: audit.zzz: unknown key; known here: checkpoints, deadline, durability, export, heartbeat, on_failure, redaction, retention, spool",
        ),
        (
            ("servers:\n  a:\n    url: https://a.example/mcp\n    tools:\n      t:\n"
            "        desination: [x]"),
            "8: servers.a.tools.t.desination: unknown key; did you mean `destination`?",
        ),
        ("version: 1", "3: version: written twice, first on line 1; remove one"),
        ("pins: {recheck: 1s,\n  recheck: 2s}", "4: pins.recheck: written twice, first on line 3; remove one"),
        ("? [a]\n: 1", "3: a key must be a word, not a list or a mapping"),
        ("data_dir: 3", "3: data_dir: write a path"),
        ("auth: {mode: none}", "3: auth.mode: write `embedded`, `federated` or `external`"),
        ("auth: {token_lifetime: 10}", "3: auth.token_lifetime: write a duration above zero with its unit: `250ms`, `2s`, `15m`, `1h`"),
        ("audit: {deadline: 0s}", "3: audit.deadline: write a duration above zero with its unit: `250ms`, `2s`, `15m`, `1h`"),
        ("audit: {on_failure: continue}", "3: audit.on_failure: `continue` is not available in this version; use `refuse` or `spool`"),
        ("policy: {mode: shadow}", "3: policy: `mode: shadow` needs `candidate`: the policy to ask beside this one"),
        ("policy: {candidate: ./new}", "3: policy.candidate: is asked with `mode: shadow` only; write that, or remove it"),
        ("policy: {mode: enforce, candidate: ./new}", "3: policy.candidate: is asked with `mode: shadow` only; write that, or remove it"),
        ("policy: {path: 'http://x.example/b.tar.gz'}", "3: policy.path: a bundle is fetched over https only"),
        ("policy: {engine: opa}", "3: policy.opa: `engine: opa` needs it; write `opa: {managed: true}` or give a url"),
        ("policy: {opa: {managed: true}}", "3: policy.opa: is for `engine: opa` only; remove it or change the engine"),
        ("policy:\n  engine: opa\n  opa: {}", "5: policy.opa.url: give either `url` or `managed: true`"),
        (
            "policy:\n  engine: opa\n  opa: {managed: true,\n    url: 'http://127.0.0.1:8181'}",
            "6: policy.opa.url: give either `url` or `managed: true`",
        ),
        ("policy:\n  engine: opa\n  opa:\n    managed: true\n    token: env:T", "7: policy.opa.token: is for `url` only; the gateway's own OPA has its own"),
        ("admin_listen: 127.0.0.1:8080", "3: admin_listen: must not be the address of `listen`; choose another port"),
        ("roles: {admin: {groups: admins}}", "3: roles.admin.groups: write a list: `[one, two]`"),
        ("pins: [1]", "3: pins: write a mapping of settings"),
        ("servers: [1]", "3: servers: write a mapping of names to settings"),
        ("limits: {json_depth: 64.0}", "3: limits.json_depth: write a whole number"),
        ("limits: {json_depth: many}", "3: limits.json_depth: write a whole number"),
        ("limits: {calls_per_minute: 0}", "3: limits.calls_per_minute: write at least 1"),
        ("limits: {json_depth: 99999}", "3: limits.json_depth: write at most 512"),
        ("tenant: {members: [1]}", "3: tenant.members[0]: write text; put it in quotes if it looks like a number"),
        ("tenant:\n  members:\n  - a\n  - ''", "6: tenant.members[1]: must not be empty"),
        ("tls: {certificate: a.pem}", "3: tls.key: is missing; add it"),
        ("trusted_proxies: [10.0.0.1/8]", "3: trusted_proxies[0]: write an IP address or network, such as `10.0.0.0/8`"),
        ("allowed_origins: ['https://a.example/']", "3: allowed_origins[0]: write scheme, host and port only: no path, no trailing slash"),
        ("servers:\n  Mail: {url: 'https://a.example/mcp'}", "4: servers.Mail: a server's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"),
        (f"servers:\n  {'a' * 33}: {{url: 'https://a.example/mcp'}}", f"4: servers.{'a' * 33}: a server's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_what_to_do(text: str, told: str) -> None:
    assert problems(HEAD + text) == [told]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("defaults: {}", ["4: servers.a.url: give either `url` or `command`"]),
        ("url: ftp://a.example", ["5: servers.a.url: write a URL that begins with https:// or http://"]),
        ("url: https://u:p@a.example/mcp", ["5: servers.a.url: a URL must not carry a user name or password; use `credential`"]),
        ("url: 'https://a.example/mcp#x'", ["5: servers.a.url: a server's URL has no fragment; remove `#` and what follows"]),
        ("url: https://a_b$.example/mcp", ["5: servers.a.url: `a_b$.example` is no host name"]),
    ],
)  # fmt: skip
def test_a_server_needs_a_url_that_can_be_used(entry: str, told: list[str]) -> None:
    assert problems(f"{HEAD}servers:\n  a:\n    {entry}") == told


@pytest.mark.parametrize(
    ("credential", "told"),
    [
        ("{kind: basic}", "credential.kind: write `none`, `header`, `oauth` or `exchange`"),
        ("{kind: oauth, value: 'env:A'}", "credential.value: is for `kind: header` only; remove it or change the kind"),
        ("{kind: oauth, client_secret: 'env:A'}", "credential.client_secret: goes with `client_id`; add it, or remove this"),
        ("{kind: oauth, client_id: us}", "credential.issuer: goes with `client_id`; write the issuer that registered it"),
        ("{issuer: 'https://a.example'}", "credential.issuer: is for `kind: oauth` only; remove it or change the kind"),
        ("{kind: oauth, token_url: 'https://a.example/t'}", "credential.token_url: is for `kind: exchange` only; remove it or change the kind"),
        ("{kind: oauth, audience: x}", "credential.audience: is for `kind: exchange` only; remove it or change the kind"),
        ("{scopes: [read]}", "credential.scopes: is for `kind: oauth` and `exchange`; remove it or change the kind"),
        ("{client_id: us}", "credential.client_id: is for `kind: oauth` and `exchange`; remove it or change the kind"),
        ("{resource: false}", "credential.resource: is for `kind: oauth` and `exchange`; remove it or change the kind"),
        ("{kind: exchange, client_secret: 'env:A', token_url: 'https://a.example/t'}", "credential.client_id: `kind: exchange` needs it; register the gateway at `token_url`"),
        ("{kind: exchange, client_id: us, token_url: 'https://a.example/t'}", "credential.client_secret: `kind: exchange` needs it; register the gateway at `token_url`"),
        ("{kind: exchange, client_id: us, client_secret: 'env:A'}", "credential.token_url: `kind: exchange` needs it; write the URL of the token endpoint"),
        ("{kind: exchange, client_id: us, client_secret: 'env:A', token_url: 'http://a.example/t'}", "credential.token_url: must be https; http is for loopback hosts only"),
        ("{kind: header}", "credential.value: `kind: header` needs it; write `env:NAME` or `file:PATH`"),
        ("{value: 'env:A'}", "credential.value: is for `kind: header` only; remove it or change the kind"),
        ("{kind: header, value: Bearer abc}", "credential.value: secrets come by reference only: write `env:NAME` or `file:PATH`"),
        ("{kind: header, name: Host, value: 'env:A'}", "credential.name: `Host` cannot carry a credential; use `Authorization` or another"),
    ],
)  # fmt: skip
def test_a_credential_is_whole_and_never_literal(credential: str, told: str) -> None:
    text = f"{HEAD}servers:\n  a:\n    url: https://a.example/mcp\n    credential: {credential}"
    assert problems(text) == [f"6: servers.a.{told}"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://gate.example", "must be https; http is for loopback hosts only"),
        ("https://gate.example/", "write scheme, host and port only: no path, no trailing slash"),
        ("https://gate.example/x", "write scheme, host and port only: no path, no trailing slash"),
        (
            "'https://gate.example?a'",
            "write scheme, host and port only: no path, no trailing slash",
        ),
        (
            "https://a:b@gate.example",
            "a URL must not carry a user name or password; use `credential`",
        ),
        ("https://gate.example:443", "leave `:443` out; clients do, and the two must be equal"),
        ("https://Gate.example", "write it in lower case: `https://gate.example`"),
        ("gate.example", "write a URL that begins with https:// or http://"),
        ("'https://gate.example\\evil'", "write a URL that begins with https:// or http://"),
        ("https://gate.example:99999", "Port out of range 0-65535"),
    ],
)
def test_the_public_url_is_one_origin(url: str, told: str) -> None:
    assert problems(f"version: 1\npublic_url: {url}") == [f"2: public_url: {told}"]


@pytest.mark.parametrize("url", ["https://gate.example", "http://[::1]:8080", "http://localhost:1"])
def test_a_public_url_of_one_origin_is_taken_as_it_is(url: str) -> None:
    assert parse(f"version: 1\npublic_url: {url}", file=FILE).public_url == url


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &x 1\nb: *x", "1: anchors and aliases are not allowed; write the value out"),
        ("a: 1\nb: !!python/object:os.system 1", "2: the tag `tag:yaml.org,2002:python/object:os.system` is not allowed; remove it"),
        ("a: 1\nb: [", "2: not YAML: did not find expected node content; look at how it and the lines before it are indented, and at their quotes and brackets"),
        ("a:\n\tb: 1", "2: not YAML: found character that cannot start any token; indent with spaces, not with tabs"),
        ("a: 1\n\tb: 1", "2: not YAML: found a tab character that violates indentation; indent with spaces, not with tabs"),
        ("a: 1\n---\nb: 1", "2: not YAML: but found another document; look at how it and the lines before it are indented, and at their quotes and brackets"),
        ("a: " + "[" * 40, "1: nested deeper than 32 levels; flatten it"),
        ("- a", "1: the file must be a mapping that begins with `version: 1`"),
        ("", "1: the file must be a mapping that begins with `version: 1`"),
        ("a: \x00", "1: not YAML: unacceptable character #x0000: control characters are not allowed"),
        ("# " + "x" * (1 << 20), "1: the file is larger than 1048576 bytes; make it smaller"),
    ],
)  # fmt: skip
def test_yaml_that_is_not_plain_is_refused(text: str, told: str) -> None:
    assert problems(text) == [told]


def test_a_merge_key_is_an_unknown_key() -> None:
    assert problems(HEAD + "audit:\n  <<: {deadline: 9s}") == [
        "4: audit.<<: unknown key; known here: checkpoints, deadline, durability, export, heartbeat, on_failure, redaction, retention, spool"
    ]


def test_a_number_of_many_digits_is_no_number() -> None:
    assert problems(HEAD + f"limits: {{json_depth: {'9' * 6000}}}") == [
        "3: limits.json_depth: write a whole number"
    ]


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "douane.yaml")
    assert caught.value.problems == (
        (
            f"{tmp_path}/douane.yaml:1: cannot be read: No such file or directory; "
            "`douane init` writes one"
        ),
    )


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "douane.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "douane.yaml")
    assert caught.value.problems == (
        f"{tmp_path}/douane.yaml:1: is not UTF-8 text; save it as such",
    )


SECRET = (
    "servers:\n  a:\n    url: https://a.example/mcp\n    credential: {kind: header, value: '%s'}"
)


def test_a_secret_stays_a_reference_until_it_is_used() -> None:
    ref = config(SECRET % "env:TOKEN").servers["a"].credential.value
    assert ref == SecretRef(kind="env", name="TOKEN")
    assert ref is not None
    secret = ref.resolve({"TOKEN": "s3cret\n"})
    assert secret.reveal() == "s3cret"
    assert "s3cret" not in f"{secret} {secret!r} {[secret]}"


def test_a_secret_file_is_found_from_the_configurations_folder(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\r\n")
    found = parse(HEAD + SECRET % "file:token", file=tmp_path / "douane.yaml", environ={})
    ref = found.servers["a"].credential.value
    assert ref is not None
    assert ref.resolve({}).reveal() == "abc"


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("env:TOKEN", "`env:TOKEN` is missing or empty; set it"),
        ("env:EMPTY", "`env:EMPTY` is missing or empty; set it"),
        ("env:LINES", "`env:LINES` must be one line of printable ASCII; store the bare secret"),
        ("file:nowhere", "`file:/etc/douane/nowhere` cannot be read: No such file or directory"),
        ("file:/dev/zero", "`file:/dev/zero` is larger than 65536 bytes"),
    ],
)
def test_a_secret_that_cannot_be_used_is_told_with_its_line_when_it_is_tried(
    reference: str, told: str
) -> None:
    environ = {"EMPTY": "", "LINES": "a\nX-Other: b"}
    assert config(SECRET % reference).servers.keys() == {"a"}
    assert problems(HEAD + SECRET % reference, environ) == [
        f"6: servers.a.credential.value: {told}"
    ]


def test_a_secret_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    assert problems(HEAD + SECRET % f"file:{tmp_path}/token", {}) == [
        f"6: servers.a.credential.value: `file:{tmp_path}/token` is not UTF-8 text"
    ]


EXTENSIONS = "servers:\n  a:\n    url: http://a.example/mcp\n    extensions: [%s]\n"


def test_no_extension_is_approved_by_itself() -> None:
    assert config(EXTENSIONS % "").servers["a"].extensions == ()
    found = config(EXTENSIONS % "io.modelcontextprotocol/ui, x.example/y-1")
    assert found.servers["a"].extensions == ("io.modelcontextprotocol/ui", "x.example/y-1")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ui", "write an extension's whole name, such as `io.modelcontextprotocol/ui`"),
        ("a/b/c", "write an extension's whole name, such as `io.modelcontextprotocol/ui`"),
    ],
)
def test_an_extension_that_cannot_be_approved_is_told_with_its_line(name: str, told: str) -> None:
    assert problems(HEAD + EXTENSIONS % name) == [f"6: servers.a.extensions[0]: {told}"]


def test_guidance_is_read_as_it_is_written() -> None:
    found = config(
        """
servers:
  mail:
    url: http://127.0.0.1:9001/mcp
    tools:
      send:
        guidance:
          brief: Send an email.
          examples: [{to: [emma@example.com], urgent: true, copies: 2}]
          usage: Ask first.
      read: {}
"""
    ).servers["mail"]
    guidance = found.tools["send"].guidance
    assert guidance is not None
    assert guidance.value == Guidance(
        brief="Send an email.",
        examples=({"to": ["emma@example.com"], "urgent": True, "copies": 2},),
        usage="Ask first.",
    )
    assert found.tools["read"].guidance is None


@pytest.mark.parametrize(
    "guidance",
    ['{brief: ""}', '{brief: "two\\nlines"}', "{examples: [x]}", "{examples: [{a: 1.5e999}]}"],
)
def test_guidance_that_could_not_be_told_is_refused(guidance: str) -> None:
    text = (
        f"servers: {{mail: {{url: 'http://127.0.0.1:1/', tools: {{a: {{guidance: {guidance}}}}}}}}}"
    )
    (problem,) = problems(HEAD + text)
    assert "guidance" in problem


def test_how_long_a_description_counts_is_an_hour_and_nothing_is_brief() -> None:
    found = config("").discovery.descriptions
    assert (found.mode, found.idle, found.cleanup) == ("off", 3600.0, 600.0)
    brief = config("discovery: {descriptions: {mode: on}, clients: {a: {descriptions: off}}}")
    assert brief.discovery.descriptions.mode == "on"
    assert brief.discovery.clients["a"].descriptions == "off"


def test_guidance_labels_nothing() -> None:
    tools = "{a: {guidance: {usage: x}}, b: {}, c: {effect: read, guidance: {usage: y}}}"
    found = config(f"servers: {{mail: {{url: 'http://127.0.0.1:1/', tools: {tools}}}}}")
    assert found.servers["mail"].labelled == {"b", "c"}
    assert found.servers["mail"].guidance == {
        "a": Guidance(usage="x"),
        "c": Guidance(usage="y"),
    }


@pytest.mark.parametrize(
    ("strategy", "needed"), [("hybrid", "model"), ("embedding", "model"), ("subagent", "subagent")]
)
def test_a_way_to_search_that_cannot_be_had_is_refused(strategy: str, needed: str) -> None:
    told = f"`{strategy}` needs `discovery.{needed}`; add it, or remove this"
    assert problems(f"{HEAD}discovery: {{strategy: {strategy}}}\n") == [
        f"3: discovery.strategy: {told}"
    ]
    had = {
        "model": f"{{path: weights, digest: 'sha256:{'0' * 64}'}}",
        "subagent": "{url: 'https://choose.example/'}",
    }
    found = config(f"discovery: {{strategy: {strategy}, {needed}: {had[needed]}}}").discovery
    assert found.strategy == strategy
    assert config("discovery: {strategy: keyword}").discovery.strategy == "keyword"


def test_requests_and_descriptions_go_to_a_subagent_over_https_or_on_this_machine() -> None:
    (told,) = problems(f"{HEAD}discovery: {{subagent: {{url: 'http://choose.example/'}}}}\n")
    assert told.startswith("3: discovery.subagent.url: must be https")
    found = config("discovery: {subagent: {url: 'http://127.0.0.1:1/', deadline: 1s}}").discovery
    assert found.subagent is not None
    assert (found.subagent.url, found.subagent.deadline) == ("http://127.0.0.1:1/", 1.0)


@pytest.mark.parametrize("spelled", ["off", '"off"', "client"])
def test_off_is_a_word_however_it_is_spelled(spelled: str) -> None:
    assert config(f"code: {{extract: {spelled}}}\n").code.extract == spelled.strip('"')


def test_what_is_only_on_is_no_answer_to_who_extracts() -> None:
    (problem,) = problems(HEAD + "code: {extract: on}\n")
    assert "code.extract" in problem
