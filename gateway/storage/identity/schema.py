"""The identity database's tables, as numbered migrations that only ever go forward."""

from sqlite_utils import Database, Migrations

from gateway.storage.migrations.registry import run_script

migrations = Migrations("identity")

_CLIENTS = """
CREATE TABLE clients (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    auth_methods TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    jwks TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    homepage TEXT NOT NULL,
    grants TEXT NOT NULL,
    resources TEXT NOT NULL,
    scopes TEXT NOT NULL,
    groups TEXT NOT NULL,
    trusted_host INTEGER NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    fresh_until REAL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX clients_by_name ON clients (name) WHERE kind = 'registered';
"""

# A consent names its client without a foreign key: the built-in client is in no table.
_PEOPLE = """
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    groups TEXT NOT NULL,
    os_user TEXT NOT NULL,
    password TEXT NOT NULL,
    created_at REAL NOT NULL,
    created_by TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    UNIQUE (issuer, subject)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX users_by_os_user ON users (os_user) WHERE os_user <> '';

CREATE TABLE links (
    link_hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id_hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    source_ip TEXT NOT NULL,
    user_agent TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE transactions (
    id TEXT PRIMARY KEY,
    browser_hash TEXT NOT NULL,
    purpose TEXT NOT NULL,
    request TEXT,
    detail TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    finished_at REAL,
    user_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    secrets TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE consents (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    given_at REAL NOT NULL,
    PRIMARY KEY (user_id, client_id, endpoint, redirect_uri)
) STRICT, WITHOUT ROWID;
"""

# A grant names its person and client without a foreign key: it stays as evidence when they go.
_GRANTS = """
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    revoked_at REAL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX grants_by_user ON grants (user_id);
CREATE INDEX grants_by_client ON grants (client_id);
CREATE INDEX grants_revoked ON grants (expires_at) WHERE revoked_at IS NOT NULL;

CREATE TABLE codes (
    code_hash TEXT PRIMARY KEY,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    client_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    code_challenge TEXT NOT NULL,
    expires_at REAL NOT NULL,
    used_at REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE refresh_tokens (
    token_hash TEXT PRIMARY KEY,
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    client_id TEXT NOT NULL,
    parent_hash TEXT,
    issued_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    used_at REAL,
    successor TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX refresh_tokens_by_grant ON refresh_tokens (grant_id);

CREATE TABLE devices (
    device_hash TEXT PRIMARY KEY,
    user_code TEXT NOT NULL UNIQUE,
    client_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    scopes TEXT NOT NULL,
    expires_at REAL NOT NULL,
    interval_s INTEGER NOT NULL,
    polled_at REAL NOT NULL,
    status TEXT NOT NULL,
    grant_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE revoked_tokens (
    token_id TEXT PRIMARY KEY,
    expires_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE assertions (
    issuer TEXT NOT NULL,
    assertion_id TEXT NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (issuer, assertion_id)
) STRICT, WITHOUT ROWID;
"""

_SECRETS = """
CREATE TABLE data_keys (
    id TEXT PRIMARY KEY,
    wrapped TEXT NOT NULL,
    kek_id TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE signing_keys (
    kid TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at REAL NOT NULL,
    activated_at REAL,
    retired_at REAL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX one_signing_key_a_state ON signing_keys (state) WHERE state <> 'retired';

CREATE TABLE connections (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    server TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed TEXT NOT NULL,
    scopes TEXT NOT NULL,
    expires_at REAL,
    version INTEGER NOT NULL,
    connected_at REAL NOT NULL,
    refreshed_at REAL,
    leased_by TEXT NOT NULL DEFAULT '',
    leased_until REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, server)
) STRICT, WITHOUT ROWID;

CREATE TABLE registrations (
    server TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (server, issuer)
) STRICT, WITHOUT ROWID;
"""


@migrations()
def m001_identity(database: Database) -> None:
    """Create everything."""
    run_script(database, _CLIENTS + _PEOPLE + _GRANTS + _SECRETS)


# Beside the grants, so that what ends them ends these, whoever does it and in whichever process.
_STANDING = """
CREATE TABLE standing_answers (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    given_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    sealed TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TRIGGER revocation_ends_answers AFTER UPDATE OF revoked_at ON grants
WHEN NEW.revoked_at IS NOT NULL
BEGIN
    UPDATE standing_answers SET ended = 'the grant was revoked'
    WHERE ended = '' AND user_id = NEW.user_id AND client_id = NEW.client_id;
END;

CREATE TRIGGER no_client_no_answers AFTER DELETE ON clients
BEGIN
    UPDATE standing_answers SET ended = 'the client was removed'
    WHERE ended = '' AND client_id = OLD.id;
END;

CREATE TRIGGER no_person_no_answers AFTER DELETE ON users
BEGIN
    UPDATE standing_answers SET ended = 'the person was removed'
    WHERE ended = '' AND user_id = OLD.id;
END;

CREATE TRIGGER disabled_people_have_no_answers AFTER UPDATE OF disabled ON users
WHEN NEW.disabled
BEGIN
    UPDATE standing_answers SET ended = 'the person was disabled'
    WHERE ended = '' AND user_id = NEW.id;
END;
"""


