"""Whose people are found: those whom the mode in force lets sign in."""

from pathlib import Path

import pytest

from gateway.domain.identity import User
from gateway.wiring.foundation import now
from tests.wiring.test_secrets_at_start import config, opened

HERE = "http://127.0.0.1:1"
COMPANY = "https://id.example"
FEDERATED = f"{{mode: federated, providers: {{c: {{issuer: '{COMPANY}', client_id: d}}}}}}"
ENTERPRISE = f"{{enterprise: {{c: {{issuer: '{COMPANY}'}}}}}}"
EXTERNAL = f"{{mode: external, external: {{issuer: '{COMPANY}'}}}}"


def user(issuer: str, name: str) -> User:
    return User(
        id=name,
        issuer=issuer,
        subject=name,
        name=name,
        groups=frozenset({"users"}),
        os_user=f"os-{name}",
        created_at=now(),
        created_by="test",
    )


@pytest.mark.parametrize(
    ("auth", "found"),
    [
        ("{}", ["emma"]),
        (FEDERATED, ["bob"]),
        (ENTERPRISE, ["emma", "bob"]),
        (EXTERNAL, ["bob"]),
    ],
)
async def test_people_of_a_former_way_to_sign_in_are_nobody_and_stay_on_file(
    tmp_path: Path, auth: str, found: list[str]
) -> None:
    async with opened(config(tmp_path, auth)) as identity:
        for person in (user(HERE, "emma"), user(COMPANY, "bob"), user("https://old", "finn")):
            identity.users.add(person)
        users, names = identity.users, ["emma", "bob", "finn"]
        issuers = dict(zip(names, [HERE, COMPANY, "https://old"], strict=True))
        assert [name for name in names if users.find(name)] == found
        assert [name for name in names if users.by_subject(issuers[name], name)] == found
        assert [name for name in names if users.by_os_user(f"os-{name}")] == found
        assert sorted(each.id for each in users.all()) == sorted(names)
