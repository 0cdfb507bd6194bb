"""docs/operations.md tells the listeners, the series and the limits that there are."""

import re
from inspect import signature

from gateway.admin.people import ENDPOINT
from gateway.cli import connection
from gateway.flow.provenance import Provenance
from gateway.oauth import metadata
from gateway.oauth.device import BEGUN_A_MINUTE
from gateway.oauth.documents import DocumentRules
from gateway.oauth.intake import FAILED_SIGN_INS_A_MINUTE
from gateway.oauth.registration import RegistrationRules
from gateway.oauth.revocation import ASKED_A_MINUTE
from gateway.pipeline.memory import _OCTETS
from gateway.signin import transactions
from gateway.storage import keys
from gateway.upstream.settings import MEBIBYTE, Limits
from gateway.web.api import ApiEndpoint
from gateway.web.app import PublicApp
from gateway.web.bounds import Bounds
from gateway.web.door import SOCKET_NAME
from gateway.web.mcp import _BODY_S, McpEndpoint
from gateway.web.metrics import Metrics
from gateway.wiring import gateway, serving, tenure
from tests.docs.pages import ROOT, prose, rows, spans

PAGE = ROOT / "docs" / "operations.md"
TEXT = prose(PAGE)


def test_every_series_is_told_with_its_labels() -> None:
    told = {row["series"].strip("`"): tuple(spans(row["labels"])) for row in rows(PAGE, "series")}
    metrics = Metrics()
    series = [value for value in vars(metrics).values() if hasattr(value, "_labelnames")]
    there = {
        kind._name + ("_total" if kind._type == "counter" else ""): tuple(kind._labelnames)
        for kind in series
    }
    assert told == there
    made = set(re.findall(r"(?m)^# HELP (\w+)", metrics.page().decode()))
    assert made == set(told)


def test_what_the_page_asks_of_series_is_there_to_be_asked() -> None:
    told = {row["series"].strip("`") for row in rows(PAGE, "series")}
    asked = " ".join(row["asked in PromQL"] for row in rows(PAGE, "figure"))
    named = set(re.findall(r"douane_\w+", asked))
    assert named
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in named} <= told


def test_every_path_is_told() -> None:
    paths = [text for name, text in vars(metadata).items() if name.endswith("_PATH")]
    assert len(paths) >= 9
    assert [path for path in paths if f"`{path}`" not in TEXT] == []
    routed = set[str]()
    for name in ("signin.py", "account.py", "connect.py", "pages.py"):
        web = (ROOT / "gateway" / "web" / name).read_text()
        routed |= set(re.findall(r'(?m)^[A-Z_]*PATH = "(/[^"]+)"', web))
    assert routed
    assert [path for path in routed if f"`{path}`" not in TEXT] == []
    admin = (ROOT / "gateway" / "web" / "admin.py").read_text()
    told = next(row for row in rows(PAGE, "listener") if row["listener"] == "`admin_listen`")
    there = {*re.findall(r'"(/\w+)"', admin), f"{ENDPOINT}/"}
    assert sorted(spans(told["paths"])) == sorted(there)


def test_every_file_of_the_data_directory_is_told() -> None:
    told = {
        name for row in rows(PAGE, "file") if "if it is lost" in row for name in spans(row["file"])
    }
    rooms = [(ROOT / "gateway/storage" / name).read_text() for name in ("keys.py", "kek.py")]
    named = set(re.findall(r'"(\w+\.key)"', "".join(rooms)))
    assert named == {name for name in told if name.endswith(".key")}
    assert {SOCKET_NAME, "douane.db", "identity.db", "checkpoint"} <= told
    assert keys.Keys.__doc__


def test_the_fixed_limits_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    limits = Limits()
    assert told["one request, one answer, one event"] == f"{limits.result_bytes // MEBIBYTE} MiB"
    assert told["all events of one stream"] == f"{limits.stream_bytes // MEBIBYTE} MiB"
    assert told["connections to one server, for calls"] == str(limits.connections)
    waiting = told["streams that wait for what a server says by itself"]
    assert waiting == f"{limits.listeners:,} a server"
    results, octets = (
        signature(Provenance).parameters[name].default for name in ("results", "octets")
    )
    remembered = told["results of runs that are remembered for proofs"]
    assert remembered.startswith(
        f"{_OCTETS // MEBIBYTE} MiB, the latest {results} results and {octets // 1024} KiB of each"
    )


def test_the_bounds_by_address_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    refused = signature(McpEndpoint).parameters["most_failures"].default
    unread = told["unreadable or unauthenticated requests of one address to MCP endpoints"]
    assert unread.startswith(f"{refused} a minute,")
    routed = signature(PublicApp).parameters["most_failures"].default
    pages = told["refused requests of one address to the pages and `/oauth`"]
    assert pages.startswith(f"{routed} a minute,")
    signing_in = told["failed sign-ins of one address at the token endpoint"]
    assert signing_in.startswith(f"{FAILED_SIGN_INS_A_MINUTE} a minute,")
    administering = told["requests of one address to the admin API without a token for it"]
    most = signature(ApiEndpoint).parameters["most_failures"].default
    assert administering.startswith(f"{most} a minute,")


def test_the_bounds_of_sign_in_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    rules, documents = RegistrationRules(), DocumentRules()
    assert told["clients that one address may register"] == f"{rules.per_source} an hour, then 429"
    most = told["clients that registered themselves or have a document"]
    assert most == f"{rules.most_clients:,}, then 503"
    devices = told["device codes that one address may begin"]
    assert devices == f"{BEGUN_A_MINUTE} a minute, then 429"
    assert told["documents of new clients that are fetched"].startswith(
        f"{documents.fetches_per_source} a minute on one address's word, {documents.fetches}"
    )
    again = told["attempts to fetch a known client's document again"]
    assert again == f"{documents.fetches_per_source} a minute for each client"
    revoked = told["requests of one address to `/oauth/revoke`"]
    assert revoked == f"{ASKED_A_MINUTE} a minute, then 429"
    begun = told["sign-ins that one address may begin"]
    assert begun.startswith(f"{transactions._MOST_BEGUN} in five minutes,")
    assert transactions._BEGUN_WINDOW_S == 300
    wiring = (ROOT / "gateway" / "wiring" / "standing.py").read_text()
    devices_room = (ROOT / "gateway" / "signin" / "device.py").read_text()
    bound = "by_address=20, by_target=10"
    assert bound in wiring
    assert bound in devices_room
    for what in (
        "wrong passwords for one account; of one address",
        "wrong device codes of one person; of one address",
    ):
        assert told[what].startswith("10; 20 in five minutes")


def test_the_bounds_of_a_connection_are_the_codes() -> None:
    told = {row["what"]: row["limit"] for row in rows(PAGE, "what")}
    bounds = Bounds(connections=1)
    times = told["a request's head; its body; an answer that is not read"]
    assert times == f"{bounds.head_s:g} s; {_BODY_S:g} s; {bounds.stall_s:g} s"
    assert told["connections of callers"].startswith(f"{gateway._MOST_CONNECTIONS:,},")
    admin = told["connections to the admin listener"]
    assert admin == str(serving._MOST_ADMIN_CONNECTIONS)


def test_the_times_that_people_wait_are_the_codes() -> None:
    words = " ".join(TEXT.split())
    assert f"for up to {connection._PATIENCE_S:g} seconds" in words
    assert words.count(f"{tenure.DRAIN_S} seconds") == 2
