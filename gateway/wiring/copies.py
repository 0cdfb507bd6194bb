"""Documents of clients that an administrator keeps, read from their files."""

from collections.abc import Mapping

from gateway.config.auth import Registration
from gateway.errors import ConfigError
from gateway.oauth.documents import Copy, client_of, is_document_url
from gateway.oauth.errors import OAuthError
from gateway.wiring.foundation import now


def copies_of(registration: Registration) -> Mapping[str, Copy]:
    """Read the documents that an administrator keeps.

    Raises:
        ConfigError: One cannot be read, or is not the document of its client.

    """
    found, problems = {}, []
    for url, path in registration.copies.items():
        try:
            copy = Copy(body=path.read_bytes())
            if not is_document_url(url):
                raise ValueError("a client id is the https URL of a document")  # noqa: TRY301
            client_of(
                url,
                copy,
                private_redirects=frozenset(registration.redirect_uris),
                known=None,
                now=now(),
            )
        except (OSError, ValueError) as error:
            problems.append(f"`auth.registration.copies`: `{url}`: {error}")
        except OAuthError as error:
            why = error.detail or error.public
            problems.append(f"`auth.registration.copies`: `{url}`: {path}: {why}")
        else:
            found[url] = copy
    if problems:
        raise ConfigError("copies of client metadata documents cannot be used", problems=problems)
    return found
