"""Twelve ways in which comparisons of synchronous and asynchronous training go wrong, planted one by one."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.compare import Comparison, compare
from bench.errors import RejectedError
from bench.fairness.device import HELD_UP, unexplained
from bench.fairness.side import Side
from leaderboard.outline import RunOutline
from tests.leaderboard import golden

SEEDS = (7, 8)
MS = golden.MS


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.build(tmp_path_factory.mktemp("honest") / "run", seeds=SEEDS)


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "run"))


def change(run: Path, name: str, edit: Callable[[dict[str, Any]], Any], arm: str = "A1") -> None:
    """Changes every line of an arm; a line for which `edit` returns False goes, lines that it returns are added."""
    path = run / name
    kept: list[str] = []
    for text in path.read_text().splitlines():
        line = json.loads(text)
        more = edit(line) if line["arm"] == arm else None
        kept += [] if more is False else [golden.canonical.dumps(line) + "\n"]
        kept += [golden.canonical.dumps(extra) + "\n" for extra in more] if isinstance(more, list) else []
    path.write_text("".join(kept))


def header(run: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    golden.edit_header(run, edit)


def test_an_honest_record_raises_no_alarm(run: Path) -> None:
    found = compare(run)
    assert (found.flags, found.doubts) == ((), ())


def fewer_updates(run: Path) -> None:
    change(run, "updates.jsonl", lambda u: u["update_id"] == 0)


def learning_rate_zero(run: Path) -> None:
    change(run, "updates.jsonl", lambda u: u.update(learning_rate=0.0))


def shorter_caps(run: Path) -> None:
    def cut(line: dict[str, Any]) -> None:
        for turn in line["turns"]:
            if turn["role"] == "policy":
                turn.update(stop="max_tokens", token_ids=turn["token_ids"][:5])

    change(run, "rollouts.jsonl", cut)


def other_templates(run: Path) -> None:
    def frame(line: dict[str, Any]) -> None:
        line["turns"][0]["token_ids"] = [60, *line["turns"][0]["token_ids"], 62]

    change(run, "rollouts.jsonl", frame)


def warm_cache_in_one_arm(run: Path) -> None:
    def state(h: dict[str, Any]) -> None:
        for entry in h["runs"]:
            entry["programs_compiled"] = 0 if entry["arm"] == "A1" else 31

    header(run, state)


def paused_clock(run: Path) -> None:
    def pause(event: dict[str, Any]) -> None:
        if event["key"] in ("run_start", "run_stop"):
            at = golden.WALL + event["t_ns"] / 1e9
            event["value"]["wall_utc"] = at + (60.0 if event["key"] == "run_stop" else 0.0)

    change(run, "events.jsonl", pause)


def extra_evaluations(run: Path) -> None:
    def again(line: dict[str, Any]) -> list[dict[str, Any]]:
        if line["eval_id"] == 0:
            return []
        extra = {**line, "version": 1, "samples": line["samples"] // 2}
        line["eval_id"] = 2
        return [extra]

    change(run, "evals.jsonl", again)


def different_devices(run: Path) -> None:
    header(run, lambda h: h["devices"].append({"id": "cpu:1", "kind": "cpu"}))
    change(run, "spans.jsonl", lambda s: s.update(device="cpu:1"))


def dropped_slow_run(run: Path) -> None:
    for name in ("events", "spans", "rollouts", "updates", "evals"):
        for arm in golden.ARMS:
            change(run, f"{name}.jsonl", lambda line: line["seed"] != 8, arm)
    header(
        run,
        lambda h: h.update(
            seeds=[7],
            order=[pair for pair in h["order"] if pair[1] == 7],
            runs=[entry for entry in h["runs"] if entry["seed"] == 7],
        ),
    )


def best_of_k(run: Path) -> None:
    # as many samples again, of which the better half is kept
    change(
        run,
        "rollouts.jsonl",
        lambda r: [{**r, "rollout_id": f"{r['rollout_id']}b", "fate": "surplus", "consumed_in": None}],
    )


def best_of_k_evaluations(run: Path) -> None:
    change(run, "evals.jsonl", lambda e: [{**e, "reward": 1.0}] if e["eval_id"] == 1 else None)


def eval_items_trained_on(run: Path) -> None:
    scored = json.loads((run / "evals.jsonl").read_text().splitlines()[0])
    for arm in golden.ARMS:
        change(
            run,
            "rollouts.jsonl",
            lambda r: r.update(item_uid=scored["item_uid"]) if r["ordinal"] == 0 else None,
            arm,
        )


def a_sleep_in_the_baseline(run: Path) -> None:
    """Two seconds before every step of the baseline in which nothing is under way: all later times move."""
    sleep = 2000 * MS
    commits: dict[int, list[int]] = {}
    for text in (run / "updates.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["arm"] == "S1":
            commits.setdefault(line["seed"], []).append(line["t0_ns"])

    def moved(line: dict[str, Any], at: int) -> int:
        return at + sleep * sum(begin <= at for begin in sorted(set(commits[line["seed"]])))

    for name, keys in {
        "spans": ("t0_ns", "t1_ns"),
        "updates": ("t0_ns", "t1_ns", "published_ns"),
        "rollouts": ("t_start_ns", "t_end_ns"),
        "events": ("t_ns",),
        "evals": ("snapshot_ns",),
    }.items():

        def shift(line: dict[str, Any], keys: tuple[str, ...] = keys) -> None:
            for part in (line, *line.get("turns", ())):
                for key in (*keys, "t0_ns", "t1_ns"):
                    if key in part:
                        part[key] = moved(line, part[key])

        change(run, f"{name}.jsonl", shift, "S1")


@pytest.mark.parametrize(
    ("plant", "code", "reason"),
    [
        (fewer_updates, "E155", "updates per tenant differ between S1 and A1"),
        (learning_rate_zero, "E154", r"learning rates differ between S1 and A1: code, step 0: 0.003 and 0.0"),
        (shorter_caps, "E155", r"A1 cut \d+ turns at 5 tokens or fewer \(train\), the cap is"),
        (other_templates, "E162", "prompts differ between S1 and A1"),
        (warm_cache_in_one_arm, "E133", "compile caches differ between S1 and A1: cold and warm"),
        (paused_clock, "E131", r"A1, seed 7: its clock went on by .* went by on the wall: it was paused"),
        (extra_evaluations, "E164", "evaluated items differ between S1 and A1"),
        (different_devices, "E171", "devices differ between S1 and A1: cpu:0 and cpu:1"),
        (dropped_slow_run, "E123", "seed"),
        (best_of_k, "E163", "groups drew more samples than the group size"),
        (best_of_k_evaluations, "E164", "evaluated items differ"),
        (eval_items_trained_on, "E162", "rollouts trained on items that are evaluated"),
        (
            a_sleep_in_the_baseline,
            "E145",
            "S1, seed 7: its device stood still for .* the baseline was held up",
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_unfairness_is_refused_with_a_reason_of_its_own(
    run: Path, plant: Callable[[Path], None], code: str, reason: str
) -> None:
    plant(run)
    with pytest.raises(RejectedError, match=rf"^{code} .*{reason}"):
        compare(run)


def test_evaluations_that_all_arms_take_and_no_plan_has_are_refused_too(run: Path) -> None:
    for arm in golden.ARMS:
        change(run, "evals.jsonl", lambda e: e.update(version=1) if e["eval_id"] == 1 else None, arm)
    with pytest.raises(RejectedError, match=r"^E134 .*evaluated at versions"):
        compare(run)


def test_time_between_arms_that_nothing_explains_is_flagged_and_holds_the_claim_back(run: Path) -> None:
    """A run that was left out of the record leaves its time behind."""
    for seed, arm in ((8, "S1"), (8, "A1")):
        for name in ("events", "spans", "updates", "rollouts", "evals"):

            def later(line: dict[str, Any], seed: int = seed) -> None:
                if line["seed"] != seed:
                    return
                for part in (line, *line.get("turns", ())):
                    for key in part.keys() & {"t_ns", "t0_ns", "t1_ns", "published_ns", "snapshot_ns"} | (
                        part.keys() & {"t_start_ns", "t_end_ns"}
                    ):
                        part[key] += 60_000 * MS

            change(run, f"{name}.jsonl", later, arm)
    found = compare(run)
    assert [flag.code for flag in found.flags] == ["E126"]
    assert "was a run left out" in found.doubts[0]
    assert found.finding == "withheld"


def test_an_arm_that_was_resumed_in_its_middle_holds_the_claim_back(run: Path) -> None:
    """One that was begun anew has a whole clock, and so has every other arm."""

    def went_on(step: int | None) -> Callable[[dict[str, Any]], Any]:
        entry = {"arm": "S1", "seed": 8, "step": step, "stopped_ns": 1000 * MS, "resumed_ns": 36_000 * MS}
        return lambda h: h.update(resumed=[entry | {"dropped_lines": 0}])

    header(run, went_on(None))
    assert not compare(run).flags
    header(run, went_on(1))
    found = compare(run)
    assert [flag.code for flag in found.flags] == ["W205"]
    assert "S1, seed 8 was resumed after step 1: its time holds 35.0 s" in found.doubts[0]
    assert found.finding == "withheld"


def test_the_time_of_a_resumption_is_no_sleep(run: Path) -> None:
    """Interrupted before each update of S1 and gone on with: the same stillness, told of."""
    a_sleep_in_the_baseline(run)
    spans = [json.loads(text) for text in (run / "spans.jsonl").read_text().splitlines()]
    gone_on = []
    for seed in SEEDS:
        own = sorted((s for s in spans if (s["arm"], s["seed"]) == ("S1", seed)), key=lambda s: s["t0_ns"])
        for before, after in itertools.pairwise(own):
            gone_on.append(
                {
                    **{"arm": "S1", "seed": seed, "step": 1, "dropped_lines": 0},
                    **{"stopped_ns": before["t1_ns"], "resumed_ns": after["t0_ns"] - 1},
                }
            )

    def stood_still(arm: str) -> float:
        header(run, lambda h: h.update(resumed=[{**entry, "arm": arm} for entry in gone_on]))
        record = RunOutline.open(run)
        side = next(view for view in record.views if (view.arm, view.seed) == ("S1", 7))
        return unexplained(Side(label="S1", view=side, header=record.header))

    assert stood_still("A1") > HELD_UP
    assert stood_still("S1") < 0.01


def test_a_slow_environment_in_the_baseline_is_flagged(run: Path) -> None:
    def slow(line: dict[str, Any]) -> None:
        line["env_ns"] *= 4
        for turn in line["turns"][1:]:
            if turn["role"] == "environment":
                turn["t0_ns"] -= 3 * (turn["t1_ns"] - turn["t0_ns"])

    change(run, "rollouts.jsonl", slow, "S1")
    assert [flag.code for flag in compare(run).flags] == ["E145"]


def settings_of(run: Path) -> Comparison:
    """Gives every arm settings as a run records them; A1's slots differ."""

    def state(h: dict[str, Any]) -> None:
        for entry in h["runs"]:
            built = {"trainer": {"sampler": {"slots": 64 if entry["arm"] == "A1" else 32}}}
            digest = golden.canonical.sha256(golden.canonical.encode(built))
            entry["settings_sha256"] = digest
            h.setdefault("settings", {})[digest] = built

    header(run, state)
    return compare(run)


