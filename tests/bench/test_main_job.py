"""The main job from end to end: real tasks, the embedded model, the real record, comparison and board."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench import compare, table
from bench.cli import invoke
from bench.errors import RejectedError
from leaderboard.records import RunRecord
from leaderboard.verify import verify
from tests.browser import browser, needs_browser
from tunix_core.schedule import ARMS
from tunix_core.trainer import Trainer

ROOT = Path(__file__).resolve().parent.parent.parent
TRIO = ["--tasks", "math,code,search", "--tracker", "none", "--quiet"]
SMALL = ["--set", "group_size=4", "--set", "groups_per_update=2", "--eval-items", "8", "--updates", "3"]


def data_dir() -> Path:
    """Real data sets for development; they are not part of the repository."""
    found = Path(os.environ.get("BENCH_DATA_DIR") or ROOT.parent / "shared" / "data")
    if not (found / "gsm8k" / "train.jsonl").is_file():
        pytest.skip("no GSM8K: set BENCH_DATA_DIR to a folder that holds gsm8k/train.jsonl and test.jsonl")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("main")


@pytest.fixture(scope="module")
def run_dir(folder: Path) -> Path:
    """Four arms of a small run in the deterministic runtime."""
    out = folder / "run"
    arms = ["--arms", "S0,S1,A0,A1", "--set", "runtime=inline", "--out", str(out)]
    assert invoke(["run", *TRIO, *SMALL, *arms]) == 0
    return out


def test_the_record_verifies_and_every_reward_is_graded_again(run_dir: Path) -> None:
    report = verify(run_dir)
    assert report.ok, report.errors
    assert report.checked["rollouts_regraded"] == 4 * 3 * 3 * 8


def test_parity_arm_consumes_what_the_baseline_consumes_and_ends_on_the_same_adapters(run_dir: Path) -> None:
    record = RunRecord.open(run_dir)

    def consumed(arm: str) -> Counter[tuple[object, ...]]:
        return Counter(
            (r.tenant, r.ordinal, r.sample_index, r.item_uid, r.reward, tuple(t.text for t in r.turns))
            for r in record.view(arm, 0).rollouts
            if r.fate == "consumed"
        )

    assert consumed("A0") == consumed("S1") == consumed("S0")
    finals = {run.arm: {t: a.final_sha256 for t, a in run.adapters.items()} for run in record.header.runs}
    assert finals["A0"] == finals["S1"] == finals["S0"]
    initial = {t: a.initial_sha256 for t, a in record.header.runs[0].adapters.items()}
    assert all(finals["S1"][t] != initial[t] for t in initial)


def test_staleness_stays_within_the_limit_of_each_arm(run_dir: Path) -> None:
    record = RunRecord.open(run_dir)
    limits = {a.arm: a.max_staleness for a in record.header.arms}
    for arm, limit in limits.items():
        assert all(int(age) <= limit for u in record.view(arm, 0).updates for age in u.staleness)


def test_nothing_compiles_inside_the_window(run_dir: Path) -> None:
    assert {run.recompiles_after_warmup for run in RunRecord.open(run_dir).header.runs} == {0}


def test_the_comparison_gives_a_verdict(run_dir: Path) -> None:
    found = compare.compare(run_dir)
    assert (found.baseline, found.product) == ("S1", "A1")
    assert "A1 against S1" in found.verdict and "one seed" in found.verdict


def test_a_sleep_in_the_baselines_trainer_is_found_in_the_record(
    run_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted in the program, not in its record: a second before every update of S1."""
    del run_dir  # its arms have compiled what these need
    begin = Trainer._begin_update

    def held_up(trainer: Trainer, due: Mapping[str, tuple[int, ...]]) -> None:
        if trainer.schedule == ARMS["S1"]:
            time.sleep(1.0)  # the unfairness itself
        begin(trainer, due)

    monkeypatch.setattr(Trainer, "_begin_update", held_up)
    out = folder / "held-up"
    assert invoke(["run", *TRIO, *SMALL, "--arms", "S1,A1", "--out", str(out)]) == 0
    assert verify(out).ok
    with pytest.raises(
        RejectedError, match=r"^E145 .*S1, seed \d+: its device stood still for .* was held up"
    ):
        compare.compare(out)


def test_submitting_makes_a_row_on_the_page(run_dir: Path, folder: Path) -> None:
    board, site = folder / "board", folder / "site"
    assert invoke(["submit", str(run_dir), "--to", str(board), "--name", "a first run"]) == 0
    assert invoke(["leaderboard", "build", "--data", str(board), "--out", str(site)]) == 0
    assert "a first run" in (site / "index.html").read_text()