@migrations()
def m002_standing_answers(database: Database) -> None:
    """Keep the answers of people that stand."""
    run_script(database, _STANDING)


# How far behind a used token is tells a lost answer from a second holder.
_REUSE = """
ALTER TABLE refresh_tokens ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE refresh_tokens ADD COLUMN again_at REAL;
ALTER TABLE grants ADD COLUMN doubted_at REAL;

UPDATE refresh_tokens SET generation = chain.place FROM (
    SELECT token_hash, row_number() OVER (
        PARTITION BY grant_id ORDER BY issued_at, used_at IS NULL, used_at
    ) - 1 AS place FROM refresh_tokens
) AS chain WHERE chain.token_hash = refresh_tokens.token_hash;
"""


@migrations()
def m003_reuse(database: Database) -> None:
    """Count the tokens of a family, and keep what their reuse says of their holders."""
    run_script(database, _REUSE)


_BOUND = """
ALTER TABLE codes ADD COLUMN bound_to TEXT NOT NULL DEFAULT '';
ALTER TABLE refresh_tokens ADD COLUMN bound_to TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN holds_key INTEGER NOT NULL DEFAULT 0;
"""


@migrations()
def m004_bound(database: Database) -> None:
    """Keep which key a code or a token is bound to, and which clients want nothing else."""
    run_script(database, _BOUND)


_PROVEN = "ALTER TABLE sessions ADD COLUMN proven_at REAL NOT NULL DEFAULT 0;"


@migrations()
def m005_proven(database: Database) -> None:
    """Keep when a person last showed who they are."""
    run_script(database, _PROVEN)


_PROVEN_FOR = "ALTER TABLE codes ADD COLUMN proven_at REAL NOT NULL DEFAULT 0;"


@migrations()
def m006_proven_for(database: Database) -> None:
    """Keep it with a code as well, for whoever redeems it."""
    run_script(database, _PROVEN_FOR)


_LOST = "ALTER TABLE refresh_tokens ADD COLUMN lost_at REAL;"


@migrations()
def m007_lost(database: Database) -> None:
    """Keep of which refresh tokens an answer is known to have reached nobody."""
    run_script(database, _LOST)


# What ends rights of anybody, or says anew who they are, is counted by the tables themselves: no way to do
# it is left out. A client that registers itself has ended nothing, and may be anybody's.
_ENDED = """
CREATE TABLE identity_version (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    people INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO identity_version (one) VALUES (1);

CREATE TRIGGER revoked_grants_end AFTER UPDATE OF revoked_at ON grants WHEN NEW.revoked_at IS NOT NULL
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER revoked_tokens_end AFTER INSERT ON revoked_tokens
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER new_people_are_other AFTER INSERT ON users
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER removed_people_end AFTER DELETE ON users
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER changed_people_end AFTER UPDATE ON users
WHEN (OLD.issuer, OLD.subject, OLD.groups, OLD.disabled) IS NOT (NEW.issuer, NEW.subject, NEW.groups, NEW.disabled)
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER registered_clients_are_other AFTER INSERT ON clients WHEN NEW.kind = 'registered'
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER removed_clients_end AFTER DELETE ON clients
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
CREATE TRIGGER changed_clients_end AFTER UPDATE ON clients
WHEN (OLD.name, OLD.kind, OLD.grants, OLD.resources, OLD.scopes, OLD.groups, OLD.trusted_host, OLD.holds_key)
    IS NOT (NEW.name, NEW.kind, NEW.grants, NEW.resources, NEW.scopes, NEW.groups, NEW.trusted_host, NEW.holds_key)
BEGIN
    UPDATE identity_version SET people = people + 1;
END;
"""


@migrations()
def m008_ended(database: Database) -> None:
    """Count how often rights of anybody have ended."""
    run_script(database, _ENDED)


_DISABLED_AT = "ALTER TABLE users ADD COLUMN disabled_at REAL NOT NULL DEFAULT 0;"


@migrations()
def m009_disabled_at(database: Database) -> None:
    """Keep when somebody was last disabled, for what was theirs before."""
    run_script(database, _DISABLED_AT)
