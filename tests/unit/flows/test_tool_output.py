"""What a tool's result tells: an error is found where there is one, and only there."""

from __future__ import annotations

import pytest

from reme_core.flows.tool_output import MAX_ERROR, error_in, is_output


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ('{"error": "Missing token"}', "Missing token"),
        ('{"error": {"code": 3, "message": "bad date"}}', "bad date"),
        ('{"errors": [{"detail": "no such user"}]}', "no such user"),
        ('{"success": false, "reason": "the shop is closed"}', "the shop is closed"),
        ('{"status": "error", "message": "no such flight"}', "no such flight"),
        ('{"status_code": 404, "detail": "gone"}', "gone"),
        ('{"error": true, "msg": "out of stock"}', "out of stock"),
        ('"Error: boom"', "Error: boom"),
        ("Error: boom\nsecond line", "Error: boom"),
        ("ValueError: no y", "ValueError: no y"),
        ("HTTP 500: oops", "HTTP 500: oops"),
        ("404 Not Found", "404 Not Found"),
        ("401 - no token", "401 - no token"),
        ("403 Forbidden", "403 Forbidden"),
        ("422 Unprocessable Entity", "422 Unprocessable Entity"),
        ("500 Internal Server Error", "500 Internal Server Error"),
        ("503 Service Unavailable", "503 Service Unavailable"),
        ("429 too many requests", "429 too many requests"),
        ("504 Gateway Timeout", "504 Gateway Timeout"),
        ("Request failed with status code 500", "Request failed with status code 500"),
        ("curl: (6) Could not resolve host: a.example", "curl: (6) Could not resolve host: a.example"),
        ("Tool execution failed", "Tool execution failed"),
        ('{"statusCode": 401, "message": "Unauthorized"}', "Unauthorized"),
        ('{"error_code": 17, "error_msg": "daily limit"}', "daily limit"),
        ('{"success": "false", "message": "sold out"}', "sold out"),
        ('[{"type": "text", "text": "Error: no such city"}]', "Error: no such city"),
        ('{"errcode": 40013, "errmsg": "invalid appid"}', "invalid appid"),
        ("成功 2 条，失败 10 条。", "成功 2 条，失败 10 条"),
        ("No such file or directory: a.txt", "No such file or directory: a.txt"),
        ("Fine so far.\nThe user with id 3 does not exist.", "The user with id 3 does not exist"),
        ("Traceback (most recent call last):\n  File x\nValueError: no y", "ValueError: no y"),
        (
            "Output:\n```\nTraceback (most recent call last):\n  File\nException: status is 401:\n{'m': 'no'}\n```",
            "Exception: status is 401: {'m': 'no'}",
        ),
        ("错误：订单号无效", "错误：订单号无效"),
        ("查询完成。找不到用户张三。", "找不到用户张三"),
        ('{"success": false, "信息": "余额不足"}', "余额不足"),
        ('{"isError": true, "content": [{"type": "text", "text": "no such city"}]}', "no such city"),
        ('{"stdout": "", "stderr": "boom", "exit_code": 2}', "boom"),
        ("exit code: 1", "exit code: 1"),
        ("Exit code: 127\nsh: foo: command missing", "Exit code: 127"),
        ("ls: a.txt: No such file or directory\nProcess exited with code 2", "ls: a.txt: No such file or directory"),
        ("line\n" * 200 + "[exit status 1]", "[exit status 1]"),
        ("退出码：1", "退出码：1"),
        ("error count: 3", "error count: 3"),
        ("Error: 0x80070005", "Error: 0x80070005"),
    ],
)
def test_an_error_is_told_in_one_line(result: str, error: str) -> None:
    assert error_in(result) == error


@pytest.mark.parametrize(
    "result",
    [
        "",
        '{"status": "ok", "error": ""}',
        '{"error": null, "errors": [], "n": 0}',
        '{"code": 0, "msg": "ok"}',
        '{"code": 45, "name": "a product, not a status"}',
        '{"result": "Errors are logged to /var/log"}',
        "[1, 2, 3]",
        "200 OK",
        "error count: 0",
        "Errors: 0",
        "Failed: 0, passed: 12",
        "错误数：0",
        '{"isError": false, "content": []}',
        '{"stdout": "", "returncode": 0}',
        "The word is not found in 3 files.\nexit code: 0",
        "The server returned status 200",
        "Error-free run completed",
        "5 of 5 tests passed",
        "The 404 error page was designed by Ann",
        "A long report. " * 30 + "One of the users could not be found.",
        '{"errcode": 0, "errmsg": "ok"}',
        '{"errmsg": "success", "data": 1}',
        '{"error": "None", "n": 0}',
        '{"exception": "no error"}',
        '[{"type": "text", "text": "Sunny"}, {"type": "image", "data": "…"}]',
        '{"successful": 0, "skipped": 3}',
        "500 results for 'python'",
        "450 users under 30",
        "500 - 600 EUR a night",
        "Failed tests: 0",
        "成功：12，失败：0",
        "成功 12 条，失败 0 条。",
        "查询成功，共3条",
        "Sunny, 21 degrees",
    ],
)
def test_a_result_that_worked_is_no_error(result: str) -> None:
    assert error_in(result) == ""


def test_a_long_error_is_cut() -> None:
    assert len(error_in("Error: " + "x" * 1000)) <= MAX_ERROR


@pytest.mark.parametrize(
    "text", ["Output:\n3", "Execution result: 3", "Traceback (most recent call last):", "执行结果：3"]
)
def test_the_output_of_running_code_is_recognised(text: str) -> None:
    assert is_output(text)
    assert not is_output(f"Please explain this. {text}")