@pytest.mark.browser
@needs_browser
def test_the_row_is_seen_in_a_browser_and_leads_to_its_page(
    run_dir: Path, folder: Path, tmp_path: Path
) -> None:
    data, site = tmp_path / "board", tmp_path / "site"
    assert invoke(["submit", str(run_dir), "--to", str(data), "--name", "Seen"]) == 0
    assert invoke(["leaderboard", "build", "--data", str(data), "--out", str(site)]) == 0
    with browser(tmp_path / "profile") as page:
        page.open(site / "index.html")
        cells = page.value("[...document.querySelectorAll('#board tbody td')].map(cell => cell.textContent)")
        link = page.value("document.querySelector('#board tbody a').getAttribute('href')")
        assert "Seen" in cells and "T1 re-scored" in cells and "cpu-sim, 1×" in cells
        page.open(site / link)
        assert page.value("document.querySelector('h1').textContent") == "Seen"
        assert page.value("document.querySelectorAll('details pre').length") > 0
        assert not page.complaints and all(url.startswith("file:") for url in page.requests)


def test_the_tables_figures_recompute_in_ten_lines(run_dir: Path) -> None:
    def lines(name: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (run_dir / name).read_text().splitlines()]

    events, spans, updates, evals = map(
        lines, ("events.jsonl", "spans.jsonl", "updates.jsonl", "evals.jsonl")
    )
    for row in table.as_dict(RunRecord.open(run_dir))["arms"]:
        mine = [e for e in events if e["arm"] == row["arm"]]
        start = next(e["t_ns"] for e in mine if e["key"] == "run_start")
        stop = max(u["t1_ns"] for u in updates if u["arm"] == row["arm"])
        busy, end = 0, 0
        for t0, t1 in sorted((s["t0_ns"], min(s["t1_ns"], stop)) for s in spans if s["arm"] == row["arm"]):
            busy, end = busy + max(0, t1 - max(t0, end)), max(end, t1)
        assert row["t_work_s"] == pytest.approx((stop - start) / 1e9)
        assert row["util_busy"] == pytest.approx(busy / (stop - start))
        for tenant, accuracy in row["accuracy"].items():
            last = [
                e["reward"] for e in evals if (e["arm"], e["tenant"], e["eval_id"]) == (row["arm"], tenant, 1)
            ]
            assert accuracy["after"] == pytest.approx(sum(last) / len(last))


def test_learning_rate_zero_leaves_adapters_and_accuracy_as_they_were(folder: Path) -> None:
    out = folder / "zero"
    args = ["--arms", "A1", "--learning-rate", "0", "--out", str(out)]
    assert invoke(["run", *TRIO, *SMALL, *args]) == 0
    record = RunRecord.open(out)
    for hashes in record.header.runs[0].adapters.values():
        assert hashes.initial_sha256 == hashes.final_sha256
    scores = Counter((e.tenant, e.item_index, e.reward) for e in record.evals if e.eval_id == 0)
    assert scores == Counter((e.tenant, e.item_index, e.reward) for e in record.evals if e.eval_id == 1)


def test_a_run_on_gsm8k_ends_cleanly_and_says_that_the_model_cannot_do_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA_DIR", str(data_dir()))
    out = folder / "gsm8k"
    small = ["--set", "group_size=2", "--set", "groups_per_update=2", "--eval-items", "4", "--limit", "2"]
    args = ["--tasks", "gsm8k", "--arms", "S1", "--tracker", "none", "--quiet", "--out", str(out)]
    assert invoke(["run", *args, *small]) == 0
    record = RunRecord.open(out)
    assert record.header.limit_applied and len(record.updates) == 2
    assert "about 0 for gsm8k" in table.render(record)
    assert verify(out).ok


def test_an_interrupted_run_leaves_a_readable_directory_and_exit_code_7(folder: Path) -> None:
    out = folder / "interrupted"
    command = [
        sys.executable,
        "-m",
        "bench",
        "run",
        *TRIO,
        "--arms",
        "A1",
        "--updates",
        "500",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 240
        updates = out / "updates.jsonl"
        while not (updates.is_file() and updates.stat().st_size) and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            time.sleep(0.2)  # waits for a file of another process
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 7, stderr
    record = RunRecord.open(out)
    assert record.header.status == "interrupted"
    assert record.updates
    assert set(verify(out).codes) <= {"E123", "W203"}, (
        "all there is must hold; only that it is not whole is told"
    )