def test_what_arms_were_built_with_is_compared_key_by_key(run: Path) -> None:
    with pytest.raises(RejectedError, match=r"^E122 .*settings differ .* trainer.sampler.slots is 32 and 64"):
        settings_of(run)


def test_arms_of_two_records_are_paired_by_seed_and_not_claimed_since_not_interleaved(
    run: Path, honest: Path
) -> None:
    found = compare(honest, run)
    assert (found.baseline, found.product, found.seeds) == ("S1", "A1", 2)
    assert found.speedup == pytest.approx(compare(honest).speedup)
    assert [flag.code for flag in found.flags] == ["E171"] and "not interleaved" in found.doubts[0]
    alike = compare(honest, run, baseline="S1", product="S1")
    assert (alike.baseline, alike.product, alike.speedup) == ("S1 (first)", "S1 (second)", pytest.approx(1.0))


@pytest.mark.parametrize(
    ("edit", "code", "reason"),
    [
        (lambda h: h["devices"][0].update(kind="gpu"), "E171", "devices differ"),
        (lambda h: h["software"].update(jax="0.9"), "E171", "software differ: jax is '0.10' and '0.9'"),
        (lambda h: h["model"].update(sha256="0" * 64), "E122", "model differ: sha256"),
        (lambda h: h["config"].update(lora_rank=4), "E122", "configuration differ: lora_rank is None and 4"),
        (lambda h: h["seeds"].append(9), "E123", "seeds 9 are in one record only"),
    ],
)
def test_two_records_of_different_experiments_are_refused_by_name(
    run: Path, honest: Path, edit: Callable[[dict[str, Any]], Any], code: str, reason: str
) -> None:
    header(run, edit)
    with pytest.raises(RejectedError, match=rf"^{code} .*{reason}"):
        compare(honest, run)


def test_two_machines_are_no_pair(run: Path, honest: Path) -> None:
    (run / "system.json").write_text('{"cores":64}\n')
    with pytest.raises(RejectedError, match="machine differ: cores is 2 and 64"):
        compare(honest, run)
