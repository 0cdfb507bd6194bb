"""The first tables: the log, pins, runs, questions, programs, sessions."""

from sqlite_utils import Database

from gateway.storage.migrations.registry import migrations, run_script

# Text is compared byte by byte everywhere (SQLite's BINARY collation, the default): identifiers
# that differ in case or in Unicode normalisation are different identifiers.
_AUDIT = """
CREATE TABLE audit (
    leaf_index INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    time_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    principal TEXT,
    server TEXT,
    target TEXT,
    verdict TEXT,
    code TEXT,
    run TEXT,
    decision_id TEXT,
    leaf_hash BLOB NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE INDEX audit_by_time ON audit (time_us);
CREATE INDEX audit_by_target ON audit (server, target, time_us) WHERE server IS NOT NULL;
CREATE INDEX audit_by_principal ON audit (principal, time_us) WHERE principal IS NOT NULL;
CREATE INDEX audit_by_run ON audit (run, time_us) WHERE run IS NOT NULL;
CREATE INDEX audit_by_refusal ON audit (verdict, time_us) WHERE verdict <> 'allow';
CREATE INDEX audit_by_code ON audit (code, time_us) WHERE code IS NOT NULL;

CREATE TRIGGER audit_is_never_updated BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TABLE tiles (
    tile INTEGER PRIMARY KEY,
    root BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    note TEXT NOT NULL
) STRICT;
"""

_STATE = """
CREATE TABLE pins (
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    profile TEXT NOT NULL,
    status TEXT NOT NULL,
    observed TEXT NOT NULL,
    observed_version TEXT NOT NULL,
    approved TEXT,
    approved_version TEXT,
    approved_by TEXT NOT NULL,
    approved_at REAL,
    first_seen REAL NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (server, kind, name, profile)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    integrity INTEGER NOT NULL,
    confidentiality INTEGER NOT NULL,
    part_of TEXT REFERENCES runs (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_sources (
    run TEXT NOT NULL REFERENCES runs (id),
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    record INTEGER NOT NULL,
    integrity INTEGER NOT NULL,
    confidentiality INTEGER NOT NULL,
    PRIMARY KEY (run, server, tool)
) STRICT;

CREATE TABLE clients (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    secret_hash TEXT NOT NULL,
    grants TEXT NOT NULL,
    resources TEXT NOT NULL,
    scopes TEXT NOT NULL,
    groups TEXT NOT NULL,
    trusted_host INTEGER NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m001_audit_and_state(database: Database) -> None:
    """Create everything."""
    run_script(database, _AUDIT + _STATE)


@migrations()
def m002_clients_have_moved(database: Database) -> None:
    """Drop what the identity database has taken over; a copy of secrets' hashes is one too many."""
    run_script(database, "DROP TABLE clients;")


_APPROVALS = """
ALTER TABLE pins ADD COLUMN approvals TEXT NOT NULL DEFAULT '[]';
ALTER TABLE pins ADD COLUMN filed TEXT NOT NULL DEFAULT '[]';
ALTER TABLE pins ADD COLUMN expires_at REAL;
ALTER TABLE pins ADD COLUMN body_digest TEXT NOT NULL DEFAULT '';
"""


@migrations()
def m003_what_approvals_rest_on(database: Database) -> None:
    """Keep with a pin who approved it from what, who else has to, and until when it holds."""
    run_script(database, _APPROVALS)


_IDENTITIES = """
ALTER TABLE pins ADD COLUMN observed_identity TEXT NOT NULL DEFAULT '';
ALTER TABLE pins ADD COLUMN approved_identity TEXT;
UPDATE pins SET approved_identity = '' WHERE approved IS NOT NULL;
"""


@migrations()
def m004_whose_definitions_pins_are(database: Database) -> None:
    """Keep with a pin at which address its server was; of earlier ones nobody knows."""
    run_script(database, _IDENTITIES)


