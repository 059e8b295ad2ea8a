"""Secrets are found by their form and their check digits, and what merely looks like one stays."""

from __future__ import annotations

import pytest

from reme_core.errors import ConfigurationError
from reme_core.settings import Settings
from reme_core.text.redact import redact
from reme_core.types import Message, ToolCall

# Published examples and made-up values; those with check digits are right.
SECRETS = {
    "private_key": ("-----BEGIN RSA PRIVATE KEY-----{}-----END RSA PRIVATE KEY-----", "MIIB" + "Qx9/" * 30),
    "service_account_key": ('{{"private_key": "{}"}}', "MIIEv" + "QIBADAN" * 12),
    "aws_key": ("key id {}.", "AKIA" + "IOSFODNN7EXAMPLE"),
    "aws_secret": ("aws secret {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"),
    "github_token": ("GH_TOKEN={} gh pr list", "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"),
    "gitlab_token": ("https://oauth2:x@h/ {}", "glpat-" + "ABCdef123456_7890xyz"),
    "slack_token": ("令牌{}，过期了", "xoxb-" + "123456789012-abcdefGHIJKL"),
    "stripe_key": ("why does {} fail", "sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc"),
    "anthropic_key": ("密钥{}，放在哪", "sk-ant-api03-" + "a1B2" * 12),
    "openai_key": ("key is: {} .", "sk-proj-" + "a1B2c3" * 12),
    "google_key": ("maps key {}", "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"),
    "azure_key": ("AccountName=a;AccountKey={};EndpointSuffix=x", "Zm9v" * 20 + "=="),
    "web_token": ("Bearer {} expired", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"),
    "sendgrid_key": ("smtp pass {}", "SG." + "a1B2c3D4e5F6g7H8i9J0kL." + "Zx9" * 14),
    "twilio_key": ("twilio auth token: {}", "0123456789abcdef" * 2),
    "package_token": ("_authToken={}", "npm_" + "a1B2c3D4e5F6" * 3),
    "bot_token": ("BOT={}", "123456789:" + "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw7"),
    "api_key": ("my api key: {}", "zq81-Kf02-Lm93-Px44"),
    "url_password": ("https://ci:{}@nexus.example/repo", "x8Qm2vLp"),
    "database_password": ("Server=s;User Id=sa;Password={};", "S4lmon&Dill"),
    "password": ("the password for the wifi at mum's is {}, right?", "Kite!Sunfl0wer"),
    "pin": ("my pin is {}", "4831"),
    "seed_phrase": ('on paper: "{}"', "legal winner thank year wave sausage worth useful legal winner thank yellow"),
    "iban": ("Send it to {} BANK", "DE89 3704 0044 0532 0130 00"),
    "card_number": ("卡号是{}，帮我看看", "4111111111111111"),
    "card_code": ("cvv {} ok", "737"),
    "bank_account": ("sort code 20-45-77, account {}", "63748472"),
    "routing_number": ("routing {} checking", "021000021"),
    "bank_code": ("BIC {}", "DEUTDEFF"),
    "bitcoin_address": ("send to {}", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    "ether_address": ("钱包 {}\nGas", "0x" + "fB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"),
    "cn_resident_id": ("身份证号：{}，谢谢", "11010519491231002X"),
    "us_social_security": ("ssn {}", "078-05-1120"),
    "uk_health_number": ("my NHS number is {}", "943 476 5919"),
    "uk_insurance_number": ("NI {}.", "QQ 12 34 56 C"),
    "de_tax_id": ("meine Steuer-ID: {}", "86 095 742 719"),
    "fr_social_security": ("n° {} ?", "2 55 08 14 168 025 38"),
    "in_aadhaar": ("aadhaar {}", "2341 2341 2346"),
    "in_tax_id": ("PAN {}", "AFZPK7190K"),
    "br_tax_id": ("cpf {}", "529.982.247-25"),
    "passport_number": ("新护照 {} 呢", "EJ4471029"),
    "driving_licence": ("UK licence {} is on it", "MORGA753116SM9IJ"),
    "vehicle_number": ("my car's {}", "1HGCM82633A004352"),
    "email": ("写给xiao@example.cn".replace("xiao@example.cn", "{}"), "xiaolin.wu@example.cn"),
    "cn_mobile": ("我手机号{}，快递打这个", "13800138000"),
    "phone": ("ring me at {} after six", "(212) 555-0147"),
    "ip_address": ("logged in from {}", "192.0.2.133"),
    "mac_address": ("printer is {}", "00:1A:2B:3C:4D:5E"),
    "imei": ("IMEI {} stolen", "490154203237518"),
}  # fmt: skip
HARMLESS = (
    "Card games for 4 people, 52 cards, order 4111 1111 1111 1112 arrives on 2024-11-03 at 10:15:30.",
    "Sixteen digits of no card, though their first twelve pass the check: 4242 4242 4242 4243.",
    "Section 4.2.1.3 of version 10.4.0.2 says port 127.0.0.1:8002; commit 3f2a9c81d0.",
    "My password is very long and I keep forgetting it; where do I reset the password on https://a.example/reset/2024?",
    "Remind me of my passport on Monday, call me Sam, and pin the note about the 1200 calories.",
    "std::vector<int> a = {1, 2, 3}; for i in range(100000): reset_password_form(i)",
    "密码强度要求12位以上合理吗？我一共有15个，电话打了3次，房间号是2046。",
    "He was born in 1987, weighs 82.5 kg, runs 10 km in 48:30 and pays 1,250.00 a month for flat 12345678.",
)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_gives_way_to_its_mark_and_the_rest_stays(kind: str) -> None:
    sentence, secret = SECRETS[kind]
    shown = sentence.format(f"[{kind.replace('_', ' ')}]")
    assert redact(sentence.format(secret), [kind]) == shown
    clean = redact(sentence.format(secret), ["all"])
    assert secret not in clean
    assert redact(clean, ["all"]) == clean


def test_what_is_redacted_already_stays_as_it_is() -> None:
    once = redact("mysqldump -u root -phunter22 shop", ["keys"])
    assert once == redact(once, ["keys"]) == "mysqldump -u root -p[database password] shop"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_merely_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text, ["all"]) == text


@pytest.mark.parametrize("kind", ["card_number", "iban", "cn_resident_id", "routing_number", "de_tax_id", "in_aadhaar",
                                  "br_tax_id", "fr_social_security", "uk_health_number", "vehicle_number", "imei",
                                  "bitcoin_address"])  # fmt: skip
def test_a_wrong_check_digit_makes_it_no_secret(kind: str) -> None:
    sentence, secret = SECRETS[kind]
    *_, place = (n for n, sign in enumerate(secret) if sign.isdigit())
    wrong = f"{secret[:place]}{(int(secret[place]) + 1) % 10}{secret[place + 1 :]}"
    assert redact(sentence.format(wrong), [kind]) == sentence.format(wrong)


def test_names_and_ids_stay_and_all_else_that_a_message_says_is_clean() -> None:
    call = ToolCall(id="c1", name="mail", arguments='{"to": "ann@example.org"}')
    message = Message(
        content="card 4242 4242 4242 4242", author="ann@example.org", session_id="ann@example.org",
        tool_calls=[call], metadata={"seen": ["4242 4242 4242 4242"]}, reasoning_content="her pin is 4831",
    )  # fmt: skip
    clean = redact(message, ["all"])
    assert (clean.author, clean.session_id, clean.message_id) == ("ann@example.org",) * 2 + (message.message_id,)
    assert clean.content == "card [card number]"
    assert clean.reasoning_content == "her pin is [pin]"
    assert clean.metadata == {"seen": ["[card number]"]}
    assert clean.tool_calls[0].arguments == '{"to": "[email]"}'
    assert message.content == "card 4242 4242 4242 4242"


def test_only_what_is_set_is_redacted() -> None:
    said = "mail ann@example.org, card 4242 4242 4242 4242"
    assert redact(said, []) == said
    assert redact(said, ["contact"]) == "mail [email], card 4242 4242 4242 4242"
    assert Settings.load("redact=contact, iban", environ={}).redact == ["contact", "iban"]


def test_an_unknown_kind_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"no kind 'cards'; there are all, anthropic_key.*card_number"):
        redact("x", ["cards"])
