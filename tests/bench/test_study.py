"""The study of tenants: what is run, what is put side by side, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench import study
from bench.errors import RejectedError, UsageError
from tests.leaderboard import golden


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two records of the same work; both have three tenants, one stands in a folder of another name."""
    golden.build(tmp_path / "n003")
    shutil.copytree(tmp_path / "n003", tmp_path / "n006")
    return tmp_path


def test_numbers_of_tenants_are_read_sorted_and_once() -> None:
    assert study.counts("8, 1,8,32") == (1, 8, 32)
    for wrong in ("", "a", "0", "1;2", "-1", "257", "1.5"):
        with pytest.raises(UsageError, match="no list of numbers"):
            study.counts(wrong)


def test_what_is_there_is_not_run_again_and_a_failure_ends_it(out: Path) -> None:
    asked: list[tuple[int, str]] = []

    def run_one(n: int, place: Path) -> int:
        asked.append((n, place.name))
        return 1 if n == 9 else 0

    assert study.run((1, 3, 9, 12), out, run_one) == 1
    assert asked == [(1, "n001"), (9, "n009")]


def test_a_record_that_did_not_end_well_is_named(out: Path) -> None:
    edit(out / "n003", lambda h: h.update(status="interrupted"))
    with pytest.raises(UsageError, match=r"n003 holds a run that ended with status interrupted"):
        study.run((3,), out, lambda n, place: 0)
    with pytest.raises(RejectedError, match=r"n003 ended with status interrupted"):
        study.as_dict(out)


def test_the_rows_say_what_the_records_say(out: Path) -> None:
    found = study.write(out)
    assert json.loads((out / "study.json").read_text()) == found
    assert [(row["tenants"], row["arm"]) for row in found["rows"]] == [(3, "S1"), (3, "A1")] * 2
    s1, a1 = found["rows"][:2]
    assert s1["speedup_over_s1"] == 1.0 and s1["speedup_over_s0"] is None
    assert a1["speedup_over_s1"] == pytest.approx(s1["t_work_s"] / a1["t_work_s"])
    for row in (s1, a1):
        # busy time is the same whether taken per token or as a share of the time
        tokens = 1000 * row["util_busy"] * row["t_work_s"] / row["busy_s_per_1000_tokens"]
        assert tokens == pytest.approx(round(tokens)) and tokens > 0
        assert 0 < row["learner_share"] < row["util_busy"]
    text = (out / "study.md").read_text()
    assert "SIMULATED" in text and text.count("| 3 | A1 |") == 2


def test_records_of_different_work_are_not_put_side_by_side(out: Path) -> None:
    edit(out / "n006", lambda h: h["config"].update(tenants=6, out="x", slots=64))
    study.as_dict(out)
    edit(out / "n006", lambda h: h["config"].update(updates=99))
    with pytest.raises(RejectedError, match="other work"):
        study.as_dict(out)
    with pytest.raises(UsageError, match="no record of a study"):
        study.as_dict(out / "n003")


def edit(place: Path, change: Any) -> None:
    header = json.loads((place / "run.json").read_text())
    change(header)
    (place / "run.json").write_text(json.dumps(header))