_QUESTIONS = """
CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    principal TEXT NOT NULL,
    state TEXT NOT NULL,
    span TEXT NOT NULL,
    answered_by TEXT NOT NULL,
    answered_by_id TEXT NOT NULL,
    answered_at REAL,
    note TEXT NOT NULL,
    asked INTEGER NOT NULL,
    asked_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    question TEXT NOT NULL
) STRICT;

CREATE INDEX approvals_by_fingerprint ON approvals (fingerprint);
CREATE INDEX approvals_by_principal ON approvals (principal, asked_at);
"""


@migrations()
def m005_what_people_are_asked(database: Database) -> None:
    """Keep questions and their answers; what a question says is sealed."""
    run_script(database, _QUESTIONS)


_RUNS = """
DROP TABLE run_sources;
DROP TABLE runs;

CREATE TABLE run_owners (
    owner TEXT PRIMARY KEY,
    generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    began INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    part_of TEXT,
    integrity INTEGER NOT NULL,
    confidentiality INTEGER NOT NULL,
    ended INTEGER NOT NULL
) STRICT;

CREATE INDEX runs_by_owner ON runs (owner) WHERE NOT ended;
CREATE INDEX runs_by_whole ON runs (part_of) WHERE NOT ended;
CREATE INDEX runs_that_ended ON runs (began) WHERE ended;

CREATE TABLE run_sources (
    run TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    record INTEGER NOT NULL,
    integrity INTEGER NOT NULL,
    confidentiality INTEGER NOT NULL,
    PRIMARY KEY (run, server, tool)
) STRICT;

CREATE TABLE run_grants (
    owner TEXT NOT NULL,
    grant_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (owner, grant_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_grants_by_run ON run_grants (run);

CREATE TRIGGER runs_are_forgotten_whole AFTER DELETE ON runs
BEGIN
    DELETE FROM run_sources WHERE run = OLD.id;
    DELETE FROM run_grants WHERE run = OLD.id;
END;
"""


@migrations()
def m006_runs_that_end(database: Database) -> None:
    """Keep runs that end, and the grants whose calls they are; runs begin anew."""
    run_script(database, _RUNS)


_SCRIPTS = """
CREATE TABLE scripts (
    id TEXT PRIMARY KEY,
    principal TEXT NOT NULL,
    most INTEGER,
    used INTEGER NOT NULL,
    began REAL NOT NULL,
    expires_at REAL NOT NULL,
    ended INTEGER NOT NULL,
    sealed TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE script_grants (
    script TEXT NOT NULL,
    place INTEGER NOT NULL,
    most INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (script, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE parked_scripts (
    script TEXT PRIMARY KEY,
    sealed TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER scripts_are_forgotten_whole AFTER DELETE ON scripts
BEGIN
    DELETE FROM script_grants WHERE script = OLD.id;
    DELETE FROM parked_scripts WHERE script = OLD.id;
END;
"""


@migrations()
def m007_scripts_and_budgets(database: Database) -> None:
    """Keep programs that call tools, what they have used up, and those that wait."""
    run_script(database, _SCRIPTS)


_DISCLOSURES = """
CREATE TABLE disclosures (
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    used REAL NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m008_descriptions_that_were_read(database: Database) -> None:
    """Keep who has read what of tools, as keyed hashes."""
    run_script(database, _DISCLOSURES)


_SESSIONS = """
CREATE TABLE front_sessions_ended (
    session BLOB PRIMARY KEY,
    ended_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX front_sessions_by_end ON front_sessions_ended (ended_at);

CREATE TABLE front_subscriptions (
    session BLOB NOT NULL,
    uri TEXT NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (session, uri)
) STRICT, WITHOUT ROWID;

CREATE INDEX front_subscriptions_by_age ON front_subscriptions (since);
"""


@migrations()
def m009_sessions_in_front(database: Database) -> None:
    """Keep which sessions in front of all servers have ended, and what the others hear of."""
    run_script(database, _SESSIONS)


_CHOICES = """
CREATE TABLE server_choices (
    made INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    number INTEGER NOT NULL,
    names TEXT NOT NULL,
    but INTEGER NOT NULL,
    runs TEXT NOT NULL,
    UNIQUE (principal, number)
) STRICT;
"""


@migrations()
def m010_servers_that_principals_choose(database: Database) -> None:
    """Keep which servers principals want to see in front of all of them."""
    run_script(database, _CHOICES)
