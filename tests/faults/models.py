"""What goes wrong with the endpoint of a model."""

from __future__ import annotations

from tests.loopback import Loopback


def hang(loopback: Loopback) -> None:
    loopback.latency = 30.0


def fail(loopback: Loopback) -> None:
    loopback.fail(500, times=100)


def answer_in_prose(loopback: Loopback) -> None:
    for _ in range(100):
        loopback.garble("<html>It works!</html>", content_type="text/html")
