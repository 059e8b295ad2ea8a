"""Finds out from the output of a tool whether the call failed, and with which error."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from reme_core.prompts.transcript import condense

MAX_ERROR = 160
"""Characters of an error message that a memory quotes."""


def error_in(text: str) -> str:
    """The error in the output of a tool, in one line; empty if there is none.

    In JSON the fields tell it, in the output of Python the traceback. In other text only the beginning counts, unless
    the text is short.

    >>> error_in('{"status": "error", "message": "no such flight"}'), error_in('{"error": null, "n": 0}')
    ('no such flight', '')
    """
    told = _error_in_json(text)
    if told is None:
        told = _error_in_prose(text)
    return condense(told.strip().rstrip(".。"), MAX_ERROR)


def is_output(text: str) -> bool:
    """Whether a text begins like printed output, with `Output:`, `Traceback` or the like."""
    return _OUTPUT.match(text) is not None


_OUTPUT: Final = re.compile(
    r"\s*(?:```\s*)?(?:(?:execution\s+)?(?:output|result|observation|response|stdout|stderr)s?\b\s*[:：\n]|traceback\b"
    r"|执行(?:结果|输出)|运行结果|输出\s*[:：]|观察\s*[:：])",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(rf"(?:{_OUTPUT.pattern})\s*(?:```\w*\s*)?", re.IGNORECASE)


_SAYS_ERROR: Final = (
    "error",
    "errors",
    "exception",
    "error_message",
    "error_msg",
    "err_msg",
    "errmsg",
    "traceback",
    "错误",
)
_NO_ERROR: Final = {"ok", "success", "none", "null", "no error", "no errors", "false", "0", "成功", "无"}
_IS_ERROR: Final = ("error", "is_error", "isError")  # the last one in results of MCP
_EXIT_NAMES: Final = ("exit_code", "exitCode", "exitcode", "returncode", "return_code", "exit_status")
_EXPLAINS: Final = (
    "message", "msg", "detail", "details", "reason", "description", "error_message", "原因", "信息", "stderr", "text",
    "content",
)  # fmt: skip
_BAD_WORDS: Final = {"error", "failed", "failure", "fail", "exception", "timeout", "denied", "错误", "失败"}


def _error_in_json(text: str) -> str | None:
    """The error that the fields of a JSON object name, empty if they name none; None if the text is not JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # a RecursionError where it is nested a thousand deep
        return None
    if isinstance(value, str):
        return _error_in_prose(value)
    if isinstance(value, list):  # as tools of MCP give their texts
        parts = [part for part in value if isinstance(part, dict) and part.get("type") == "text"]
        return error_in("\n".join(str(part.get("text")) for part in parts))
    if not isinstance(value, dict):
        return ""
    for name in _SAYS_ERROR:
        told = value.get(name)
        # `true` says that there is an error, and other fields say which. Many APIs say `ok` in the field for errors.
        if told and told is not True and str(told).strip().lower() not in _NO_ERROR:
            return _explanation(told)
    # A status of HTTP; True is an int too.
    status = next((value[name] for name in ("status_code", "statusCode", "code", "status") if name in value), None)
    refused = isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600
    bad = str(value.get("status", value.get("state", ""))).lower() in _BAD_WORDS
    failed = any(str(value.get(name)).lower() == "false" for name in ("success", "ok", "succeeded", "successful"))
    failed = failed or any(value.get(name) is True for name in _IS_ERROR)
    exit_code = next((value[name] for name in _EXIT_NAMES if name in value), 0)
    return _explanation(value, text) if refused or bad or failed or exit_code not in (0, "0", None) else ""


def _explanation(value: Any, text: str = "") -> str:
    """The words of a field that names an error; of an object without an explanation its `text`."""
    if isinstance(value, dict):
        told = next(filter(None, map(value.get, _EXPLAINS)), None)
        return (text or json.dumps(value, ensure_ascii=False)) if told is None else _explanation(told)
    if isinstance(value, list):
        return _explanation(value[0]) if value else ""
    return str(value)


