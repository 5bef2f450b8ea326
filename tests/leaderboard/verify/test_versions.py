"""Results that an earlier version of the suite reported still verify, and only what it lacked may be missing."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leaderboard.metrics import VERSION
from leaderboard.records import RunRecord
from leaderboard.verify.figures import reported
from tests.leaderboard import golden

VERSION_1 = (
    *("t_work", "t_total", "tenant_completion", "util_busy", "util_useful", "util_by_role", "exposed"),
    *("padding_waste", "staleness", "throughput_consumed", "throughput_generated", "goodput"),
    *(
        "stale_discard_frac",
        "truncated_frac",
        "ledger",
        "updates",
        "recompiles",
        "straggler_ratio",
        "env_share",
    ),
    *("is_ess", "accuracy"),
)
"""All that results of version 1 hold of an (arm, seed)."""


def as_version_1(header: dict[str, Any]) -> None:
    results = header["results"]
    del results["version"]
    for run in results["runs"]:
        run["metrics"] = {name: run["metrics"][name] for name in VERSION_1}
        for tenant in run["metrics"]["accuracy"].values():
            for point in (tenant["before"], tenant["after"], *tenant["curve"]):
                point.pop("coverage", None)
    results["comparison"] = {name: results["comparison"][name] for name in ("baseline", "arms")}
    pair = results["comparison"]["arms"]["A1"]
    for end in ("low", "high"):
        # two seeds, and Student's quantile as 12.706 in place of 12.7062
        half = math.log(pair[end] / pair["speedup"])
        pair[end] = pair["speedup"] * math.exp(half * 12.706 / 12.7062047361747)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = golden.build(tmp_path_factory.mktemp("versions") / "run", seeds=(7, 8))
    for number in (-1, -2, -3):
        # the last commit of A1's second seed comes earlier, so that the interval has a width
        golden.edit_line(
            directory, "updates.jsonl", number, lambda line: line.update(t1_ns=line["t0_ns"] + 1)
        )
    golden.recompute(directory)
    return directory


@pytest.fixture
def earlier(built: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    shutil.copytree(built, directory)
    golden.edit_header(directory, as_version_1)
    return directory


def codes(directory: Path) -> set[str]:
    return {finding.code for finding in reported(RunRecord.open(directory))}


def test_results_of_version_1_verify(earlier: Path) -> None:
    pair = RunRecord.open(earlier).header.results["comparison"]["arms"]["A1"]
    assert pair["high"] > 1.5 * pair["low"]
    assert codes(earlier) == set()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda r: r["runs"][0]["metrics"].update(util_busy=0.9), "E142"),
        (lambda r: r["runs"][0]["metrics"].update(mfu=0.9), "E142"),
        (lambda r: r["comparison"]["arms"]["A1"].update(high=9.0), "E172"),
        (lambda r: r.update(version=VERSION + 1), "E142"),
        (lambda r: r.update(version="1"), "E142"),
        (lambda r: r.pop("runs"), "E142"),
        (lambda r: r.pop("comparison"), "E172"),
    ],
    ids=["figure", "made-up figure", "interval", "later", "odd", "no runs", "no comparison"],
)
def test_what_an_earlier_version_reported_must_be_right(
    earlier: Path, change: Callable[[dict[str, Any]], object], code: str
) -> None:
    golden.edit_header(earlier, lambda header: change(header["results"]))
    assert code in codes(earlier)


def test_the_present_version_leaves_nothing_out(built: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(built, directory)
    assert codes(directory) == set()
    golden.edit_header(directory, lambda header: header["results"]["runs"][0]["metrics"].pop("mfu"))
    assert "E142" in codes(directory)
