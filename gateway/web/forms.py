"""What a browser sends with a form: read strictly, and only from a page of ours."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from gateway.errors import Refusal
from gateway.signin.errors import Forged

MOST_FIELDS = 16
LARGEST_BYTES = 16 * 1024
"""Of a form with so many fields; one that may have more is as much larger."""
_FORM = "application/x-www-form-urlencoded"


class BadForm(Refusal):
    """A request that no form or link of ours can have sent; `status` says what is wrong with it."""

    code = "bad_form"

    def __init__(self, public: str, *, status: int = 400) -> None:
        super().__init__(public)
        self.status = status


async def form_of(
    request: Request, origin: str, most_fields: int = MOST_FIELDS
) -> Mapping[str, str]:
    """Return the fields of a form that a page of `origin` sent, each present once.

    Raises:
        Forged: Another site's page sent it, as far as the browser tells.
        BadForm: It is not urlencoded, too large or ambiguous.

    """
    _require_ours(request, origin)
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != _FORM:
        raise BadForm("This is not a form.", status=415)
    if "content-encoding" in request.headers:
        raise BadForm("This is not a form.", status=415)
    return _fields(await _body(request, LARGEST_BYTES * most_fields // MOST_FIELDS), most_fields)


def query_of(request: Request) -> Mapping[str, str]:
    """Return the parameters behind `?`, each present once.

    Raises:
        BadForm: They cannot be read, or one is repeated.

    """
    return _fields(request.scope["query_string"])


def _require_ours(request: Request, origin: str) -> None:
    """Refuse what a page of another site submits; the token in the form is the other lock.

    Our own pages say `Referrer-Policy: no-referrer`, which makes browsers send `Origin: null` (Fetch
    section 3.2): then `Sec-Fetch-Site` has to vouch for it. Neither can be set by a page.
    """
    sites = request.headers.getlist("sec-fetch-site")
    origins = request.headers.getlist("origin")
    same_site = sites == ["same-origin"]
    if sites and not same_site:
        raise Forged
    if origins not in ([], [origin]) and not (origins == ["null"] and same_site):
        raise Forged


async def _body(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_bytes:
                raise BadForm("This form is too large.", status=413)
    except ClientDisconnect:
        raise BadForm("This form is cut short.") from None
    return bytes(body)


def _fields(encoded: bytes, most: int = MOST_FIELDS) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            encoded.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(encoded),
            errors="strict",
            max_num_fields=most,
        )
    except ValueError:
        # Without a cause: the text of the error could hold a piece of a password.
        raise BadForm("This form cannot be read.") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise BadForm("This form cannot be read.")
    return fields
