"""Secrets that give access, by the forms that their issuers publish."""

import binascii
import re
from typing import Any

import orjson
import re2

from gateway.flow.signs import Found, Sign
from gateway.flow.steps import STEP

_FEWEST_DIFFERENT = 8
_MIXED = 16
"""Different characters in the random part of a real key: `xxxxxxxx` is an example."""

# What is found may be as long as its text is: RE2 lets others have the interpreter meanwhile.
_OCTETS = re2.Options()
# In UTF-8 a letter would be what folds to it as well.
_OCTETS.encoding = re2.Options.Encoding.LATIN1
_EXAMPLE = re2.compile(
    rb"(?i)example|sample|placeholder|your[_-]|my[_-]?(?:password|secret|key)|changeme|redacted|dummy"
    rb"|x{4}|\*{3}|\.{3}|0{8}|1234567890|abcdefgh",
    _OCTETS,
)
KEY_LINE: Any = re2.compile(rb"[A-Za-z0-9+/]{40}")
_LETTER, _DIGIT = re2.compile(rb"[A-Za-z]"), re2.compile(rb"\d")
_SYMBOLS = b"!@#$%^&*+=~?"
_REFERENCE = (b"$", b"<", b"{", b"[", b"(", b"%", b"env:", b"file:", b"vault:", b"op:")
"""How a value begins that only says where the secret is."""


def is_example(text: bytes) -> bool:
    """Tell whether `text` stands where documents put no secret: `your-key`, `xxxxxxxx`."""
    different: set[int] = set()
    for at in range(0, len(text), STEP):
        if len(different) < _FEWEST_DIFFERENT:
            different.update(text[at : at + STEP])
    return len(different) < _FEWEST_DIFFERENT or _EXAMPLE.search(text) is not None


def _is_random(found: Found) -> bool:
    return not is_example(found[0])


def _is_key_text(found: Found) -> bool:
    """Tell whether key material follows the first line of a PEM block; documents quote the line."""
    return KEY_LINE.search(found[1]) is not None


