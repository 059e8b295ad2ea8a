"""The language of flows: `a >> (b | c) >> d(top_k=5)`.

`>>` puts ops one after the other and binds tighter than `|`, which puts them side by side; parentheses group. An op
takes its parameters as `name=value`: numbers, quoted strings, `true`, `false`, `null`, and lists of these.
ExperienceMaker wrote `a->[b|c]->d`, ReMe `a >> (b | c) >> d`; both are read, and may be mixed.

All of it is a Python expression, or nearly so, and Python's own parser reads it. Nothing of it is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from reme_core.errors import FlowError

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Serial(Generic[T]):
    """Steps that run one after the other; always two or more."""

    steps: tuple[Tree[T], ...]


@dataclass(frozen=True)
class Parallel(Generic[T]):
    """Branches that run side by side; always two or more."""

    branches: tuple[Tree[T], ...]


Tree: TypeAlias = Serial[T] | Parallel[T] | T


@dataclass(frozen=True)
class Call:
    """One op with the arguments written behind it; `position` is its offset in the text."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    position: int = 0


def parse(text: str) -> Tree[Call]:
    """Read a flow's expression into a tree.

    Raises:
        FlowError: The text does not follow the grammar; the message points at the place.

    Example:
        >>> parse("a >> (b | c(k=2))")
        Serial(steps=(Call(name='a', arguments={}, position=0), Parallel(branches=(Call(name='b', arguments={}, \
position=6), Call(name='c', arguments={'k': 2}, position=10)))))
    """
    if not text.strip():
        raise FlowError("the flow is empty; name at least one op, for example 'build_query >> recall'")
    return _Reader(text).read()


def replace_leaves(tree: Tree[T], change: Callable[[T], U]) -> Tree[U]:
    """The same tree with something else at each leaf."""
    if isinstance(tree, Serial):
        return Serial(tuple(replace_leaves(step, change) for step in tree.steps))
    if isinstance(tree, Parallel):
        return Parallel(tuple(replace_leaves(branch, change) for branch in tree.branches))
    return change(tree)


def leaves(tree: Tree[T]) -> list[T]:
    """All leaves, in the order of the text."""
    if isinstance(tree, Serial | Parallel):
        parts = tree.steps if isinstance(tree, Serial) else tree.branches
        return [leaf for part in parts for leaf in leaves(part)]
    return [tree]


