"""Records are read strictly: what isn't a record is refused with a place, and nothing crashes the reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.errors import RecordError
from leaderboard.records import MAX_DEPTH, RunRecord, parse, read_lines, read_model
from leaderboard.schema import LINES, EventLine, RunHeader, SpanLine
from tests.leaderboard import golden

SPAN = {
    "arm": "S1",
    "seed": 0,
    "device": "cpu:0",
    "role": "train",
    "t0_ns": 1,
    "t1_ns": 2,
    "tenants": ["math"],
    "executed_slots": 8,
    "real_tokens": 4,
}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        '{"b": {"a": 1, "a": 1}}',
        "{",
        "",
        '{"a": 01}',
        "\ufeff{}",
        "[" * (MAX_DEPTH + 3) + "]" * (MAX_DEPTH + 3),
        "[" * 100_000,
        '{"a":' * 50_000,
        '{"a": ' + "9" * 5_000 + "}",
    ],
)
def test_what_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(RecordError) as refused:
        parse(text.encode(), "rollouts.jsonl:7")
    assert refused.value.code == "E102"
    assert refused.value.place == "rollouts.jsonl:7"


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(RecordError, match="E102 x: not UTF-8 at byte 2"):
        parse(b'{"\xff": 1}', "x")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"t0_ns": "1"}, "E102"),
        ({"t0_ns": 1.5}, "E102"),
        ({"t0_ns": True}, "E102"),
        ({"t0_ns": -1}, "E102"),
        ({"executed_slots": 2**60}, "E102"),
        ({"role": "sleep"}, "E102"),
        ({"colour": "red"}, "E103"),
        ({"device": None}, "E102"),
    ],
)
def test_wrong_values_and_fields_are_refused(change: dict[str, object], code: str) -> None:
    with pytest.raises(RecordError) as refused:
        read_model(SpanLine, json.dumps(SPAN | change).encode(), "spans.jsonl:1")
    assert refused.value.code == code
    assert next(iter(change)) in refused.value.reason


def test_a_missing_field_is_named() -> None:
    lacking = {key: value for key, value in SPAN.items() if key != "device"}
    with pytest.raises(RecordError, match=r"E103 spans\.jsonl:1: 'device'"):
        read_model(SpanLine, json.dumps(lacking).encode(), "spans.jsonl:1")


def test_lines_round_trip() -> None:
    line = SpanLine.model_validate(SPAN)
    assert read_model(SpanLine, line.to_json().encode(), "x") == line


def test_a_torn_last_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"{}\n{")
    with pytest.raises(RecordError, match=r"spans.jsonl:2: the last line is cut off"):
        list(read_lines(path))


def test_another_schema_version_says_what_to_do(run: Path) -> None:
    golden.edit_header(run, lambda header: header.update(schema="bench.run/9"))
    with pytest.raises(RecordError, match=r"E102 run.json: schema 'bench.run/9' is not 'bench.run/1' \(use"):
        RunRecord.open(run)


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"run.json is missing \(give the --out of a run\)"):
        RunRecord.open(tmp_path)


def test_views_hold_the_lines_of_one_arm_and_seed(golden_run: Path) -> None:
    record = RunRecord.open(golden_run)
    assert [(view.arm, view.seed) for view in record.views] == [("S1", 7), ("A1", 7)]
    view = record.view("A1", 7)
    assert {line.arm for line in view.rollouts} == {"A1"}
    assert len(view.rollouts) * 2 == len(record.rollouts)
    assert view.tenants == ("code", "math", "search")
    with pytest.raises(KeyError, match="S0, seed 1 never started"):
        record.view("S0", 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for model in (EventLine, RunHeader, *LINES.values()):
        try:
            read_model(model, data, "x:1")
        except RecordError as refused:
            assert refused.code in ("E102", "E103")


@given(st.sampled_from(sorted(SPAN)), json_values)
@settings(max_examples=200, deadline=None)
def test_any_value_in_any_field_is_read_or_refused(key: str, value: object) -> None:
    try:
        line = read_model(SpanLine, json.dumps(SPAN | {key: value}).encode(), "x:1")
    except RecordError as refused:
        assert refused.code in ("E102", "E103")
    else:
        assert json.loads(line.to_json()) == SPAN | {key: value}