def _is_jwt(found: Found) -> bool:
    head: bytes = found[1]
    try:
        header = orjson.loads(
            binascii.a2b_base64(head.translate(_URL_SAFE) + b"=" * (-len(head) % 4))
        )
    except (binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and isinstance(header.get("alg"), str)


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def _is_password(found: Found) -> bool:
    """Tell whether what is assigned looks made up by nobody but its owner.

    A word alone is as likely to be prose ("password: required"), so a digit or a symbol is wanted.
    """
    text: bytes = found[1].rstrip(b".,;:!?)]}")
    if len(text) < 6 or text.startswith(_REFERENCE) or _EXAMPLE.search(text):  # noqa: PLR2004
        return False
    if b"://" in text:
        return False  # where to change it
    has_letter = _LETTER.search(text) is not None
    has_more = _DIGIT.search(text) is not None or any(c in _SYMBOLS for c in text)
    return has_letter and has_more and b"(" not in text


def _is_in_url(found: Found) -> bool:
    password: bytes = found[1]
    return (
        not password.startswith(_REFERENCE)
        and _EXAMPLE.search(password) is None
        and password.lower() not in (b"password", b"pass", b"passwd", b"pwd", b"secret", b"user")
    )


def _prefixed(trigger: str, pattern: str) -> Sign:
    expression = re2.compile(rf"\b(?:{pattern})".encode())
    return Sign(trigger=trigger, pattern=expression, is_real=_is_random, of="api_key")


CREDENTIALS: tuple[Sign, ...] = (
    Sign(
        trigger=r"PRIVATE KEY",
        pattern=re2.compile(
            rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----((?s:.){0,400})"
        ),
        is_real=_is_key_text,
        of="private_key",
    ),
    _prefixed("PuTTY-User-Key", r"PuTTY-User-Key-File-[23]: [a-z0-9-]+"),
    _prefixed("AGE-SECRET-KEY", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _prefixed("(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _prefixed(
        "ABSK|bedrock-api-key-",
        r"(?:ABSK[A-Za-z0-9+/]{109,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=]{28,})",
    ),
    _prefixed("gh[pousr]_", r"gh[pousr]_[A-Za-z0-9]{36,255}\b"),
    _prefixed("github_pat_", r"github_pat_\w{70,90}\b"),
    _prefixed("glpat-", r"glpat-[A-Za-z0-9_-]{20,}"),
    _prefixed("xox[abeoprs]-|xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{24,}"),
    _prefixed("hooks[.]slack", r"hooks\.slack\.com/services/T\w{6,}/B\w{6,}/[A-Za-z0-9]{20,}"),
    _prefixed("AIza", r"AIza[0-9A-Za-z_-]{35}"),
    _prefixed("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _prefixed(r"ya29[.]", r"ya29\.[A-Za-z0-9_-]{30,}"),
    _prefixed("[rs]k_(?:live|test)_", r"[rs]k_(?:live|test)_[0-9a-zA-Z]{20,}"),
    _prefixed("whsec_", r"whsec_[A-Za-z0-9+/]{32,}"),
    _prefixed("sk-", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    _prefixed("T3BlbkFJ", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b"),
    _prefixed("sk-ant-", r"sk-ant-[a-z]{3,5}\d\d-[A-Za-z0-9_-]{80,}"),
    _prefixed("hf_|api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{34}\b"),
    _prefixed("npm_", r"npm_[A-Za-z0-9]{36}\b"),
    _prefixed("pypi-Ag", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _prefixed(r"SG[.]", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _prefixed("do[opr]_v1_", r"do[opr]_v1_[a-f0-9]{64}\b"),
    _prefixed("shp(?:at|ca|pa|ss)_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    _prefixed("hvs[.]", r"hvs\.[A-Za-z0-9_-]{24,}"),
    _prefixed(":AA[A-Za-z0-9_-]{4}", r"\d{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    _prefixed("AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    _prefixed("GR1348941", r"GR1348941[A-Za-z0-9_-]{20,}"),
    _prefixed("dnkey-", r"dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    _prefixed("[ps]at[.]", r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b"),
    _prefixed(
        "fo1_|fm[12][ar]?_",
        r"(?:fo1_[A-Za-z0-9_-]{43}|fm1[ar]_[A-Za-z0-9+/]{100,}|fm2_[A-Za-z0-9+/]{100,})",
    ),
    _prefixed(
        "A3-",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}\b",
    ),
    _prefixed("4b1d", r"4b1d[A-Za-z0-9]{38}\b"),
    _prefixed("v1[.]0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    _prefixed("live_", r"live_[A-Za-z0-9_=-]{40}"),
    _prefixed("fio-u-", r"fio-u-[A-Za-z0-9_=-]{64}"),
    _prefixed("eyJrIjoi", r"eyJrIjoi[A-Za-z0-9]{60,}={0,2}"),
    _prefixed("[.]atlasv1[.]", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    _prefixed("sm_(?:aat|pat|sat)_", r"sm_(?:aat|pat|sat)_[A-Za-z0-9]{16,}\b"),
    _prefixed("glffct-", r"glffct-[A-Za-z0-9_-]{20,}"),
    _prefixed("p8e-", r"p8e-[A-Za-z0-9]{32}\b"),
    _prefixed("_gitlab_session=", r"_gitlab_session=[A-Za-z0-9]{32}\b"),
    _prefixed("xoxe[.]xox[bp]-", r"xoxe\.xox[bp]-\d-[A-Za-z0-9]{100,}"),
    _prefixed("gsk_|xai-|pplx-", r"(?:gsk_[A-Za-z0-9]{52}|(?:xai|pplx)-[A-Za-z0-9]{48,80})\b"),
    _prefixed("r8_", r"r8_[A-Za-z0-9]{37}\b"),
    _prefixed("ATATT3x|ATCTT3x|ATBB", r"(?:AT[AC]TT3x[A-Za-z0-9_=-]{60,}|ATBB[A-Za-z0-9]{32}\b)"),
    _prefixed("dapi", r"dapi[a-f0-9]{32}(?:-\d)?\b"),
    _prefixed("EAA", r"EAA[A-Z][A-Za-z0-9]{80,}"),
    _prefixed("NRAK-|NRII-|NRJS-", r"NR(?:AK-[A-Z0-9]{27}|II-[A-Za-z0-9_-]{32}|JS-[a-f0-9]{19})\b"),
    _prefixed("lin_(?:api|oauth)_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}\b"),
    _prefixed("PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    _prefixed("pul-", r"pul-[a-f0-9]{40}\b"),
    _prefixed("rubygems_", r"rubygems_[a-f0-9]{48}\b"),
    _prefixed("sgp_", r"sgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}\b"),
    _prefixed("shippo_", r"shippo_(?:live|test)_[a-f0-9]{40}\b"),
    _prefixed(
        "sq0(?:atp|csp|idp)-|EAAA",
        r"(?:sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43}|EAAA[A-Za-z0-9_-]{60})",
    ),
    _prefixed("SK[0-9a-f]", r"SK[0-9a-f]{32}\b"),
    _prefixed("-us[0-9]", r"[0-9a-f]{32}-us[0-9]{1,2}\b"),
    _prefixed("key-[0-9a-f]", r"key-[0-9a-f]{32}\b"),
    _prefixed("xkeysib-", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    _prefixed("dckr_(?:pat|oat)_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    _prefixed("tfp_", r"tfp_[A-Za-z0-9_=.-]{44,59}"),
    _prefixed("fig[dou]r?_", r"fig(?:d|o[hr]|ur?)_[A-Za-z0-9_-]{40,}"),
    _prefixed("ntn_", r"ntn_[A-Za-z0-9]{43,50}\b"),
    _prefixed(
        "gl(?:agent|cbt|dt|ft|imt|oas|ptt|rt|soat)-",
        r"gl(?:agent|cbt|dt|ft|imt|oas|ptt|rt|soat)-[A-Za-z0-9_.-]{20,}",
    ),
    _prefixed(
        r"dp[.](?:pt|st|ct|sa|scim|audit)[.]",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,}",
    ),
    _prefixed("FLWSECK", r"FLWSECK(?:_TEST)?-[a-zA-Z0-9]{12,}-X\b"),
    _prefixed("ph[cx]_", r"ph[cx]_[A-Za-z0-9]{43,}\b"),
    _prefixed("sntry[su]_", r"sntry(?:u_[a-f0-9]{64}|s_eyJ[A-Za-z0-9_+/=-]{60,})"),
    _prefixed("CFPAT-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    _prefixed("AKCp", r"AKCp[A-Za-z0-9]{69}\b"),
    _prefixed("dt0[a-z]01[.]", r"dt0[a-z]01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}\b"),
    _prefixed("EZ[AT]K", r"EZ[AT]K[a-zA-Z0-9]{54}\b"),
    _prefixed("duffel_", r"duffel_(?:live|test)_[A-Za-z0-9_=-]{43}"),
    _prefixed(
        "gl(?:c|sa)_", r"gl(?:c_[A-Za-z0-9+/]{32,}={0,2}|sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}\b)"
    ),
    _prefixed("HRKU-", r"HRKU-[A-Za-z0-9_-]{36,}"),
    _prefixed("ico-", r"ico-[a-zA-Z0-9]{32}\b"),
    _prefixed("[ps]k[.]eyJ", r"[ps]k\.eyJ[A-Za-z0-9_-]{60,}\.[A-Za-z0-9_-]{22}"),
    _prefixed("sha256~", r"sha256~[A-Za-z0-9_-]{43}"),
    _prefixed("pscale_", r"pscale_(?:tkn|pw|oauth|pat)_[A-Za-z0-9_=.-]{32,}"),
    _prefixed("pnu_", r"pnu_[a-zA-Z0-9]{36}\b"),
    _prefixed("rdme_", r"rdme_[a-z0-9]{70}\b"),
    _prefixed("ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}"),
    _prefixed("CLOJARS_", r"CLOJARS_[a-z0-9]{60}\b"),
    _prefixed(
        "AQVN|t1[.]",
        r"(?:AQVN[A-Za-z0-9_-]{35,38}|t1\.[A-Z0-9a-z_-]+={0,2}\.[A-Z0-9a-z_-]{86}={0,2})",
    ),
    _prefixed("Q~", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    _prefixed("secret_[A-Za-z0-9]", r"secret_[A-Za-z0-9]{43}\b"),
    _prefixed("hvb[.]|hvr[.]", r"hv[br]\.[A-Za-z0-9_-]{24,}"),
    _prefixed(
        r"[.][A-Za-z0-9_-]{6}[.][A-Za-z0-9_-]{20}",
        r"[MNO][A-Za-z0-9]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,42}",
    ),
    _prefixed(
        "discord(?:app)?[.]com/api/webhooks",
        r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,72}",
    ),
    _prefixed(
        "webhook[.]office[.]com",
        r"webhook\.office\.com/webhookb2/[a-z0-9@-]{36,}/IncomingWebhook/[a-z0-9]{32}/[a-z0-9-]{36}",
    ),
    Sign(
        trigger=r"eyJ[A-Za-z0-9_-]{8,}[.]eyJ",
        pattern=re2.compile(rb"\b(eyJ[A-Za-z0-9_-]{8,})\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}"),
        is_real=_is_jwt,
        of="jwt",
    ),
    Sign(
        trigger=(
            r"(?i)(?:passw(?:or)?d|passphrase|pwd|api[_ -]?key|secret[_ -]?(?:access[_ -]?)?key"
            r"|(?:access|auth|refresh|bot)[_ -]?token|client[_ -]?secret)[\\\"']{0,2}(?:\s*[:=]|\s+is\b)"
        ),
        pattern=re2.compile(
            rb"(?i)(?:passw(?:or)?d|passphrase|pwd|api[_ -]?key|secret[_ -]?(?:access[_ -]?)?key"
            rb"|(?:access|auth|refresh|bot)[_ -]?token|client[_ -]?secret)"
            rb"[\\\"']{0,2}(?:\s*=+[ \t]*|\s*:[:=]*\s*|\s+is:?\s+)[\\\"'`]{0,2}([^\s\\\"'`<>,]{6,})"
        ),
        is_real=_is_password,
        of="password",
        part=1,
    ),
    Sign(
        trigger=r"://[^\s/:@]{1,64}:[^\s/@]{3,}@",
        pattern=re2.compile(
            rb"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{1,64}:([^\s/@\"']{3,128})@[A-Za-z0-9\[]"
        ),
        is_real=_is_in_url,
        of="url_password",
        part=1,
    ),
)
"""Keys, tokens and passwords. A form that ordinary texts have too is none of them."""


def _is_drawn(found: Found) -> bool:
    """Tell whether letters of both cases and digits are mixed, as they are in what was drawn."""
    text: bytes = found[1]
    kinds = (rb"[a-z]", rb"[A-Z]", rb"[0-9]")
    return len(set(text)) >= _MIXED and all(re.search(kind, text) for kind in kinds)


def _has_digit(found: Found) -> bool:
    return _DIGIT.search(found[1]) is not None


SHOWN_ONCE: tuple[Sign, ...] = (
    Sign(
        trigger=r"(?i)\b(?:bearer|basic|negotiate)\s+[A-Za-z0-9+/_.~=-]{12}",
        pattern=re2.compile(rb"(?i)\b(?:bearer|basic|negotiate)\s+([A-Za-z0-9+/_.~=-]{12,})"),
        is_real=_has_digit,
    ),
    Sign(
        trigger=r"(?i)(?:cookie|authorization|x-api-key|proxy-authorization)\\?[\"']?\s*:",
        pattern=re2.compile(
            rb"(?i)\b(?:set-cookie|cookie|authorization|x-api-key)\\?[\"']?\s*:\s*[\"']?([^\r\n\"']{6,})"
        ),
    ),
    Sign(
        trigger=r"(?i)[?&#\s](?:code|code_verifier|id_token|assertion|client_assertion|sig|signature"
        r"|token|key|apikey|session|ticket)=[^&\s]{8}",
        pattern=re2.compile(
            rb"(?i)[?&#\s](?:code|code_verifier|id_token|assertion|client_assertion|sig|signature"
            rb"|token|key|apikey|session|ticket)=([^&\s\"'<>]{8,})"
        ),
        is_real=_has_digit,
    ),
    Sign(
        trigger=r"(?:^|[^A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?:[^A-Za-z0-9_-]|$)",
        pattern=re2.compile(rb"(?:^|[^A-Za-z0-9_-])([A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)"),
        is_real=_is_drawn,
    ),
)
"""What stands in headers and addresses of one request, and our own secrets: 256 bits in base64url."""
