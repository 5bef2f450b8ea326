"""Flat tables of a record."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bench.cli import completion, invoke
from bench.tables import LINES, export_tables
from leaderboard import metrics
from leaderboard.records import RunRecord
from tests.leaderboard import golden


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.build(tmp_path_factory.mktemp("tables") / "a.run", seeds=(1, 2))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_csv_holds_every_line_and_field_of_the_record(run: Path, tmp_path: Path) -> None:
    found = export_tables(run, "csv", tmp_path / "t")
    record = RunRecord.open(run)
    for name in LINES:
        lines, table = getattr(record, name), rows(tmp_path / "t" / f"{name}.csv")
        assert len(table) == len(lines) == found["rows"][name] > 0
    first, line = rows(tmp_path / "t" / "rollouts.csv")[0], record.rollouts[0]
    assert first["rollout_id"] == line.rollout_id and float(first["reward"]) == line.reward
    assert json.loads(first["turns"]) == [turn.model_dump(mode="json") for turn in line.turns]


def test_metrics_are_those_of_the_results(run: Path, tmp_path: Path) -> None:
    export_tables(run, "csv", tmp_path / "t")
    table = rows(tmp_path / "t" / "metrics.csv")
    expected = metrics.results(RunRecord.open(run))["runs"]
    assert [(r["arm"], int(r["seed"]), float(r["t_work"])) for r in table] == [
        (r["arm"], r["seed"], r["metrics"]["t_work"]) for r in expected
    ]


def test_parquet_says_what_csv_says(run: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    export_tables(run, "parquet", tmp_path / "t")
    table = parquet.read_table(tmp_path / "t" / "rollouts.parquet").to_pylist()
    lines = RunRecord.open(run).rollouts
    assert [(r["rollout_id"], r["reward"]) for r in table] == [(r.rollout_id, r.reward) for r in lines]


def test_nothing_is_overwritten_and_the_sealed_run_is_left_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["export", "csv", str(run), "--out", str(tmp_path)]) == 2
    assert invoke(["export", "csv", str(run), "--out", str(run / "t")]) == 2
    assert "is there already" in capsys.readouterr().err
    assert not (run / "t").exists()


def test_the_shell_is_offered_names() -> None:
    arms = completion.comma_separated(completion.arm_names)
    assert arms("S1,A") == ["S1,A0", "S1,A1"] and arms("S1,S") == ["S1,S0"]
    assert completion.one_of(completion.suite_names)("q") == ["quick"]
    assert "search" in completion.comma_separated(completion.task_names)("se")
    assert "embedded" in completion.one_of(completion.model_names)("em")
    assert completion.one_of(completion.setting_names)("max_st") == ["max_staleness="]