# A line such as `requests.HTTPError: 401 …`; where it ends in a colon the next line completes it.
_TRACEBACK_END: Final = re.compile(
    r"^(?:[\w.]+\.)?(?:[A-Z]\w*)?(?:Error|Exception|Warning|Interrupt|Exit)\b(?::.*(?:(?<=:)\n.+)?)?$", re.MULTILINE
)
_ERROR_START: Final = re.compile(
    r"\s*(?:\W*(?:[\w.]*[a-z](?:Error|Exception)\b"
    r"|(?:an?\s+)?(?:unexpected\s+|internal\s+|fatal\s+|runtime\s+)?error\b(?!\s*(?:s|-)?free)"
    r"|exception\b|failed\b|failure\b|fatal\b|invalid\b|unauthori[sz]ed\b|forbidden\b|(?:access|permission) denied\b"
    # A status of HTTP with its reason: "500 results for …" and "450-500 words" are none.
    r"|(?:http\s*)?[45]\d\d\b\s*(?:[:\-]\s*[^\s\d]|(?:client\s|server\s)?error|(?:method\s)?not\s|bad\s(?:request|gateway)"
    r"|(?:service\s)?un(?:authori[sz]ed|processable|supported|available)|forbidden|internal\s|too\smany\s|gateway\s)"
    r"|错误|出错|失败|异常|无效|非法|拒绝|未授权|没有权限|超时)"
    # A count of no errors.
    r"(?!\s*(?:counts?|tests|checks|cases|rows|records|requests|数量?)?\s*[:=：]"
    r"\s*(?:0|none|null|无)\s*(?:[,;.|，；。)]|$)))",
    re.IGNORECASE | re.MULTILINE,
)
_EXIT_CODE: Final = re.compile(
    r"\b(?:exit(?:ed)?[\s_-]{0,3}(?:with\s)?(?:(?:exit|error)\s)?(?:code|status)|return[\s_-]?code)\s{0,3}[:=]?\s{0,3}"
    r"(-?\d{1,3})\b|退出(?:代)?码\s{0,3}[:：=]?\s{0,3}(-?\d{1,3})",
    re.IGNORECASE,
)
_SHORT: Final = 300  # characters; a longer text that mentions a failure somewhere is no error
_ERROR_WITHIN: Final = re.compile(
    r"\b(?:not found|no such|does(?:n't| not) exist|(?:is|was) (?:not valid|invalid|missing|required)"
    r"|not permitted|not allowed|(?:access|permission) denied|timed out|unable to|has expired|rate limit"
    r"|(?:cannot|can't|could(?:n't| not)) (?:be )?"
    r"(?:f[io]u?nd|open|read|connect|access|process|locat|load|parse|complet|resolv)\w*"
    r"|(?:request|execution|call|command|connection|login) failed|status code [45]\d\d"
    r"|unexpected keyword|missing \d+ required|out of range|refused)\b"
    r"|未找到|找不到|不存在|无法|没有权限|已过期|超时|缺少|失败(?!\s*数?量?\s*[:：]?\s*0(?![.\d]))|参数错误|被拒绝",
    re.IGNORECASE,
)


def _error_in_prose(text: str) -> str:
    # The code with which a program exited says whether it failed; what else it printed tells more about why.
    line, code = _exit_of(text)
    return "" if code == 0 else _said_error(text) or line


def _exit_of(text: str) -> tuple[str, int | None]:
    """The first or last line of a text if it tells the code with which a program exited, and this code."""
    lines = text.strip(" \n`").splitlines()
    for line in lines[-1:] + lines[:1]:
        if found := _EXIT_CODE.search(line[:_SHORT]):
            return line, int(found[1] or found[2])
    return "", None


def _said_error(text: str) -> str:
    # "Traceback" is a label of output too, but has to stay, since the error stands below it.
    body = _LABEL.sub("", text, count=1) if _OUTPUT.match(text) and "raceback" not in text[:40] else text
    if "Traceback (most recent call last)" in body:
        # Of several tracebacks the last one was raised to the caller.
        ends = _TRACEBACK_END.findall(body)
        return ends[-1] if ends else [line for line in body.splitlines() if line.strip("` ")][-1]
    if _ERROR_START.match(body.lstrip(), 0, _SHORT):
        return next(line for line in body.splitlines() if line.strip())
    if len(body) <= _SHORT and (match := _ERROR_WITHIN.search(body)):
        return _sentence_at(body, match.start())
    return ""


def _sentence_at(text: str, place: int) -> str:
    start = max(text.rfind(mark, 0, place) for mark in "\n。！？;；")
    ends = [end for mark in ("\n", "。", "！", "？") if (end := text.find(mark, place)) >= 0]
    return text[start + 1 : min(ends, default=len(text))].strip().strip("`")
