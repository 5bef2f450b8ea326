from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.commands.results import compare_command, report_command
from bench.compare import compare
from bench.errors import BenchError, RejectedError, UsageError, fault_of
from bench.targets import TargetLine
from leaderboard import bundle
from leaderboard.archive import pack
from leaderboard.errors import RecordError
from tests.leaderboard import golden

# golden's clock: an update ends 10 ms before its commit, rounds last 300 and 200 ms, 1 ms between two rounds
SPEEDUP = (300 + 1 + 290) / (200 + 1 + 190)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return golden.build(tmp_path / "run")


def change(run_dir: Path, name: str, arm: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Changes every line of an arm; a line for which `edit` returns True goes."""
    path = run_dir / name
    kept = []
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line["arm"] == arm and edit(line) is True:
            continue
        kept.append(golden.canonical.dumps(line) + "\n")
    path.write_text("".join(kept))


def test_time_ratio_is_that_of_the_lines(run_dir: Path) -> None:
    found = compare(run_dir)
    assert found.speedup == pytest.approx(SPEEDUP)
    assert found.time_reduction == pytest.approx(1 - 1 / SPEEDUP)
    assert (found.baseline, found.product, found.seeds) == ("S1", "A1", 1)


def test_what_run_json_reports_is_not_believed(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda header: header["results"]["comparison"].update(arms={}, baseline="A1"))
    assert compare(run_dir).speedup == pytest.approx(SPEEDUP)


def test_one_seed_is_an_observation(run_dir: Path) -> None:
    found = compare(run_dir)
    assert (found.low, found.high) == (None, None)
    assert "one seed" in found.verdict and "an observation, not a claim" in found.verdict


def test_a_steady_gain_over_seeds_is_a_claim(tmp_path: Path) -> None:
    found = compare(golden.build(tmp_path / "run", seeds=(7, 8, 9)))
    assert found.low is not None and found.low == pytest.approx(SPEEDUP, rel=1e-3)
    assert "3 paired seeds" in found.verdict and "no detectable" not in found.verdict


def test_a_gain_within_the_noise_is_none(tmp_path: Path) -> None:
    run_dir = golden.build(tmp_path / "run", seeds=(7, 8))

    def slow(line: dict[str, Any]) -> None:
        # A1's second seed takes three times as long: ratios 1.51 and 0.50 say nothing
        if line["seed"] == 8 and line["update_id"] == golden.UPDATES - 1:
            line["t1_ns"] += 782 * golden.MS

    change(run_dir, "updates.jsonl", "A1", slow)
    found = compare(run_dir)
    # logs of 591/391 and 591/1173: mean -0.136; t(1) = 12.706 times their half distance 0.549 is far wider
    assert found.low is not None and found.high is not None
    assert found.speedup == pytest.approx(math.sqrt(591 / 391 * 591 / 1173), rel=1e-3)
    assert found.low < 1 < found.high
    assert "no detectable difference in time" in found.verdict


def test_every_arm_gets_a_line_and_the_a_a_pair_is_the_noise_floor(record_run: Callable[..., Any]) -> None:
    record = record_run("seeds=2", "aa=true", "arms=S0,S1,A0,A1")
    found = compare(record.directory)
    assert (found.baseline, found.product) == ("S1", "A1")
    assert [line.arm for line in found.lines] == ["S0", "S1", "A0", "A1", "S1-aa"]
    assert found.floor is not None and found.floor.ratio == pytest.approx(1.0, rel=0.02)
    lines = {line.arm: line.ratio for line in found.lines}
    assert lines["S1"] is None
    # scripted rounds of 60, 40, 40 and 20 ms, and microseconds by which no two runs are alike
    assert lines["A0"].ratio == pytest.approx(1.0, rel=0.02)
    assert lines["S0"].ratio < 1 < lines["A1"].ratio
    assert "noise floor: A/A ratio 1.00" in found.text()
    assert found.as_dict()["noise_floor"]["n"] == 2


def test_arms_that_learn_alike_are_at_parity(run_dir: Path) -> None:
    found = compare(run_dir)
    # twelve items that agree are too few to bound a loss by two points
    assert (found.parity.verdict, found.parity.difference, found.parity.n) == ("underpowered", 0.0, 12)
    assert compare(run_dir, margin=0.25).as_dict()["parity"] == "pass"


def test_lost_items_are_counted_one_by_one(run_dir: Path) -> None:
    def lose(line: dict[str, Any]) -> None:
        if line["eval_id"] == 1 and line["tenant"] == "math":
            line["reward"] = 0.0

    change(run_dir, "evals.jsonl", "A1", lose)
    found = compare(run_dir)
    assert {t: p.verdict for t, p in found.parity_by_tenant.items()} == {
        "code": "underpowered",
        "math": "fail",
        "search": "underpowered",
    }
    assert (found.parity_by_tenant["math"].difference, found.parity_by_tenant["math"].n) == (-1.0, 4)
    # 4 of 12 items
    assert found.parity.difference == pytest.approx(-4 / 12)
    assert found.parity.verdict == "fail"
    assert found.accuracy["math"] == {"S1": 1.0, "A1": 0.0}


def test_arms_may_be_chosen_and_turned_round(run_dir: Path) -> None:
    assert compare(run_dir, baseline="A1", product="S1").speedup == pytest.approx(1 / SPEEDUP)


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("updates.jsonl", lambda u: u["update_id"] == 1 and u["tenant"] == "code", "updates per tenant"),
        ("rollouts.jsonl", lambda r: r.update(item_uid="another"), "consumed items"),
        ("rollouts.jsonl", lambda r: r["ordinal"] == 3, "consumed items"),
        ("updates.jsonl", lambda u: u.update(learning_rate=0.1), "learning rates"),
        ("evals.jsonl", lambda e: e["item_index"] == 2, "evaluated items"),
        ("spans.jsonl", lambda s: s.update(device="cpu:1"), "devices"),
    ],
    ids=["updates", "items", "groups", "learning rate", "evaluation", "devices"],
)
def test_unequal_work_is_refused_by_name(
    run_dir: Path, name: str, edit: Callable[[dict[str, Any]], Any], said: str
) -> None:
    change(run_dir, name, "A1", edit)
    with pytest.raises(RejectedError, match=f"unequal work, seed 7: {said} differ between S1 and A1"):
        compare(run_dir)


def test_order_of_consumption_is_the_timetables_own_affair(run_dir: Path) -> None:
    path = run_dir / "rollouts.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert compare(run_dir).speedup == pytest.approx(SPEEDUP)


def test_arms_that_learnt_nothing_are_not_compared(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda header: header["config"].update(learning_rate=0.003))
    for arm in golden.ARMS:
        change(run_dir, "updates.jsonl", arm, lambda u: u.update(learning_rate=0.0))
    with pytest.raises(RejectedError, match="learning rate 0"):
        compare(run_dir)


def test_a_run_that_did_not_end_well_is_refused_with_its_reason(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda header: header.update(status="interrupted", status_reason="by hand"))
    with pytest.raises(RejectedError, match="interrupted: by hand") as refused:
        compare(run_dir)
    assert "bench resume" in refused.value.hint
    golden.edit_header(run_dir, lambda header: header.update(status="running", status_reason=""))
    with pytest.raises(RejectedError, match="was cut off: its process was killed, or is still at work"):
        compare(run_dir)


def test_a_header_that_claims_success_for_an_arm_cut_short_is_not_enough(run_dir: Path) -> None:
    golden.edit_line(run_dir, "events.jsonl", -1, lambda event: event["value"].update(status="error"))
    with pytest.raises(RejectedError, match="A1, seed 7: its events end with error"):
        compare(run_dir)


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_a_turn_past_the_sampling_cap_is_refused(run_dir: Path, kind: str) -> None:
    golden.edit_header(run_dir, lambda header: header["sampling"][kind].update(max_new_tokens=1))
    with pytest.raises(RejectedError, match=rf"sampled a turn of \d+ tokens \({kind}\), the cap is 1"):
        compare(run_dir)
    golden.edit_header(run_dir, lambda header: header["sampling"][kind].update(max_new_tokens=500))
    compare(run_dir)


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ({"baseline": "S9"}, "'S9' is not in this run; it has S1, A1"),
        ({"product": "S1"}, "S1 would be compared with itself"),
    ],
)
def test_arms_that_are_not_there_are_named(run_dir: Path, arms: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compare(run_dir, **arms)


@pytest.mark.parametrize("name", ["events.jsonl", "evals.jsonl", "updates.jsonl"])
def test_a_record_that_lost_its_lines_is_refused_and_not_a_defect(run_dir: Path, name: str) -> None:
    (run_dir / name).write_text("")
    with pytest.raises((BenchError, ValueError)) as caught:
        compare(run_dir)
    assert fault_of(caught.value).expected, caught.value


def test_labels_stand_beside_the_verdict(tmp_path: Path) -> None:
    text = compare(golden.build(tmp_path / "run", limit_applied=True)).text()
    assert "SIMULATED (const:0.003)" in text
    assert "LIMITED" in text
    assert "do not transfer to accelerators" in text


@pytest.mark.parametrize(
    ("lost", "fail_below", "require_parity", "code"),
    [
        (False, None, False, 0),
        (False, 1.5, False, 0),
        (False, 1.5, True, 4),
        (False, 1.6, False, 5),
        (True, None, False, 0),
        (True, None, True, 4),
        (True, 1.6, True, 4),
    ],
)
def test_thresholds_are_exit_codes(
    run_dir: Path, lost: bool, fail_below: float | None, require_parity: bool, code: int
) -> None:
    if lost:
        change(run_dir, "evals.jsonl", "A1", lambda e: e.update(reward=0.0) if e["eval_id"] else None)
        bundle.seal(run_dir)
    value, _, found = compare_command(run_dir, None, None, fail_below, require_parity)
    assert (found, value["ok"]) == (code, code == 0)


@pytest.mark.parametrize(
    "name", ["rollouts.jsonl", "evals.jsonl", "spans.jsonl", "run.json", "updates.jsonl"]
)
def test_the_command_refuses_a_record_of_which_one_byte_is_not_as_sealed(run_dir: Path, name: str) -> None:
    raw = bytearray((run_dir / name).read_bytes())
    at = raw.rindex(b"0")
    raw[at] = ord("1")
    (run_dir / name).write_bytes(bytes(raw))
    with pytest.raises((RejectedError, RecordError), match=rf"E111 {name}|{name}"):
        compare_command(run_dir, None, None, None, False)


def test_a_record_that_was_never_sealed_is_refused(run_dir: Path) -> None:
    (run_dir / bundle.MANIFEST).unlink()
    with pytest.raises(RejectedError, match=r"E103 manifest\.json: the record isn't sealed"):
        compare_command(run_dir, None, None, None, False)


def test_an_archive_is_compared_as_its_folder(run_dir: Path, tmp_path: Path) -> None:
    packed = pack(run_dir, tmp_path / "run.tar.gz")
    assert compare_command(packed, None, None, None, False) == compare_command(
        run_dir, None, None, None, False
    )


def test_a_threshold_that_is_no_number_is_refused(run_dir: Path) -> None:
    for number in (math.nan, math.inf, 0.0, -1.0):
        with pytest.raises(UsageError, match=r"--fail-below .* is no speed-up"):
            compare_command(run_dir, None, None, number, False)


@pytest.mark.parametrize("kind", ["in the run", "a fifo", "a link", "a folder", "no page", "nowhere"])
def test_a_report_overwrites_pages_and_nothing_else(run_dir: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "x.html"
    if kind == "in the run":
        out = run_dir / "x.html"
    elif kind == "a fifo":
        os.mkfifo(out)
    elif kind == "a link":
        out.symlink_to(tmp_path / "elsewhere")
    elif kind == "a folder":
        out.mkdir()
    elif kind == "no page":
        out = tmp_path / "notes.txt"
        out.write_text("mine")
    else:
        out = tmp_path / "missing" / "x.html"
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="--out"):
        report_command([run_dir], out, None)
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_every_task_has_a_ratio_of_its_own_on_request(run_dir: Path) -> None:
    found = compare(run_dir)
    assert found.tasks is not None and found.tasks.by_task.keys() == golden.TENANTS.keys()
    assert found.tasks.ratio == pytest.approx(SPEEDUP)
    by_task = found.text(by_task=True)
    assert "math, A1 against S1: 1.51×" in by_task and "math, A1 against S1" not in found.text()
    assert found.as_dict()["task_verdicts"]["math"] in by_task


def test_another_time_may_be_compared_and_is_named(run_dir: Path) -> None:
    assert ", t_total: " in compare(run_dir, metric="t_total").verdict
    with pytest.raises(UsageError, match="--metric 'util_busy' is no time"):
        compare(run_dir, metric="util_busy")


def test_a_page_and_a_second_run_do_not_go_together(run_dir: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(UsageError, match="--html is the page of one run"):
        compare_command(run_dir, None, None, None, False, other=run_dir, html=page)
    with pytest.raises(UsageError, match="--by 'seed'"):
        compare_command(run_dir, None, None, None, False, by="seed")


def test_time_to_a_target_says_whether_it_was_fixed_beforehand(run_dir: Path) -> None:
    def fix(header: dict[str, Any]) -> None:
        header["tenants"][0]["target"] = 0.9  # more than it has before training

    golden.edit_header(run_dir, fix)
    found = compare(run_dir)
    tenant = next(iter(golden.TENANTS))
    line = found.targets[tenant]
    assert (line.target, line.fixed) == (0.9, True)
    assert f"time to target, {tenant}: 90 % (fixed beforehand): " in found.text()
    assert found.as_dict()["targets"][tenant]["fixed"] is True


@pytest.mark.parametrize(
    ("speedup", "low", "lost", "won", "said"),
    [
        (2.0, 1.5, 0, 0, "2.00× sooner, 95 % interval 1.50 to 3.00, 5 paired seeds"),
        (2.0, None, 0, 0, "2.00× sooner on one seed"),
        (
            None,
            None,
            1,
            2,
            "no ratio, not held by the product in 1 and by the baseline alone in 2 of 5 seeds",
        ),
    ],
)
def test_a_target_line_says_what_was_reached(
    speedup: float | None, low: float | None, lost: int, won: int, said: str
) -> None:
    line = TargetLine(
        target=0.5,
        fixed=False,
        speedup=speedup,
        low=low,
        high=low and 3.0,
        n=5,
        lost=lost,
        won=won,
        censored=0,
    )
    assert line.sentence == f"50 % (where the baseline ended, less 2 points): {said}"
