"""`douane storage tables`: an owner makes the tables, and lets a role be a gateway's user."""

import sys
from pathlib import Path

import pytest

from gateway.storage.kek import new_key
from gateway.storage.postgres.checking import findings
from gateway.wiring.replicas import make_tables
from tests.cli.world import CONFIG, Site
from tests.postgres import Postgres


def written(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


@pytest.fixture
def address(site: Site, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty database, which the site's configuration names."""
    monkeypatch.setattr(sys.modules["gateway.wiring"], "make_tables", make_tables, raising=False)
    found = postgres.fresh()
    url, key = written(site.folder / "url", found), written(site.folder / "kek", new_key())
    site.config_file.write_text(
        f"{CONFIG}auth: {{key_encryption_key: 'file:{key}'}}\n"
        f"storage: {{kind: postgres, url: 'file:{url}'}}\n"
    )
    return found


def test_a_role_is_admitted_to_tables_that_it_does_not_own(
    site: Site, address: str, postgres: Postgres
) -> None:
    name = f"gate_{address.partition('@/')[2].partition('?')[0]}"
    postgres.run(f'CREATE ROLE "{name}" LOGIN')
    told = site.run("storage", "tables", "--admit", name)
    assert (told.exit_code, told.output) == (0, f"the tables are up to date; {name} is admitted\n")
    found = list(findings(address.replace("postgres@", f"{name}@")))
    assert f"{name} may do what a gateway does, and does not own the tables" in [
        one.text for one in found
    ]
    assert site.run("storage", "tables").output == "the tables are up to date\n"


def test_what_cannot_be_done_is_said(site: Site, address: str) -> None:
    told = site.run("storage", "tables", "--admit", "nobody")
    assert (told.exit_code, 'role "nobody" does not exist' in told.output) == (2, True)
    assert site.run("storage", "tables", "--keeper").exit_code == 2
    site.config_file.write_text(CONFIG)
    told = site.run("storage", "tables")
    assert (told.exit_code, "tables` is for `postgres`" in told.output) == (2, True)