def fault(text: str, position: int, problem: str) -> FlowError:
    """An error that shows the line of `text` and puts a caret below `position`."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0]
    column = position - start
    number = text.count("\n", 0, position) + 1
    where = f"column {column + 1}" if "\n" not in text else f"line {number}, column {column + 1}"
    return FlowError(f"{problem} ({where})\n  {line}\n  {' ' * column}^")


_STRING = r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
# Strings come first, so that nothing within them is replaced. A space in place of each newline makes one line, in which
# an indent has no meaning. What Python would take for a comment, a product and the like is refused here.
_NOT_PYTHON = re.compile(rf"{_STRING}|(?P<arrow>->)|(?P<space>\s)|(?P<stray>[^\w>|()\[\],=.+-])")
# Text that ends within the parentheses of a call.
_IN_CALL = re.compile(r"(\w+)\s*\([^()]*$")
_WORDS = {"true": True, "false": False, "null": None, "none": None}


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        # Python gets one line without indent, in which each character keeps its place, for the carets in messages.
        self._indent = len(text) - len(text.lstrip())
        self._source = _NOT_PYTHON.sub(self._as_python, text).strip()

    def read(self) -> Tree[Call]:
        try:
            return self._tree(ast.parse(self._source, mode="eval").body)
        except SyntaxError as error:
            raise self._translate(error) from None
        except UnicodeEncodeError as error:  # half of a surrogate pair within a string
            raise fault(self._text, self._indent + error.start, f"unexpected {self._source[error.start]!r}") from None
        except (RecursionError, MemoryError):
            raise FlowError("the flow is too long, or nested too deeply; divide it into several flows") from None

    def _as_python(self, match: re.Match[str]) -> str:
        if stray := match["stray"]:
            problem = "this string never ends" if stray in "\"'" else f"unexpected {stray!r}"
            raise fault(self._text, match.start(), problem)
        return match[1] or (">>" if match["arrow"] else " ")

    def _tree(self, node: ast.expr) -> Tree[Call]:
        match node:
            case ast.BinOp(op=ast.RShift()):
                return Serial(tuple(self._tree(step) for step in _operands(node, ast.RShift)))
            case ast.BinOp(op=ast.BitOr()):
                return Parallel(tuple(self._tree(branch) for branch in _operands(node, ast.BitOr)))
            case ast.List(elts=[inside]):  # ExperienceMaker grouped by brackets
                return self._tree(inside)
            case ast.Name(id=name):
                return Call(name, {}, self._start(node))
            case ast.Call(func=ast.Name(id=name)):
                return Call(name, self._arguments(name, node), self._start(node))
        raise self._refusal(node, "the name of an op")

    def _arguments(self, op: str, call: ast.Call) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        for part in parts:
            if not isinstance(part, ast.keyword) or part.arg is None:
                raise self._refusal(part, f"a parameter of '{op}' as name=value")
            if part.arg in arguments:
                raise fault(self._text, self._start(part), f"'{part.arg}' is given twice; leave one out")
            arguments[part.arg] = self._value(part.value)
        return arguments

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=None | str() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Name(id=word) if word.lower() in _WORDS:
                return _WORDS[word.lower()]
            case ast.List(elts=values):
                return [self._value(value) for value in values]
        raise self._refusal(node, "a value", ": a number, a quoted string, true, false, null or a list")

    def _start(self, node: ast.expr | ast.keyword) -> int:
        # Python places nodes by bytes, and errors by characters.
        return self._indent + len(self._source.encode()[: node.col_offset].decode())

    def _refusal(self, node: ast.expr | ast.keyword, wanted: str, choice: str = "") -> FlowError:
        found = ast.get_source_segment(self._source, node)
        return fault(self._text, self._start(node), f"expected {wanted}, not '{found}'{choice}")

    def _translate(self, error: SyntaxError) -> FlowError:
        """Python's complaint in the words of this grammar."""
        end = len(self._source)
        at = min(error.offset - 1, end) if error.offset else end
        if "forgot a comma" in error.msg:
            # Python points at the first of two words that nothing stands between.
            at += len(re.findall(r"^\w*\s*", self._source[at:])[0])
        tokens = re.findall(r"\w+|>>|.", self._source[at:])
        found = f"'{tokens[0]}'" if tokens else "the end"
        problem = _problem(error.msg, self._source[:at].rstrip(), found)
        return fault(self._text, self._indent + at, problem)


def _operands(node: ast.expr, operator: type[ast.operator]) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        return [*_operands(node.left, operator), *_operands(node.right, operator)]
    return [node]


def _problem(complaint: str, before: str, found: str) -> str:
    if "never closed" in complaint:
        return f"this {found} is never closed"
    if "unmatched" in complaint:
        return f"{found} closes nothing"
    if "too many nested" in complaint:
        return "too many brackets within each other"
    if "does not match" in complaint:
        joint = "','" if _IN_CALL.search(before) else "'>>', '|'"
        closing = "')'" if complaint.endswith("'('") else "']'"
        return f"expected {joint} or {closing}, not {found}"
    return f"expected {_expectation(before)}, not {found}" if "invalid syntax" in complaint else complaint


def _expectation(before: str) -> str:
    """What may follow a text that is right so far."""
    call = _IN_CALL.search(before)
    if call is None:
        return "the name of an op" if before[-1:] in ("", *">|([") else "'>>', '|' or the end"
    if name := re.search(r"[(,]\s*([^\W\d]\w*)$", before):
        return f"'=' after the parameter's name '{name[1]}'"
    if before.endswith(("(", ",")):
        return f"a parameter of '{call[1]}' as name=value"
    return "a value" if before.endswith("=") else "',' or ')'"
