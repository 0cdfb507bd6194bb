"""Numbers that states give to people, by their forms and check digits.

What is a bare run of digits is one only where a word beside it says so: one in ten of all such runs
has a right check digit. The rules are those of python-stdnum, one module a country.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

import re2

from gateway.domain._value import value
from gateway.flow.signs import Found, Sign

_BESIDE: Final = r"[^\n0-9A-Za-z]{0,12}(?:\w{1,12}[^\n0-9A-Za-z]{1,6}){0,2}"
"""What may stand between the word and the number: `Aadhaar (UID) no.: `."""


@value
class _Rule:
    country: str
    module: str
    """Of python-stdnum: its `is_valid`."""
    plain: str = ""
    """The form that needs no word beside it."""
    quick: str = ""
    """What every `plain` has, where that counts in fewer ways."""
    named: str = ""
    """The form beside one of `words`."""
    words: str = ""


_RULES: Final = (
    _Rule(country="us", module="us.ssn", plain=r"\d{3}-\d{2}-\d{4}",
          named=r"\d{3}[- ]?\d{2}[- ]?\d{4}", words="ssn|social security"),
    _Rule(country="gb", module="gb.nhs", named=r"\d{3}[- ]?\d{3}[- ]?\d{4}", words="nhs"),
    _Rule(country="de", module="de.idnr", named=r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
          words="steuer-?id|steueridentifikationsnummer|idnr|tax id|tin"),
    _Rule(country="fr", module="fr.nir",
          plain=r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
          quick=r"\d(?: ?\d){12}|\d ?2[AB] ?\d"),
    _Rule(country="it", module="it.codicefiscale",
          plain=r"[A-Z]{6} ?\d{2}[A-EHLMPRST]\d{2} ?[A-Z]\d{3}[A-Z]"),
    _Rule(country="es", module="es.dni", plain=r"\d{8}-[A-Z]", named=r"\d{8}[- ]?[A-Z]",
          words="dni|nif|documento nacional"),
    _Rule(country="es", module="es.nie", plain=r"[XYZ]-?\d{7}-?[A-Z]"),
    _Rule(country="nl", module="nl.bsn", named=r"\d{4}[. ]?\d{2}[. ]?\d{3}",
          words="bsn|burgerservicenummer|sofi(?:nummer)?|citizen service"),
    _Rule(country="be", module="be.nn", plain=r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}", named=r"\d{11}",
          words="rijksregister(?:nummer)?|registre national|niss|insz|national register"),
    _Rule(country="pl", module="pl.pesel", named=r"\d{11}", words="pesel"),
    _Rule(country="se", module="se.personnummer", plain=r"(?:19|20)\d{6}[-+]\d{4}",
          named=r"(?:\d{2})?\d{6}[-+]?\d{4}", words="personnummer|personal identity|swedish id"),
    _Rule(country="dk", module="dk.cpr", named=r"\d{6}-?\d{4}", words="cpr(?:-?nummer)?|personnummer"),
    _Rule(country="no", module="no.fodselsnummer", named=r"\d{6} ?\d{5}",
          words="f(?:\\xc3\\xb8|o)dselsnummer|personnummer|national identity"),
    _Rule(country="fi", module="fi.hetu", plain=r"\d{6}[-+A-FU-Y]\d{3}[0-9A-Y]"),
    _Rule(country="ch", module="ch.ssn", plain=r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}"),
    _Rule(country="at", module="at.vnr", named=r"\d{4} ?\d{6}",
          words="svnr|sozialversicherungsnummer|versicherungsnummer"),
    _Rule(country="cz", module="cz.rc", plain=r"\d{6}/\d{3,4}", named=r"\d{9,10}",
          words="rodn(?:\\xc3\\xa9|e) (?:\\xc4\\x8d|c)(?:\\xc3\\xad|i)slo"),
    _Rule(country="br", module="br.cpf", plain=r"\d{3}\.\d{3}\.\d{3}-\d{2}", named=r"\d{11}", words="cpf"),
    _Rule(country="in", module="in_.aadhaar", plain=r"[2-9]\d{3} \d{4} \d{4}", quick=r"\d{4} \d{4} \d{4}",
          named=r"[2-9]\d{3}[ -]?\d{4}[ -]?\d{4}", words="aadhaar|aadhar|uid(?:ai)?"),
    _Rule(country="in", module="in_.pan", plain=r"[A-Z]{3}P[A-Z]\d{4}[A-Z]", named=r"[A-Z]{5}\d{4}[A-Z]",
          words="pan(?: card)?|permanent account"),
    _Rule(country="cn", module="cn.ric", plain=r"\d{6}(?:19|20)\d{9}[0-9X]"),
    _Rule(country="kr", module="kr.rrn", plain=r"\d{6}-[1-8]\d{6}", quick=r"\d{6}-\d{7}"),
    _Rule(country="ca", module="ca.sin", named=r"\d{3}[- ]?\d{3}[- ]?\d{3}",
          words="sin|social insurance"),
    _Rule(country="au", module="au.tfn", named=r"\d{3} ?\d{3} ?\d{2,3}", words="tfn|tax file"),
    _Rule(country="mx", module="mx.curp", plain=r"[A-Z]{4}\d{6}[HM][A-Z]{5}[0-9A-Z]\d"),
    _Rule(country="za", module="za.idnr", named=r"\d{6} ?\d{4} ?\d{3}",
          words="sa id|rsa id|id number|identity number"),
    _Rule(country="tr", module="tr.tckimlik", named=r"\d{11}", words=r"t\.?c\.?(?: kimlik)?|kimlik|tckn"),
    _Rule(country="ie", module="ie.pps", named=r"\d{7}[A-W][A-IW]?", words="pps(?:n| number| no)?"),
    _Rule(country="il", module="il.idnr", named=r"\d{8,9}", words="teudat zehut|israeli id"),
    _Rule(country="ro", module="ro.cnp", named=r"\d{13}", words="cnp|cod numeric personal"),
)  # fmt: skip


@cache
def _validator(module: str) -> Callable[[str], bool]:
    """Return what judges a number of that kind; its module is read when the first one is met."""
    judge: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    return judge


def _valid(module: str, group: int) -> Callable[[Found], bool]:
    def is_real(found: Found) -> bool:
        number: bytes = found[group]
        if len(set(number)) <= 2:  # noqa: PLR2004 - 111-11-1111
            return False
        try:
            return _validator(module)(number.decode("ascii", "replace"))
        except LookupError:  # of a place that its table has without a name
            return False

    return is_real


def _signs(rule: _Rule) -> list[Sign]:
    made = []
    of = f"id_{rule.country}"
    if rule.plain:
        # No letter, digit or joint before or after: a part of a longer number is another number.
        edge = rf"(?:^|[^\w.+/-])({rule.plain})(?:[^\w/+-]|$)"
        made.append(_sign(edge, rule.quick or rule.plain, of, rule.module))
    if rule.named:
        beside = rf"(?i:\b(?:{rule.words})\b){_BESIDE}\b({rule.named})(?:[^\w]|$)"
        made.append(_sign(beside, rf"(?i:\b(?:{rule.words})\b)", of, rule.module))
    return made


def _sign(pattern: str, trigger: str, of: str, module: str) -> Sign:
    compiled: Any = re2.compile(pattern.encode("latin-1"))
    return Sign(trigger=trigger, pattern=compiled, is_real=_valid(module, 1), of=of, part=1)


NATIONAL: Final[tuple[Sign, ...]] = tuple(sign for rule in _RULES for sign in _signs(rule))
"""Of 27 countries; class `id_` and the country's code (ISO 3166-1)."""
