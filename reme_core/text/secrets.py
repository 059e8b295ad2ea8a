"""Which words are secrets: keys, passwords and personal numbers. Each is known by its form, and by its check digits.

If the form says little (a PIN, a passport's number), a word near the value has to tell what it is.
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import importlib
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from reme_core.errors import ConfigurationError

_LONG = 15  # signs of the shortest IBAN
_BEFORE, _AFTER = 48, 40  # characters around a value in which a word may tell what it is


@dataclass(frozen=True, slots=True)
class Rule:
    """How secrets of one kind are found."""

    kind: str
    form: re.Pattern[str]
    """How it is written. If the pattern has groups, the secret is the group that matched."""
    check: Callable[[str], object] | None
    """Whether a value can be a secret, by its check digits or otherwise."""
    near: re.Pattern[str] | None
    """Words of which one has to stand near the value; None if the form is enough."""

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where secrets of this kind begin and end."""
        # Most texts have none of the words, and are done with here.
        if self.near is not None and not self.near.search(text):
            return
        for match in self.form.finditer(text):
            begin, end = match.span(match.lastindex or 0)
            value = text[begin:end]
            while self.check is not None and value and not self.check(value):
                # The next word may look like one more group of a long number.
                value = value.rpartition(" ")[0] if len(value) > _LONG else ""
                if not self.form.match(text, match.start(), begin + len(value)):
                    value = ""  # what is left is no such number: half of another one may pass a check by chance
            if value and self._is_named(text, begin, end):
                yield begin, begin + len(value)

    def _is_named(self, text: str, begin: int, end: int) -> bool:
        around = f"{text[max(begin - _BEFORE, 0) : begin]}\n{text[end : end + _AFTER]}"
        return self.near is None or self.near.search(around) is not None


