"""What the contract says of `douane.yaml` is what the model takes, and what `init` writes."""

from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships without stubs
import pytest
import yaml

from gateway.config import TEMPLATE, Config, parse, schema, warnings

CONTRACT = """
version: 1
public_url: http://127.0.0.1:8080
listen: 127.0.0.1:8080
admin_listen: 127.0.0.1:8081
data_dir: ./var
auth:
  mode: embedded
policy:
  path: ./policies
  engine: wasm
  mode: enforce
tenant:
  self: [emma@example.com]
  domains: [example.com]
  members: [alice]
  channels: [general]
roles:
  approver: {groups: [security]}
audit: {durability: power, deadline: 2s, on_failure: refuse, redaction: hashed}
pins: {recheck: 15m, exclude_meta: []}
limits: {request_bytes: 4194304, json_depth: 64, calls_per_minute: 600, upstream_idle: 60s, upstream_hard: 15m}
servers:
  mail:
    url: http://127.0.0.1:9001/mcp
    credential: {kind: none}
    defaults: {integrity: untrusted, confidentiality: private}
    tools:
      send_email:
        effect: egress
        destination: [recipients, cc]
        payload: [subject, body]
        result: {integrity: trusted, confidentiality: private}
      search:
        effect: read
        typed: ["$.items[*].sender"]
"""

DEFAULTED = ("listen", "admin_listen", "data_dir", "auth", "policy", "audit", "pins", "limits")
"""Sections whose values in the contract are the defaults."""

KEYS = {
    "": "version public_url listen admin_listen data_dir auth policy tenant roles audit dlp pins "
    "approvals console alerts limits runs tasks discovery code egress tls trusted_proxies allowed_origins servers "
    "planes storage",
    "Auth": "mode token_lifetime device_token_lifetime refresh_lifetime refresh_grace refresh_lost refresh_reuse "
    "dpop dpop_window grant_lifetime session_lifetime registration providers external enterprise key_encryption_key former_key_encryption_key "
    "key_lifetime",
    "Registration": "mode token documents copies redirect_uris most_clients unused_after",
    "Provider": "issuer client_id client_secret scopes algorithm groups_claim groups everybody "
    "name_claim",
    "External": "issuer profile audience algorithm groups_claim groups everybody",
    "Enterprise": "issuer jwks_url algorithm",
    "Egress": "allow ca",
    "Policy": "path engine mode candidate opa bundle authzen deadline",
    "Opa": "managed url token ca",
    "AuthzenPoint": "url token ca subject send deadline",
    "Bundle": "verification_key algorithm poll",
    "TenantSection": "self domains members channels",
    "Roles": "user approver admin auditor",
    "Role": "groups",
    "Audit": "durability deadline on_failure spool checkpoints heartbeat export retention redaction",
    "Export": "format file url headers batch timeout rotate",
    "SpoolSection": "path bytes",
    "Checkpoints": "every records file url headers witnesses",
    "Witness": "url key every",
    "Retention": "keep archive",
    "Pins": "recheck fresh expire exclude_meta results",
    "Approvals": "expire denial_holds most_waiting most_per_hour keep standing",
    "Console": "enabled read_only listen url",
    "Alerts": "baselines learning webhooks",
    "Webhook": "shape url path secret events",
    "RunsSection": "of idle most new_task_choice",
    "TasksSection": "max_ttl most_open poll_floor",
    "Limits": "request_bytes json_depth calls_per_minute result_bytes upstream_connect upstream_idle "
    "upstream_hard upstream_failures upstream_rest upstream_ping session_idle processes "
    "process_memory process_idle quotas",
    "Discovery": "strategy model subagent defer window share core descriptions priority clients",
    "Model": "path digest",
    "Subagent": "url token deadline",
    "Descriptions": "mode idle cleanup",
    "Code": "enabled jail typescript typescript_check extract wait limits",
    "CodeLimits": "wall interpreter memory calls parallel arguments_bytes result_bytes console_bytes "
    "value_bytes code_bytes parked_bytes runs",
    "ClientDiscovery": "defer descriptions window",
    "Tls": "certificate key",
    "Storage": "kind url durability",
    "Server": "command folder jail environment files network url credential defaults extensions "
    "portable_schemas dpop audit always_on tools",
    "Files": "read write",
    "Network": "allow",
    "Credential": "kind name value scopes client_id client_secret issuer resource dpop token_url audience",
    "LabelSection": "integrity confidentiality",
    "Tool": "effect destination payload result typed guidance price audit",
    "QuotaSection": "name count most per each people groups clients servers tools effects",
    "Planes": "authzen experimental_interceptors ext_authz ext_proc ext_mcp grpc",
    "InterceptorHostSection": "key servers client asserts issuers subjects groups scopes report_within "
    "duties runs",
    "SilentPlane": "key servers issuers subjects groups client scopes deadline paths",
    "ExtProcPlane": "key servers issuers subjects groups client scopes deadline report_within paths",
    "ExtMcpPlane": "key servers issuers subjects groups client scopes deadline report_within",
    "GrpcListener": "listen certificate key client_ca",
    "AuthzenPlane": "key servers issuers subjects groups client scopes tasks reports report_within duties "
    "access_requests resources",
    "ForeignTypeSection": "server actions",
    "DlpSection": "patterns names lists",
    "NamesSection": "model language",
    "ListSection": "file",
    "AuditOfTool": "redaction clear",
    "GuidanceSection": "brief examples usage errors",
}

