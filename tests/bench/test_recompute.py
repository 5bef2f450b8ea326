"""The table's figures once more from the JSONL files, by other code: json and the standard library only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.compare import compare
from bench.table import as_dict
from leaderboard.records import RunRecord
from tests.leaderboard import golden


def recompute(run: Path, arm: str, seed: int) -> tuple[float, float, dict[str, tuple[float, float]]]:
    """Time to do the work in seconds, busy share by marking every microsecond, accuracy before and after."""
    own = {
        name: [
            x
            for x in map(json.loads, (run / f"{name}.jsonl").read_text().splitlines())
            if (x["arm"], x["seed"]) == (arm, seed)
        ]
        for name in ("events", "spans", "updates", "evals")
    }
    start = next(e["t_ns"] for e in own["events"] if e["key"] == "run_start")
    stop = max(u["t1_ns"] for u in own["updates"])
    devices = [device["id"] for device in json.loads((run / "run.json").read_text())["devices"]]
    marked = {device: bytearray((stop - start) // 1000) for device in devices}
    for span in (s for s in own["spans"] if s["role"] != "eval"):
        first, last = (min(max(t, start), stop) - start for t in (span["t0_ns"], span["t1_ns"]))
        marked[span["device"]][first // 1000 : last // 1000] = b"\1" * (last // 1000 - first // 1000)
    rewards: dict[str, dict[int, list[float]]] = {}
    for e in own["evals"]:
        rewards.setdefault(e["tenant"], {}).setdefault(e["eval_id"], []).append(e["reward"])
    scores = {t: (sum(r[0]) / len(r[0]), sum(r[max(r)]) / len(r[max(r)])) for t, r in rewards.items()}
    return (stop - start) / 1e9, sum(map(sum, marked.values())) / sum(map(len, marked.values())), scores


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return golden.build(tmp_path / "run", seeds=(7, 8))


def overlap(run: Path) -> None:
    """Makes a decode span run into training, and one past the last commit."""
    golden.edit_line(run, "spans.jsonl", 0, lambda s: s.update(t1_ns=s["t1_ns"] + 160 * golden.MS))
    golden.edit_line(run, "spans.jsonl", -1, lambda s: s.update(t1_ns=s["t1_ns"] + 500 * golden.MS))


@pytest.mark.parametrize("spoil", [lambda run: None, overlap], ids=["golden", "overlapping spans"])
def test_the_table_is_what_the_lines_say(run: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(run)
    table = {row["arm"]: row for row in as_dict(RunRecord.open(run))["arms"]}
    for arm in ("S1", "A1"):
        (time_7, busy_7, scores_7), (time_8, busy_8, scores_8) = (
            recompute(run, arm, seed) for seed in (7, 8)
        )
        assert table[arm]["t_work_s"] == pytest.approx((time_7 + time_8) / 2)
        assert table[arm]["util_busy"] == pytest.approx((busy_7 + busy_8) / 2)
        for tenant, shown in table[arm]["accuracy"].items():
            pairs = zip(scores_7[tenant], scores_8[tenant], strict=True)
            assert [shown["before"], shown["after"]] == pytest.approx([sum(pair) / 2 for pair in pairs])


def test_the_comparison_is_what_the_lines_say(run: Path) -> None:
    found = compare(run)
    for arm in ("S1", "A1"):
        (time_7, busy_7, scores_7), (time_8, busy_8, scores_8) = (
            recompute(run, arm, seed) for seed in (7, 8)
        )
        assert found.time_s[arm] == pytest.approx((time_7 + time_8) / 2)
        assert found.utilization[arm]["busy"] == pytest.approx((busy_7 + busy_8) / 2)
        for tenant, by_arm in found.accuracy.items():
            assert by_arm[arm] == pytest.approx((scores_7[tenant][1] + scores_8[tenant][1]) / 2)
