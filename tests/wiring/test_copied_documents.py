"""Copies of clients' documents are read at the start: one that cannot be used is an error that says why."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config.auth import Registration
from gateway.errors import ConfigError
from gateway.wiring.copies import copies_of

URL = "https://app.example/oauth/client.json"
DOCUMENT = {"client_id": URL, "client_name": "App", "redirect_uris": ["http://127.0.0.1/callback"]}


def registration(path: Path, url: str = URL) -> Registration:
    return Registration.model_validate(
        {"copies": {url: str(path)}}, context={"folder": path.parent}
    )


def written(folder: Path, document: Any) -> Path:
    path = folder / "client.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_a_copy_is_what_its_file_holds(tmp_path: Path) -> None:
    path = written(tmp_path, DOCUMENT)
    assert copies_of(registration(path))[URL].body == path.read_bytes()


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("<html>", "cannot be read"),
        ({**DOCUMENT, "client_id": "https://other.example/c.json"}, "another client's"),
        ({**DOCUMENT, "client_secret": "s"}, "holds a secret"),
        ({**DOCUMENT, "redirect_uris": []}, "redirect"),
    ],
)
def test_one_that_is_not_the_document_of_its_client_is_told(
    tmp_path: Path, document: Any, why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        copies_of(registration(written(tmp_path, document)))
    (problem,) = refused.value.problems
    assert "auth.registration.copies" in problem
    assert URL in problem
    assert why in problem


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        copies_of(registration(tmp_path / "nothing.json"))
    assert "No such file" in refused.value.problems[0]


def test_a_client_id_is_the_url_of_a_document(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        copies_of(registration(written(tmp_path, DOCUMENT), "http://app.example/c.json"))
    assert "https URL of a document" in refused.value.problems[0]