HERE = Path("douane.yaml")


def test_the_contracts_example_is_taken_word_for_word() -> None:
    found = parse(CONTRACT, file=HERE)
    bare = parse("version: 1\npublic_url: http://127.0.0.1:8080", file=HERE)
    for name in DEFAULTED:
        assert getattr(found, name) == getattr(bare, name), name


def test_the_model_has_exactly_the_documented_keys() -> None:
    printed = schema()
    sections = {"": printed, **printed["$defs"]}
    found = {
        name: set(section["properties"])
        for name, section in sections.items()
        if "properties" in section
    }
    assert found == {name: set(words.split()) for name, words in KEYS.items()}
    assert all(
        section["additionalProperties"] is False
        for section in sections.values()
        if "properties" in section
    )


def test_only_three_keys_of_the_contract_have_no_default() -> None:
    printed = schema()
    assert printed["required"] == ["version", "public_url"]
    either = [{"required": ["url"]}, {"required": ["command"]}]
    assert printed["$defs"]["Server"]["oneOf"] == either


@pytest.mark.parametrize("text", [CONTRACT, TEMPLATE])
def test_the_printed_schema_accepts_what_the_program_accepts(text: str) -> None:
    content = yaml.safe_load(text)
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(content, schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "section", ["auth", "policy", "audit", "pins", "limits", "roles", "egress"]
)
def test_the_defaults_that_the_schema_shows_are_the_ones_in_force(section: str) -> None:
    printed = schema()
    definition = printed["$defs"][printed["properties"][section]["$ref"].rpartition("/")[2]]
    shown: dict[str, Any] = {
        name: prop["default"]
        for name, prop in definition["properties"].items()
        if prop.get("default") is not None
    }
    text = yaml.safe_dump({"version": 1, "public_url": "http://localhost", section: shown})
    bare = parse("version: 1\npublic_url: http://localhost", file=HERE)
    assert shown
    assert getattr(parse(text, file=HERE), section) == getattr(bare, section)


def test_what_init_writes_is_taken_and_names_the_next_step() -> None:
    found = parse(TEMPLATE, file=HERE)
    assert warnings(found) == ["servers: there is none; add the first one under `servers`"]


def test_the_commented_server_of_the_template_is_right() -> None:
    lines = TEMPLATE.replace("servers: {}", "servers:").splitlines()
    at = lines.index("servers:")
    text = "\n".join([*lines[: at + 1], *(line[1:] for line in lines[at + 1 :])])
    assert set(parse(text, file=HERE).servers) == {"mail"}


def test_the_commented_provider_of_the_template_is_right() -> None:
    before, federated = TEMPLATE.split("  mode: embedded\n")
    commented, after = federated.split("\n\n", maxsplit=1)
    lines = [line.removeprefix("#") for line in commented.splitlines()]
    text = "\n".join([before.rstrip(), *lines, after])
    assert set(parse(text, file=HERE).auth.providers) == {"company"}


def test_a_configuration_is_frozen() -> None:
    found: Any = parse(CONTRACT, file=HERE)
    assert isinstance(found, Config)
    with pytest.raises(ValueError, match="frozen"):
        found.public_url = "https://elsewhere.example"
