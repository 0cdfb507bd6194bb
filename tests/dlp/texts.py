"""Texts of each class, and such as only look alike. None of them is of anybody."""

import base64

KEY = "AKIAQYLPMN5HHHFPZAM2"
CARD = "4111 1111 1111 1111"
IBAN = "DE89 3704 0044 0532 0130 00"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    + "MIIEowIBAAKCAQEAx7Xk2qVw9LrTzYp3NcBf5GhJ8DsAeQ1UoRiMnWvKtZuPyH4E\n" * 30
    + "-----END RSA PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

THERE: dict[str, tuple[str, str]] = {
    "an issuer's key": ("api_key", f"use {KEY} for it"),
    "a key by its prefix": ("api_key", "token ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    "a private key": ("private_key", PEM),
    "a web token": ("jwt", f"Bearer {JWT}"),
    "a password in a URL": ("url_password", "postgres://app:hunter2x@db.example/x"),
    "a password": ("password", "your password is Mistral-4-Quince"),
    "a drawn secret": ("secret", "DEPLOY_TOKEN=k3Jf82hQp0vLx7Zs"),
    "a drawn secret in XML": ("secret", "<deployToken>\n  k3Jf82hQp0vLx7Zs\n</deployToken>"),
    "a card in groups": ("card", f"card {CARD}"),
    "a card in one": ("card", "371449635398431 is it"),
    "a card that its name tells": ("card", "my card no. 213176828496175"),
    "an account": ("iban", f"pay to {IBAN}."),
    "an account in small letters": ("iban", "gb29nwbk60161331926819"),
    "a number of the US": ("id_us", "219-09-9998"),
    "a number of the Netherlands": ("id_nl", "BSN 111222333"),
    "a number of Germany": ("id_de", "Steuer-ID: 36 574 261 809"),
    "a number of France": ("id_fr", "2 95 10 99 126 111 93"),
    "a number of Italy": ("id_it", "RCCMNL83S18D969H"),
    "a number of Spain": ("id_es", "DNI 54362315-K"),
    "a number of Poland": ("id_pl", "PESEL 44051401359"),
    "a number of Finland": ("id_fi", "131052-308T"),
    "a number of Switzerland": ("id_ch", "756.9217.0769.85"),
    "a number of Brazil": ("id_br", "390.533.447-05"),
    "a number of India": ("id_in", "Aadhaar: 2341 2341 2346"),
    "a number of China": ("id_cn", "360426199101010071"),
    "a number of Mexico": ("id_mx", "BOXW310820HNERXN09"),
    "a number of Canada": ("id_ca", "SIN 123-456-782"),
    "a number of South Africa": ("id_za", "ID number 7503305044089"),
    "an address": ("email", "write to ada@lovelace.example please"),
    "a telephone": ("phone", "+1 650 253 0000"),
    "a telephone that its name tells": ("phone", "tel. (650) 253-0000"),
    "in base64": ("api_key", f"see {base64.b64encode(f'the key is {KEY} ok'.encode()).decode()} there"),
    "in hexadecimal": ("api_key", f"the key is {KEY} ok".encode().hex()),
    "in Arabic-Indic digits": ("card", CARD.translate({c: c + 0x630 for c in range(48, 58)})),
    "in Devanagari digits": ("card", CARD.translate({c: c + 0x936 for c in range(48, 58)})),
    "in full-width digits": ("card", CARD.translate({c: c + 0xFEE0 for c in range(48, 58)})),
    "with nothing visible between": ("card", "\u200b".join(CARD)),
    "in percent": ("card", "".join(f"%{c:02x}" for c in CARD.encode())),
}  # fmt: skip
"""What is there, and of which class."""

NOT_THERE = (
    "351061199701019703",
    "password: required",
    "api_key=YOUR_API_KEY and token = xxxxxxxxxxxxxxxx",
    '{"nextPageToken": "CAUQAA3u2kDk38sK38f", "sync_token": "a8f7d6e5c4b3a2910"}',
    "client_secret: ${CLIENT_SECRET}",
    "secret_name = prod-db-1-credentials",
    "author: k3Jf82hQp0vLx7Zs",
    "card 4111 1111 1111 1112",
    "IBAN DE89 3704 0044 0532 0130 01",
    "order 1234567890123456",
    "111222333 is an order, 44051401359 is another",
    "000-12-3456",
    "2024-05-15 10:00:00 192.168.100.101 3.14159265358979",
    "the keyword is authorization, the token is short",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
)