@cache
def rules_of(names: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules for some kinds, for groups of kinds, or for `all`.

    Raises:
        ConfigurationError: There is no such kind or group.
    """
    known = {"all", *_TABLE, *(row[0] for rows in _TABLE.values() for row in rows)}
    if unknown := sorted(set(names) - known):
        raise ConfigurationError(f"redact: there is no kind {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return tuple(
        Rule(
            kind,
            re.compile(form, re.ASCII),
            _check(check) if check else None,
            re.compile(near, re.ASCII | re.IGNORECASE) if near else None,
        )
        for group, rows in _TABLE.items()
        for kind, form, check, near in rows
        if not {"all", group, kind}.isdisjoint(names)
    )


def _check(name: str) -> Callable[[str], Any]:
    own: Callable[[str], Any] | None = globals().get(f"_is_{name}")
    if own is not None:
        return own
    # Imported only where something is to be redacted.
    is_valid = importlib.import_module(f"stdnum.{name}").is_valid
    return lambda value: is_valid(re.sub(r"[\s.-]", "", value))


def _is_iban(value: str) -> Any:
    # The check digits are enough; a country's own rules could only refuse more numbers.
    return importlib.import_module("stdnum.iban").is_valid(value, check_country=False)


def _is_password(value: str) -> bool:
    # What stands behind "password:" may be a word; a password has a digit, or a sign that no word has.
    return any(c.isdigit() for c in value) or re.search(r"\w[^\w\s'.-]+\w", value) is not None


def _is_key(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_phrase(value: str) -> bool:
    # A wallet has so many words; "the" or "and" among them make a sentence.
    return len(value.split()) in (12, 15, 18, 21, 24) and not _JOINING.search(value)


def _is_address(value: str) -> bool:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    # "Section 4.2.1.3" has the form of an address too, and 127.0.0.1 tells nothing.
    return sum(map(str.isalnum, value)) > 5 and not (address.is_loopback or address.is_unspecified)


def _is_vin(value: str) -> bool:
    # The ninth sign is a check digit, in North America and China.
    rest = sum(int(c) * w for c, w in zip(value.translate(_VIN), _VIN_WEIGHTS, strict=True)) % 11
    return value[8] == "0123456789X"[rest] and value.isalnum() and not value.isalpha()


# The values of letters in a vehicle's number; I, O and Q do not occur.
_VIN: Final = str.maketrans("ABCDEFGHJKLMNPRSTUVWXYZ", "12345678123457923456789")
_VIN_WEIGHTS: Final = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
_JOINING: Final = re.compile(
    r"\b(?:an?|the|and|or|but|if|of|to|in|on|at|for|with|from|by|as|is|are|was|were|be|been|am|has|had|do|does|did|not|no|i"
    r"|me|my|your|his?|she|her|its?|we|our|us|their|them|so|than|too)\b"
)

_A, _Z = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"  # no letter or digit before it, and none behind it
_D, _E = r"(?<![\d.])", r"(?![\d]|\.\d)"  # no digit before it, and none behind it
_W = r"(?<![\w-])"  # not within a word, so that each long word is looked at once
_IS = r"\s?(?:(?:->|[:=：＝→是为成]|\b(?:is|was|to|ist|lautet|est|es|é)\b)了?\s?){1,3}[\"'“‘「`]?"
_NAMED = r"(?i:pass ?words?|passwd|passphrase|passcode|passwort|kennwort|contraseña|senha|mot de passe|密码|口令|(?<![a-z])(?:pass|pwd?|psw))"
_VALUE = r"((?!//)[!#-&(*+./0-9:<-_a-~À-ɏ-]{5,64})(?<![.!?:])"
# The kind, its form, the name of its check and the words near it; the last two may be empty.
_Row = tuple[str, str, str, str]

_TABLE: Final[dict[str, tuple[_Row, ...]]] = {
    "keys": (
        ("private_key", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----([A-Za-z0-9+/=\s\\:,-]{40,6000}?)(?:-----END|\Z|\")", "", ""),
        ("service_account_key", r"[\"']?private_?[kK]ey[\"']?\s?:\s?[\"']([^\"'-][^\"']{40,8000})[\"']", "", ""),
        ("aws_key", _A + r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}" + _Z, "", ""),
        ("aws_secret", r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])", "key", r"secret|aws"),
        ("github_token", _W + r"(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{22,255})", "", ""),
        ("gitlab_token", _W + r"gl[a-z]{2,8}-[\w-]{20,64}", "key", ""),
        ("slack_token", _W + r"(?:xox[a-z]-[\w-]{10,250}|xapp-\d-[\w-]{20,250})|https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{10,200}", "", ""),
        ("stripe_key", _W + r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,250}|whsec_[A-Za-z0-9+/=]{20,100})", "", ""),
        ("anthropic_key", _W + r"sk-ant-[\w-]{20,200}", "", ""),
        ("openai_key", _W + r"sk-(?:[a-z]{3,12}-[\w-]{20,250}|[A-Za-z0-9]{32,64})", "key", ""),
        ("google_key", _W + r"AIza[\w-]{35}(?![\w-])", "", ""),
        ("azure_key", r"(?:AccountKey|AccessKey|SharedAccessSignature)=([A-Za-z0-9+/]{20,100}={0,2})", "", ""),
        ("web_token", _W + r"eyJ[\w-]{8,4000}\.[\w-]{8,8000}\.[\w-]{8,1000}", "", ""),
        ("sendgrid_key", _W + r"SG\.[\w-]{16,32}\.[\w-]{32,64}", "", ""),
        ("twilio_key", _A + r"(?:SK|AC)[0-9a-f]{32}" + _Z, "", ""),
        ("twilio_key", _A + r"[0-9a-f]{32}" + _Z, "", r"twilio|auth.?token"),
        ("package_token", _W + r"(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,500})", "", ""),
        ("bot_token", r"(?<!\d)\d{8,10}:[\w-]{35}(?![\w-])|" + _W + r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}", "", ""),
        ("api_key", r"(?i:(?:api|access|secret)[_ -]?key|auth[_ -]?token|access[_ -]?token|client[_ -]?secret|bearer|密钥)[\"']?(?:\s?(?:[:=：]|is|是)){0,2}\s?[\"'“]?([\w./+=-]{16,500})", "key", ""),
        ("url_password", r"(?<![A-Za-z])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:([^\s/\"']{1,200})@", "", ""),
        ("database_password", r"(?i:(?:password|pwd)=)([^;\s\"'\[][^;\s\"']{2,99});|;\s?(?i:(?:password|pwd)=)([^;\s\"'\[][^;\s\"']{2,99})|(?i:\b(?:mysql|mysqldump|mariadb)\b)[^\n]{0,60}? -p([^\s\[]\S{2,63})", "", ""),
        ("password", _NAMED + r"(?:[^\n:=：＝→是为成，,。.!?]{0,32}?" + _IS + r"|(?<=[码令])\s?)" + _VALUE + r"|(?i:\b(?:log ?in|user|account)|账号)\W{1,3}\S{1,64} ?/ ?" + _VALUE, "password", ""),
        ("pin", r"(?:(?i:(?<![a-z])pin(?![a-z])|pin-?code|puk|(?:alarm|door|gate|unlock|entry) code)(?:[^\d\n]{0,28}(?:\bis|\bwas|[:=：是为])\W{0,3}|(?:码| code| number)?\W{0,3})|(?:密码|门锁|口令)\D{0,6})(\d{4,8})(?!\d)", "", ""),
        ("seed_phrase", r"(?<![a-z])[a-z]{3,8}(?:[ \n][a-z]{3,8}){11,23}(?![a-z])", "phrase", ""),
    ),
    "money": (
        ("iban", _A + r"[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?" + _Z, "iban", ""),
        ("card_number", _D + r"(?:3[47]\d{2}[ -]?\d{6}[ -]?\d{5}|3[0689]\d{2}[ -]?\d{6}[ -]?\d{4}|[2-6]\d{3}(?:[ .-]?\d{4}){3}(?:[ -]?\d{1,3})?|4\d{12})" + _E, "luhn", ""),
        ("card_code", _D + r"\d{3,4}" + _E, "", r"\bcv[vc]2?\b|\bcsc\b|安全码|security code|code on the (?:front|back)|back of (?:the|my) card|digits on the back|背面|后三位|cv[vc]"),
        ("bank_account", r"(?:(?<!\d)\d\d-\d\d-\d\d|\d{6} ?/|sort(?: ?code)?\D{0,6}\d\d[ -]?\d\d[ -]?\d\d)(?!\d)\D{0,20}(\d{8})(?!\d)|(?<!\d)(\d{8})\D{0,24}(?<!\d)\d\d-\d\d-\d\d(?!\d)", "", ""),
        ("routing_number", _D + r"\d{9}" + _E, "us.rtn", r"routing|\baba\b|\bwire|check|\brtn\b|\bach\b|deposit|transit"),
        ("bank_code", _A + r"[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?" + _Z, "bic", r"\bbic\b|swift|bank (?:identifier|code)|bankleitzahl"),
        ("bitcoin_address", _A + r"(?:bc1[a-z0-9]{25,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34})" + _Z, "bitcoin", ""),
        ("ether_address", _A + r"0x[0-9a-fA-F]{40}" + _Z, "", ""),
    ),
    "identity": (
        ("cn_resident_id", _A + r"[1-9]\d{5}(?:18|19|20)\d\d(?:0[1-9]|1[0-2])[0-3]\d{4}[\dXx]" + _Z, "iso7064.mod_11_2", ""),
        ("us_social_security", _D + r"(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}" + _E, "", ""),
        ("us_social_security", _D + r"(?!000|666|9)\d{3} ?(?!00)\d\d ?(?!0000)\d{4}" + _E, "", r"\bssn\b|social"),
        ("uk_health_number", _D + r"\d{3}[ -]?\d{3}[ -]?\d{4}" + _E, "gb.nhs", r"\bnhs|health number"),
        ("uk_insurance_number", _A + r"[A-Z]{2}[ -]?\d\d[ -]?\d\d[ -]?\d\d[ -]?[A-D]" + _Z, "", ""),
        ("de_tax_id", _D + r"\d\d[ ]?\d{3}[ ]?\d{3}[ ]?\d{3}" + _E, "iso7064.mod_11_10", r"steuer|tax|idnr|\btin\b|税"),
        ("fr_social_security", _D + r"[12] ?\d\d ?\d\d ?\d[\dAB] ?\d{3} ?\d{3} ?\d\d" + _E, "fr.nir", ""),
        ("in_aadhaar", _D + r"[2-9]\d{3}[ -]?\d{4}[ -]?\d{4}" + _E, "in_.aadhaar", ""),
        ("in_tax_id", _A + r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]" + _Z, "", ""),
        ("br_tax_id", _D + r"\d{3}\.\d{3}\.\d{3}-\d\d" + _E, "br.cpf", ""),
        ("br_tax_id", _D + r"\d{11}" + _E, "br.cpf", r"\bcpf"),
        ("passport_number", _A + r"(?=[A-Z]{0,2}\d)[A-Z0-9]{7,9}" + _Z, "", r"pas+[ae]?port|护照|reisepass|travel doc|\bpp ?[#n]"),
        ("driving_licence", _A + r"[A-Z9]{5}\d{6}[A-Z9]{2}[A-Z0-9]{3}" + _Z, "", ""),
        ("driving_licence", _A + r"(?:[A-Z]\d{3}(?:[ -]?\d{2,4}){2,4}(?:-\d)?|\d{3} \d{3} \d{3}|(?=[A-Z]{0,4}\d)[A-Z0-9]{8,15}|\d{12})" + _Z, "", r"licen[cs]e|driver|driving|führerschein|fahrerlaubnis|permis|驾驶|驾照"),
        ("vehicle_number", _A + r"[A-HJ-NPR-Z0-9]{17}" + _Z, "vin", ""),
    ),
    "contact": (
        ("email", r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}", "", ""),
        ("cn_mobile", r"(?<![\d.])(?:\+?86[ -]?)?1[3-9]\d[ -]?\d{4}[ -]?\d{4}" + _E, "", ""),
        ("phone", r"(?<![\w.])(?:\+\d{1,3}[ .-]?(?:\(?\d{1,5}\)?[ .-]?){2,5}\d{2}|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}[.-]\d{3}[.-]\d{4}|07\d{3} ?\d{6})" + _E, "", ""),
        ("phone", _D + r"(?:0\d{1,4}[ /-]?\d{3,8}(?:[ -]?\d{2,5}){0,3}|\d{3}[ .-]\d{4})" + _E, "", r"phone|mobile|\btel|\bcell|landline|\bcall|\bring|\btext|\bfax|whatsapp|handy|praxis|电话|手机|座机|号码|拨"),
    ),
    "devices": (
        ("ip_address", _D + r"(?:\d{1,3}\.){3}\d{1,3}" + _E + r"|(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])", "address", ""),
        ("mac_address", r"(?<![\w:-])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:-])|(?<![\w.])[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![\w.])", "", ""),
        ("imei", _D + r"\d\d[ -]?\d{6}[ -]?\d{6}[ -]?\d" + _E, "luhn", r"imei|串号|unlock|phone|device|handset|手机"),
    ),
}  # fmt: skip


_NAMES = re.compile(
    r"pass(?:word|wd|phrase|code)?$|token|secret|credential|api_?key|cvv|^pin$|^otp$|密码|密钥|口令", re.IGNORECASE
)


def without_named(value: Any) -> Any:
    """A JSON value with `…` for each one whose name says that it is a secret, at any depth.

    >>> without_named({"user": "ann", "login": {"password": "s3cret"}, "max_tokens": 50})
    {'user': 'ann', 'login': {'password': '…'}, 'max_tokens': 50}
    """
    if isinstance(value, Mapping):
        return {name: "…" if _is_secret(name, inner) else without_named(inner) for name, inner in value.items()}
    return [without_named(inner) for inner in value] if isinstance(value, list) else value


def _is_secret(name: str, value: Any) -> bool:
    # A number of tokens is none.
    return _NAMES.search(name) is not None and not ("token" in name.lower() and isinstance(value, int | float))
