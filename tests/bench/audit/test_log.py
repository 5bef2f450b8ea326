"""Latency logs of a user's own tools: read, or refused with the line at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.audit import log
from bench.cli import invoke
from bench.errors import UsageError


def test_csv_and_jsonl_are_read_by_tool(tmp_path: Path) -> None:
    table, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_text("tool,latency_ms\nsearch,400\nbrowser,2500\nsearch,0\n")
    lines.write_text('{"tool": "search", "latency_s": 0.4}\n\n{"seconds": 2}\n')
    assert log.read(table) == {"search": [0.4, 0.0], "browser": [2.5]}
    assert log.read(lines) == {"search": [0.4], "tool": [2.0]}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "latency_s\n0.2\n-1\n", "line 3: latency_s is -1: a call takes 0 s or more"),
        ("a.csv", "latency_s\n", "holds no latency"),
        ("a.csv", "", "holds no latency"),
        ("a.csv", "latency_s\nfast\n", "is no number: 'fast'"),
        ("a.csv", "latency_s\nnan\n", "a call takes 0 s or more"),
        ("a.csv", "duration\n1\n", "line 2 has no time"),
        ("a.csv", "latency_s\n400000\n", "more than a day"),
        ("a.jsonl", "{\n", "line 1 is not JSON"),
        ("a.jsonl", "[1]\n", "line 1 is no JSON object"),
    ],
)
def test_nonsense_is_refused_with_the_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        log.read(tmp_path / name)


def test_a_bad_log_ends_the_audit_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["audit", "--log", str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err
