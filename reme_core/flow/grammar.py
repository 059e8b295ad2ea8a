"""The language of flows: `a >> (b | c) >> d(top_k=5)`.

    flow     := sequence ("|" sequence)*          side by side
    sequence := step ((">>" | "->") step)*        one after the other; binds tighter than "|"
    step     := "(" flow ")" | "[" flow "]" | call
    call     := name [ "(" [ name "=" value ("," name "=" value)* ] ")" ]
    value    := string | number | true | false | null | "[" [ value ("," value)* ] "]"

ExperienceMaker wrote `a->[b|c]->d`, ReMe `a >> (b | c) >> d`; both are read, and may be mixed. The text is parsed by
recursive descent and never evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reme_core.errors import FlowError

MAX_DEPTH = 40
"""Brackets within brackets; far beyond any real flow, and well within Python's own recursion limit."""


@dataclass(frozen=True)
class Call:
    """One op with the arguments written behind it; `position` is its offset in the text."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    position: int = 0


@dataclass(frozen=True)
class Sequence:
    """Steps that run one after the other; always two or more."""

    steps: tuple[Node, ...]


@dataclass(frozen=True)
class Parallel:
    """Branches that run side by side; always two or more."""

    branches: tuple[Node, ...]


Node = Call | Sequence | Parallel


def parse(text: str) -> Node:
    """Read a flow's expression into a tree.

    Raises:
        FlowError: The text does not follow the grammar; the message points at the place.

    Example:
        >>> parse("a >> (b | c(k=2))")
        Sequence(steps=(Call(name='a', arguments={}, position=0), Parallel(branches=(Call(name='b', arguments={}, \
position=6), Call(name='c', arguments={'k': 2}, position=10)))))
    """
    return _Parser(text).flow_to_the_end()


def fault(text: str, position: int, problem: str) -> FlowError:
    """An error that shows the line of `text` and puts a caret below `position`."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0]
    column = position - start
    number = text.count("\n", 0, position) + 1
    where = f"column {column + 1}" if "\n" not in text else f"line {number}, column {column + 1}"
    return FlowError(f"{problem} ({where})\n  {line}\n  {' ' * column}^")


class _Token(NamedTuple):
    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


_TOKENS = re.compile(
    r"""(?P<space>\s+)
      | (?P<then>>>|->)
      | (?P<mark>[|()\[\],=])
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
      | (?P<name>[^\W\d]\w*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    """,
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_ESCAPES = {"n": "\n", "t": "\t"}


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            problem = "this string never ends" if text[position] in "\"'" else f"unexpected {text[position]!r}"
            raise fault(text, position, problem)
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(_Token(match.group() if kind == "mark" else kind, match.group(), position))
        position = match.end()
    return [*tokens, _Token("end", "", len(text.rstrip()))]


class _Parser:
    """One method per rule of the grammar; `_next` is the token at hand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = _tokens(text)[::-1]
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._rest[-1]

    def _take(self, kind: str, wanted: str) -> _Token:
        if self._next.kind != kind:
            raise self._fault(f"expected {wanted}, not {self._next}")
        return self._rest.pop()

    def _fault(self, problem: str, position: int | None = None) -> FlowError:
        return fault(self._text, self._next.position if position is None else position, problem)

    def flow_to_the_end(self) -> Node:
        if self._next.kind == "end":
            raise FlowError("the flow is empty; name at least one op, for example 'build_query >> recall'")
        node = self._flow()
        if self._next.kind in (")", "]"):
            raise self._fault(f"{self._next} closes nothing")
        self._take("end", "'>>', '|' or the end")
        return node

    def _flow(self) -> Node:
        branches = [self._sequence()]
        while self._next.kind == "|":
            self._rest.pop()
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Parallel(tuple(branches))

    def _sequence(self) -> Node:
        steps = [self._step()]
        while self._next.kind == "then":
            self._rest.pop()
            steps.append(self._step())
        return steps[0] if len(steps) == 1 else Sequence(tuple(steps))

    def _step(self) -> Node:
        if self._next.kind not in ("(", "["):
            return self._call()
        opening = self._rest.pop()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} brackets within each other", opening.position)
        node = self._flow()
        closing = ")" if opening.kind == "(" else "]"
        if self._next.kind == "end":
            raise self._fault(f"this {opening} is never closed", opening.position)
        self._take(closing, f"'>>', '|' or '{closing}'")
        self._depth -= 1
        return node

    def _call(self) -> Call:
        name = self._take("name", "the name of an op")
        arguments: dict[str, Any] = {}
        if self._next.kind == "(":
            opening = self._rest.pop()
            while self._next.kind != ")":
                if self._next.kind == "end":
                    raise self._fault(f"this {opening} is never closed", opening.position)
                self._argument(name.text, arguments)
                if self._next.kind != ")":
                    self._take(",", "',' or ')'")
            self._rest.pop()
        return Call(name.text, arguments, name.position)

    def _argument(self, op: str, arguments: dict[str, Any]) -> None:
        key = self._take("name", f"a parameter of '{op}' as name=value")
        if key.text in arguments:
            raise self._fault(f"'{key.text}' is given twice", key.position)
        self._take("=", f"'=' after the parameter's name '{key.text}'")
        arguments[key.text] = self._value()

    def _value(self) -> Any:
        token = self._next
        if token.kind == "[":
            return self._list()
        if token.kind == "name" and token.text.lower() in _WORDS:
            self._rest.pop()
            return _WORDS[token.text.lower()]
        if token.kind == "string":
            self._rest.pop()
            return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token.text[1:-1])
        if token.kind == "number":
            self._rest.pop()
            return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)
        raise self._fault(f"expected a value, not {token}: a number, a quoted string, true, false, null or a list")

    def _list(self) -> list[Any]:
        opening = self._rest.pop()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} brackets within each other", opening.position)
        values: list[Any] = []
        while self._next.kind != "]":
            if self._next.kind == "end":
                raise self._fault(f"this {opening} is never closed", opening.position)
            values.append(self._value())
            if self._next.kind != "]":
                self._take(",", "',' or ']'")
        self._rest.pop()
        self._depth -= 1
        return values
