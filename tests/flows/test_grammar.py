"""The language of flows is read as its grammar says, and a mistake is pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import FlowError
from reme_core.flows.grammar import Call, Parallel, Serial, Tree, parse


def plain(node: Tree[Call]) -> object:
    """The tree without positions: a call by its name, a sequence as a list, branches as a set-like tuple."""
    if isinstance(node, Call):
        return (node.name, node.arguments) if node.arguments else node.name
    if isinstance(node, Serial):
        return [plain(step) for step in node.steps]
    return tuple(plain(branch) for branch in node.branches)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", "a"),
        ("a()", "a"),
        ("a >> b", ["a", "b"]),
        ("a >> (b | c) >> d", ["a", ("b", "c"), "d"]),
        ("a->[b|c]->d", ["a", ("b", "c"), "d"]),
        ("a >> (b | (c >> d)) >> e", ["a", ("b", ["c", "d"]), "e"]),
        ("a\n  >> b\n  >> c\n", ["a", "b", "c"]),
        ("((a))", "a"),
        ("a >> (b >> c)", ["a", "b", "c"]),
        ("(a | b) | [c]", ("a", "b", "c")),
    ],
)
def test_both_seed_grammars_give_the_same_tree(text: str, tree: object) -> None:
    assert plain(parse(text)) == tree


def test_then_binds_tighter_than_side_by_side() -> None:
    assert plain(parse("a >> b | c >> d")) == (["a", "b"], ["c", "d"])


def test_arguments_keep_their_types() -> None:
    text = r"""op(a=5, b=-0.25, c=1e3, d="x \"y\"", e='it\'s', f=true, g=False, h=null, i=[1, "2", []],)"""
    assert parse(text) == Call(
        "op",
        {
            "a": 5,
            "b": -0.25,
            "c": 1000.0,
            "d": 'x "y"',
            "e": "it's",
            "f": True,
            "g": False,
            "h": None,
            "i": [1, "2", []],
        },
        0,
    )


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("a >> >> b", "expected the name of an op, not '>>'", 6),
        ("a >> (b | c", "this '(' is never closed", 6),
        ("a >> [b | c)", "expected '>>', '|' or ']', not ')'", 12),
        ("a b", "expected '>>', '|' or the end, not 'b'", 3),
        ("a)", "')' closes nothing", 2),
        ("a(5)", "expected a parameter of 'a' as name=value, not '5'", 3),
        ("a(k 5)", "expected '=' after the parameter's name 'k', not '5'", 5),
        ("a(k=b)", "expected a value, not 'b'", 5),
        ("a(k=1, k=2)", "'k' is given twice", 8),
        ("a(k=[1, 2)", "expected ',' or ']', not ')'", 10),
        ("a(k='x", "this string never ends", 5),
        ("a; b", "unexpected ';'", 2),
        ("a >> ", "expected the name of an op, not the end", 5),
        ("a(k=__import__('os'))", "expected a value", 5),
        ("a(k='x\ud800')", "unexpected '\\ud800'", 7),
        ("a(k=f'{b}')", "expected a value, not 'f'{b}''", 5),
        ("a(**k)", "unexpected '*'", 3),
        ("(a b)", "expected '>>', '|' or the end, not 'b'", 4),
        ("a(k=1 2)", "expected ',' or ')', not '2'", 7),
        ("  ä >> b - c", "expected the name of an op, not 'b - c'", 8),
    ],
)
def test_a_mistake_is_pointed_at(text: str, problem: str, column: int) -> None:
    with pytest.raises(FlowError) as caught:
        parse(text)
    message, line, caret = str(caught.value).split("\n")
    assert problem in message
    assert f"column {column})" in message
    assert line.strip() == text.strip()
    assert caret.index("^") - 2 == column - 1


def test_a_mistake_in_a_later_line_shows_that_line() -> None:
    with pytest.raises(FlowError, match=r"line 2, column 4\)\n  >> \|\n     \^"):
        parse("a\n>> | b".replace("| b", "|"))


def test_an_empty_flow_says_what_to_write() -> None:
    with pytest.raises(FlowError, match="name at least one op"):
        parse(" \n ")


def test_bottomless_nesting_is_refused_not_crashed_on() -> None:
    with pytest.raises(FlowError, match="brackets within each other"):
        parse("(" * 100_000)
    with pytest.raises(FlowError, match="brackets within each other"):
        parse("a(k=" + "[" * 100_000)
    with pytest.raises(FlowError, match="too long, or nested too deeply"):
        parse("a" + ">>a" * 100_000)


@given(st.text(alphabet="ab>|()[]-=,'\"\\ 1.\n", max_size=60))
def test_any_text_is_a_tree_or_a_flow_error(text: str) -> None:
    try:
        node = parse(text)
    except FlowError:
        return
    assert isinstance(node, Call | Serial | Parallel)
