"""The wire form of a memory: every dialect in, nothing lost on the way out."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import InputError, LibraryError
from reme_core.store.libraries.calls import take_calls
from reme_core.store.libraries.dialects import kind_of
from reme_core.store.libraries.format import WIRE_KEY, from_wire, library_path, read_lines, to_wire, type_of
from reme_core.types import Kind, Memory, Source, Status

MOMENT = datetime(2025, 7, 24, 21, 15, 17, 123456, tzinfo=UTC)

PLAIN: dict[str, Any] = {
    "workspace_id": "w",
    "memory_id": "m",
    "memory_type": "task",
    "when_to_use": "When paying",
    "content": "Log in first.",
    "score": 0.0,
    "time_created": "2025-07-24 21:15:17",
    "time_modified": "2025-07-25 08:00:00",
    "author": "qwen3-8b",
    "metadata": {"extra_info": {"tags": ["a"], "confidence": 0.9}, "created_time": "2025-07-24 21:15:17"},
}

DIALECTS = [
    PLAIN,
    PLAIN | {"score": None},
    PLAIN | {"score": 1},
    PLAIN | {"memory_type": "procedural"},
    PLAIN | {"memory_type": "identity"},
    PLAIN | {"memory_type": "history"},
    PLAIN | {"memory_type": "text", "metadata": {"extra_info": None}},
    PLAIN | {"time_created": "2025-07-24T21:15:17.5Z", "time_modified": "2025-07-24 23:15:17+02:00"},
    PLAIN | {"time_created": "0001-01-01 00:00:00", "time_modified": "9999-12-31 23:59:59"},
    PLAIN | {"memory_type": "personal", "target": "Tom", "reflection_subject": "food"},
    PLAIN | {"memory_type": "personal", "target": "", "reflection_subject": ""},
    PLAIN | {"memory_type": "tool", "tool_call_results": [{"tool_name": "search", "input": {}, "success": True}]},
    PLAIN | {"memory_id": 7, "unheard_of": {"deep": [1, None]}},
]


@pytest.mark.parametrize("row", DIALECTS)
def test_what_comes_in_goes_out_as_it_was(row: dict[str, Any]) -> None:
    memory = from_wire(json.loads(json.dumps(row)))
    assert json.dumps(to_wire(memory), sort_keys=True) == json.dumps(row, sort_keys=True)
    assert from_wire(to_wire(memory)) == memory


@pytest.mark.parametrize(
    ("metadata", "freq", "utility"),
    [({"freq": 7, "utility": 2}, 7, 2), ({"freq": 7}, 7, 0), ({"freq": 0, "utility": 0}, 0, 0), ({"freq": "x"}, 0, 0)],
)
def test_counters_are_columns_and_stand_where_they_stood(metadata: dict[str, Any], freq: int, utility: int) -> None:
    row = {**PLAIN, "metadata": metadata}
    memory = from_wire(row)
    assert (memory.freq, memory.utility) == (freq, utility)
    assert to_wire(memory) == row
    counted = memory.model_copy(update={"freq": 8, "utility": 3})
    assert to_wire(counted)["metadata"] == {"freq": 8, "utility": 3}


@pytest.mark.parametrize("freq", [0, 5, 7])
def test_a_count_of_something_else_is_not_taken_for_a_counter(freq: int) -> None:
    memory = Memory(content="She swims.", freq=freq, metadata={"freq": 5, "utility": "high"})
    assert from_wire(to_wire(memory)) == memory


def test_the_experience_maker_is_understood() -> None:
    memory = from_wire(
        {
            "workspace_id": "default", "experience_id": "e1", "experience_type": "text", "when_to_use": "When paying",
            "content": "Log in first.", "score": None,
            "metadata": {"author": "qwen", "created_time": "2025-07-24 21:15:17",
                         "modified_time": "2025-07-25 21:15:17", "extra_info": {"tags": ["x"]}},
        }
    )  # fmt: skip
    assert (memory.memory_id, memory.kind, memory.author, memory.score) == ("e1", Kind.TASK, "qwen", 0.0)
    assert memory.created_at == MOMENT.replace(microsecond=0) < memory.updated_at
    wire = to_wire(memory)
    assert (wire["memory_id"], wire["score"], wire["metadata"]["extra_info"]) == ("e1", None, {"tags": ["x"]})


@pytest.mark.parametrize(
    "row", [row for row in DIALECTS if row["memory_id"] == "m"], ids=lambda row: str(row["memory_type"])
)
def test_a_file_of_the_local_store_of_reme_01_is_understood(row: dict[str, Any]) -> None:
    fields = {name: value for name, value in row.items() if name not in ("workspace_id", "memory_id", "when_to_use")}
    node = {"unique_id": "m", "workspace_id": "w", "content": row["when_to_use"], "vector": [0.5], "metadata": fields}
    assert from_wire(node) == from_wire(row)


def test_a_file_of_the_local_store_of_experience_maker_is_understood() -> None:
    made = {"author": "qwen", "created_time": "2025-07-24 21:15:17", "modified_time": "", "extra_info": {"tags": ["x"]}}
    row = {
        "workspace_id": "w", "experience_id": "e1", "experience_type": "text", "when_to_use": "Before paying",
        "content": "Check the balance.", "score": 0.7, "metadata": made,
    }  # fmt: skip
    node = {
        "unique_id": "e1", "workspace_id": "w", "content": "Before paying", "vector": [0.5], "metadata": {
            "experience_type": "text", "experience_content": "Check the balance.", "score": 0.7, "metadata": made,
        },
    }  # fmt: skip
    assert to_wire(from_wire(node)) == to_wire(from_wire(row))
    assert (from_wire(node).when_to_use, from_wire(node).content) == ("Before paying", "Check the balance.")


def test_memory_scope_is_understood() -> None:
    row = {
        "memory_id": "n1", "user_name": "AI", "target_name": "Tom", "content": "Likes tea.", "key": "k", "value": "v",
        "memory_type": "obs_customized", "action_status": "none", "store_status": "expired", "timestamp": 1753391717,
        "obs_reflected": 1, "obs_updated": 0,
    }  # fmt: skip
    memory = from_wire(row)
    assert (memory.kind, memory.subject, memory.status) == (Kind.CUSTOM, "Tom", Status.EXPIRED)
    assert memory.created_at == memory.observed_at == MOMENT.replace(microsecond=0)
    wire = to_wire(memory)
    assert {name: wire[name] for name in ("user_name", "key", "value", "store_status", "obs_reflected")} == {
        name: row[name] for name in ("user_name", "key", "value", "store_status", "obs_reflected")
    }
    assert from_wire(wire) == memory


def test_a_changed_value_is_not_hidden_by_its_old_spelling() -> None:
    memory = from_wire(PLAIN | {"score": None, "memory_type": "procedural", "time_modified": "2025-07-24T21:15:17Z"})
    memory = memory.model_copy(update={"score": 0.7, "kind": Kind.RULE, "updated_at": MOMENT})
    wire = to_wire(memory)
    assert (wire["score"], wire["memory_type"], wire["time_modified"]) == (0.7, "task", "2025-07-24 21:15:17")
    assert from_wire(wire).model_dump(exclude={"metadata"}) == memory.model_dump(exclude={"metadata"})


@given(
    kind=st.sampled_from([kind for kind in Kind if kind != Kind.CONVERSATION]),
    subject=st.sampled_from(["", "Tom", "search"]),
    situation=st.sampled_from(["", "When paying"]),
    closed=st.sampled_from([None, Status.EXPIRED, Status.SUPERSEDED]),
    created=st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    numbers=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)),
    importance=st.floats(0, 1),
    score=st.floats(allow_nan=False, allow_infinity=False),
    keywords=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=3),
)
def test_all_that_we_know_of_a_memory_survives(
    kind: Kind, subject: str, situation: str, closed: Status | None, created: datetime, numbers: tuple[int, int, int],
    importance: float, score: float, keywords: list[str],
) -> None:  # fmt: skip
    memory = Memory(
        workspace_id="w", kind=kind, subject=subject, when_to_use=situation, content="喜欢喝茶 & 'tea'\n", score=score,
        created_at=created, updated_at=created, importance=importance, keywords=keywords,
        freq=numbers[0], utility=numbers[1], seen_count=numbers[2], status=closed or Status.ACTIVE,
        expired_at=MOMENT if closed else None, superseded_by="next" if closed == Status.SUPERSEDED else None,
        valid_from=created, observed_at=created, metadata={"a": [1, {"b": None}]},
        sources=[Source(kind="message", id="m1", quote="I like tea"), Source(kind="episode", id="e1")],
    )  # fmt: skip
    wire = json.loads(json.dumps(to_wire(memory), ensure_ascii=False))
    assert from_wire(wire) == memory
    assert wire["memory_type"] == type_of(kind) in ("task", "tool", "personal")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"memory_type": "weather"}, "memory_type 'weather' is unknown"),
        ({"score": "high"}, 'score must be a number or null, not "high"'),
        ({"score": True}, "score must be a number"),
        ({"time_created": "yesterday"}, "time_created must be a time like 2025-07-24 21:15:17"),
        ({"metadata": []}, "metadata must be an object"),
        ({"when_to_use": 5}, "when_to_use must be a string, not 5"),
        ({"content": "", "when_to_use": " "}, "has no text"),
        ({"content": "a\0b"}, "content of memory .* holds a NUL"),
        ({"metadata": {"a": "b\0"}}, "metadata .* holds a NUL"),
        ({"metadata": {"reme_core": {"colour": 1}}}, "holds 'colour', which does not belong there"),
        ({"metadata": {"reme_core": {"importance": 3}}}, "importance"),
        ({"metadata": {"reme_core": {"own": {"content": "y"}}}}, "own holds reme_core and reme_wire, not"),
    ],
)
def test_a_bad_field_is_named(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        from_wire(PLAIN | change)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"content": "x"', "it is not JSON"),
        (b'["x"]', "a JSON object is needed, not list"),
        (b'{"content": "\xff"}', "it is not UTF-8"),
        (b'{"content": "x", "score": NaN}', "NaN is no JSON number"),
        (b'{"content": "\\ud800"}', "half of a surrogate pair"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"content": "x", "metadata": {"reme_core": {"metadata": {"reme_wire": 5}}}}', "holds 'metadata'"),
        (b'{"content": "x", "score": 1' + b"0" * 400 + b"}", "int too large"),
        (b'{"content": "x", "size": 1' + b"0" * 5_000 + b"}", "Exceeds the limit"),
    ],
)
def test_a_bad_line_is_reported_with_its_number(line: bytes, reason: str) -> None:
    good = json.dumps(PLAIN).encode()
    with pytest.raises(LibraryError, match=f"lib.jsonl, line 3: .*{reason}") as caught:
        list(read_lines(io.BytesIO(b"\n".join([good, b"", line])), "lib.jsonl"))
    assert (caught.value.path, caught.value.line) == ("lib.jsonl", 3)


def test_a_row_without_an_id_has_the_same_one_each_time() -> None:
    first, again = (from_wire({"content": "x", "workspace_id": w, "time_created": "2025-01-01"}) for w in "ab")
    assert first.memory_id == again.memory_id != from_wire({"content": "y"}).memory_id


def test_every_kind_has_a_type_that_leads_to_its_family() -> None:
    for kind in Kind:
        if kind != Kind.CONVERSATION:
            assert type_of(kind_of(type_of(kind))) == type_of(kind)


def test_no_name_of_a_workspace_leaves_the_folder(tmp_path: Any) -> None:
    assert library_path(tmp_path, "alice") == tmp_path / "alice.jsonl"
    assert library_path(tmp_path / "x.jsonl", "../up") == tmp_path / "x.jsonl"
    names = {
        "../up": "..%2Fup.jsonl",
        "..": "...jsonl",
        "a/b": "a%2Fb.jsonl",
        "c:\\d": "c%3A%5Cd.jsonl",
        "a%2Fb": "a%252Fb.jsonl",
    }
    assert {name: str(library_path(tmp_path, name).relative_to(tmp_path)) for name in names} == names


@pytest.mark.parametrize(
    "kept",
    [5, None, {"timestamp": {}}, {"score": "high"}, {"tool_call_results": 3}, {"metadata": 5}, {"metadata": {"n": 1}}],
)
def test_a_memory_goes_out_whatever_a_caller_keeps_where_the_wire_is_kept(kept: object) -> None:
    told = {WIRE_KEY: kept, "colour": "red"}
    memory = Memory(kind="tool", subject="search", content="Search for single words.", metadata=told)
    wire = to_wire(memory)
    assert (wire["content"], wire["metadata"]["colour"]) == ("Search for single words.", "red")
    assert take_calls(memory) == []


@pytest.mark.parametrize("own", [{"a": 1}, "a text", {"kind": "rule"}, {"own": {"reme_wire": 1}}, {}, None])
@pytest.mark.parametrize("key", ["reme_core", "reme_wire"])
def test_what_a_caller_keeps_under_a_name_of_ours_comes_back(key: str, own: object) -> None:
    memory = Memory(
        content="Log in first.", kind="rule", created_at=MOMENT, updated_at=MOMENT, metadata={key: own, "b": 2}
    )
    wire = json.loads(json.dumps(to_wire(memory)))
    again = from_wire(wire)
    assert (again.metadata, again.kind) == ({key: own, "b": 2}, "rule")
    assert to_wire(again) == wire


def test_a_type_of_null_is_written_as_the_type_that_it_means() -> None:
    assert to_wire(from_wire({"memory_id": "m", "content": "c", "memory_type": None}))["memory_type"] == "personal"
