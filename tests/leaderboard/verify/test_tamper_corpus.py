"""The tamper corpus: fifty ways to cheat, each applied to a record that passes, each refused with its code.

A cheat is as able as it needs to be: some leave the hashes alone, most chain the events and seal the record again,
some recompute every figure too. Cases marked † are those that a check of the record alone can't always catch; what it
says of them is asserted here, and `bench replay` has tests of its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from leaderboard import canonical
from leaderboard.verify import verify
from tests.leaderboard import golden

Lines = list[dict[str, Any]]


def lines(name: str, change: Callable[[Lines], Lines | None]) -> Callable[[Path], None]:
    """A change of all lines of a file; in place, or the list returned."""

    def apply(run: Path) -> None:
        path = run / f"{name}.jsonl"
        values = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        changed = change(values)
        values = values if changed is None else changed
        path.write_text("".join(canonical.dumps(v) + "\n" for v in values), encoding="utf-8")

    return apply


def line(name: str, number: int, **fields: Any) -> Callable[[Path], None]:
    return lines(name, lambda values: values[number].update(fields))


def header(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda run: golden.edit_header(run, change)


def every(*changes: Callable[[Path], object]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        for change in changes:
            change(run)

    return apply


def figure(run: int = 0, **changes: Any) -> Callable[[Path], None]:
    return header(lambda h: h["results"]["runs"][run]["metrics"].update(changes))


def bytes_of(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes(change((run / name).read_bytes()))


def timed(scale: Callable[[int], int]) -> Callable[[Path], None]:
    """Maps every time of the record."""

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: scale(v) if k.endswith("_ns") and k != "env_ns" and isinstance(v, int) else moved(v)
                for k, v in value.items()
            }
        return [moved(v) for v in value] if isinstance(value, list) else value

    def apply(run: Path) -> None:
        for name in ("events", "spans", "rollouts", "updates", "evals"):
            lines(name, lambda values: [moved(v) for v in values])(run)
        golden.edit_header(run, lambda h: h.update(moved(h)))

    return apply


def halve_all_times(run: Path) -> None:
    timed(lambda t: t // 2)(run)
    lines("rollouts", lambda v: [x | {"env_ns": x["env_ns"] // 2} for x in v])(run)
    golden.edit_header(
        run, lambda h: h["clock"].update(wall_stop_utc=golden.WALL + h["clock"]["monotonic_stop_ns"] / 1e9)
    )


def move_start(run: Path) -> None:
    def change(events: Lines) -> Lines:
        start = next(e for e in events if e["key"] == "run_start")
        stop = next(e for e in events if e["key"] == "run_stop")
        start["t_ns"] = stop["t_ns"] - 1
        return sorted(events, key=lambda e: e["t_ns"])

    lines("events", change)(run)


def stretch_to_the_next_pass(run: Path) -> None:
    """Every sampling pass goes on until the device's next span: busy time grows, nothing overlaps."""

    def change(spans: Lines) -> None:
        ordered = sorted(spans, key=lambda s: s["t0_ns"])
        for span, after in pairwise(ordered):
            if span["role"] in ("prefill", "decode") and span["arm"] == after["arm"]:
                span["t1_ns"] = after["t0_ns"]

    lines("spans", change)(run)


def stretch_prefills(run: Path) -> None:
    """As above, but only passes in which no turn ends, and short of touching the next."""

    def change(spans: Lines) -> None:
        ordered = sorted(spans, key=lambda s: s["t0_ns"])
        for span, after in pairwise(ordered):
            if span["role"] == "prefill":
                span["t1_ns"] = after["t0_ns"] - 500

    lines("spans", change)(run)


def idle_filled(run: Path) -> None:
    """Invents passes where the device waited for environments."""

    def change(spans: Lines) -> Lines:
        made = [
            s | {"t0_ns": s["t1_ns"] + golden.MS // 2, "t1_ns": s["t1_ns"] + 2 * golden.MS, "real_tokens": 0}
            for s in spans
            if s["role"] == "decode"
        ]
        return spans + made

    lines("spans", change)(run)


def drop_second_device(run: Path) -> None:
    golden.edit_header(run, lambda h: h["devices"].pop())
    lines("spans", lambda spans: [s for s in spans if s["device"] == "cpu:0"])(run)


def reference_answers(run: Path) -> None:
    """Wrong transcripts of training and evaluation give way to those that the reference solution makes."""

    def change(values: Lines) -> None:
        for own in values:
            if own["reward"] == 1.0:
                continue
            t, version = own["turns"][1]["t0_ns"] - golden.MS, own["turns"][1]["policy_version"][0]
            place = {"good": True, "t": t, "version": version, "sample": own.get("sample_index", 0)}
            played = golden.play(own["env_id"], own["split"], own["env_seed"], own["item_index"], **place)
            own.update(played)
            if "completion_tokens" in own:
                counts = [len(turn["token_ids"]) for turn in own["turns"] if turn["role"] == "policy"]
                read = sum(len(turn["token_ids"]) for turn in own["turns"]) - sum(counts)
                own.update(completion_tokens=sum(counts), prompt_tokens=read)

    every(lines("rollouts", change), lines("evals", change))(run)


def seed_copied(run: Path) -> None:
    """What the first seed sampled is put in place of the second's, under the second's names."""

    def change(values: Lines) -> None:
        first = {
            (v["arm"], v["tenant"], v["ordinal"], v["sample_index"]): v for v in values if v["seed"] == 7
        }
        for own in values:
            if own["seed"] == 8:
                same = first[own["arm"], own["tenant"], own["ordinal"], own["sample_index"]]
                own.update({k: same[k] for k in ("env_seed", "item_uid", "turns", "reward", "grade_status")})

    lines("rollouts", change)(run)


def train_on_evaluated(run: Path) -> None:
    item = json.loads((run / "evals.jsonl").read_text(encoding="utf-8").splitlines()[0])
    keys = ("env_id", "split", "env_seed", "item_index", "item_uid", "turns")
    line("rollouts", 0, **{key: item[key] for key in keys})(run)


def fewer_updates(run: Path) -> None:
    """A1 skips its last update, and says so consistently."""

    def unfinished(v: dict[str, Any], key: str) -> bool:
        return v["arm"] == "A1" and v[key] == golden.UPDATES - 1

    lines("updates", lambda values: [u for u in values if not unfinished(u, "update_id")])(run)
    lines("rollouts", lambda values: [r for r in values if not unfinished(r, "consumed_in")])(run)


def slow_environments(run: Path) -> None:
    """S1's tools sleep for a third longer than their simulated latency."""

    def change(values: Lines) -> None:
        for own in values:
            if own["arm"] == "S1" and len(own["turns"]) > 3:
                own["turns"][2]["t1_ns"] += golden.MS

    lines("rollouts", change)(run)


def same_time_for_all_seeds(run: Path) -> None:
    def change(updates: Lines) -> None:
        starts = {7: {"S1": None, "A1": None}, 8: {"S1": None, "A1": None}}
        for own in updates:
            base = starts[own["seed"]][own["arm"]] = starts[own["seed"]][own["arm"]] or own["t0_ns"]
            if own["update_id"] == 1:
                length = 291 if own["arm"] == "S1" else 191
                own.update(t1_ns=base + (length + 50) * golden.MS, published_ns=base + 400 * golden.MS)

    lines("updates", change)(run)


def swap_arms_devices(run: Path) -> None:
    golden.edit_header(run, lambda h: h["devices"].append({"id": "cpu:1", "kind": "cpu"}))
    lines("spans", lambda v: [s | {"device": "cpu:1"} if s["arm"] == "S1" else s for s in v])(run)


def a_day_later(run: Path) -> None:
    stop = json.loads((run / "run.json").read_text())["runs"][0]["t_stop_ns"]
    day = 86_400 * 10**9
    timed(lambda t: t + day if t > stop + 500 * golden.MS else t)(run)
    golden.edit_header(run, lambda h: h["clock"].update(wall_stop_utc=h["clock"]["wall_stop_utc"] + 86_400))


def compile_cache_for_one_arm(run: Path) -> None:
    def change(events: Lines) -> Lines:
        made = []
        for event in events:
            made.append(event)
            if event["key"] == "run_start":
                value = {"fun_name": "decode", "seconds": 1.0, "cached": event["arm"] == "A1"}
                made.append(event | {"key": "compile", "value": value})
            if event["key"] == "run_stop" and event["arm"] == "S1":
                event["value"]["recompiles"] = {"decode": 1}
        return made

    lines("events", change)(run)
    golden.edit_header(run, lambda h: h["runs"][0].update(recompiles_after_warmup=1))


def generation_after_the_clock(run: Path) -> None:
    def change(spans: Lines) -> Lines:
        last = max((s for s in spans if s["role"] == "decode"), key=lambda s: s["t0_ns"])
        shift = 400 * golden.MS
        return [*spans, last | {"t0_ns": last["t0_ns"] + shift, "t1_ns": last["t1_ns"] + shift}]

    lines("spans", change)(run)


def more_evaluations(run: Path) -> None:
    lines("evals", lambda v: v + [x | {"eval_id": 2, "version": 1, "samples": 4} for x in v if x["eval_id"]])(
        run
    )


def skip_first_evaluation(run: Path) -> None:
    lines("evals", lambda v: [x for x in v if x["eval_id"]])(run)


def best_of_two(run: Path) -> None:
    lines("evals", lambda v: [*v, next(x for x in v if x["reward"] == 1.0)])(run)


def wrong_split(run: Path) -> None:
    lines("evals", lambda v: v + [x | {"split": "test", "item_index": 99} for x in v])(run)


def link(run: Path) -> None:
    (run / "adapters" / "x.safetensors").symlink_to("/etc/passwd")


def deep(run: Path) -> None:
    (run / "system.json").write_text("[" * 100 + "]" * 100, encoding="utf-8")


Able = Literal["plain", "hashes", "figures"]


@dataclass(frozen=True, slots=True)
class Case:
    """What is changed, how much the cheat recomputes, and the codes of which all are found."""

    change: Callable[[Path], object]
    able: Able
    codes: set[str]
    seeds: tuple[int, ...] = (7,)
    devices: tuple[str, ...] = ("cpu:0",)


P, H, F = "plain", "hashes", "figures"
TWO = (7, 8)

CORPUS: dict[str, Case] = {
    "1 a metric edited": Case(figure(t_work=0.1), P, {"E111", "E142"}),
    "1 a speed-up edited": Case(
        header(lambda h: h["results"]["comparison"]["arms"]["A1"].update(speedup=9.0)), P, {"E111", "E172"}
    ),
    "2 a metric edited and sealed": Case(figure(util_useful=0.99), H, {"E142"}),
    "2 an accuracy edited and sealed": Case(
        header(lambda h: h["results"]["runs"][0]["metrics"]["accuracy"]["math"]["after"].update(accuracy=1.01)),
        H,
        {"E164"},
    ),
    "2 a speed-up edited and sealed": Case(
        header(lambda h: h["results"]["comparison"]["arms"]["A1"].update(speedup=9.0)), H, {"E172"}
    ),
    "2 a tracker row edited and sealed": Case(
        lines("metrics", lambda rows: rows[0].update({"train/loss": -1.0})), H, {"E142"}
    ),
    "2 a tracker row left out": Case(lines("metrics", lambda rows: rows[1:]), H, {"E142"}),
    "3 events cut in a line": Case(bytes_of("events.jsonl", lambda b: b[:-20]), P, {"E111", "E102"}),
    "3 the last event dropped": Case(lines("events", lambda v: v[:-1]), P, {"E111", "E112"}),
    "3 events in another order": Case(lines("events", lambda v: [v[1], v[0], *v[2:]]), P, {"E111", "E112"}),
    "4 run_start just before run_stop": Case(move_start, F, {"E132"}),
    "5† all times halved, the wall clock too": Case(halve_all_times, F, {"E131"}),
    "5† all times halved, but not the wall clock": Case(timed(lambda t: t // 2), F, {"E131"}),
    "6 the clock stood still for a minute": Case(
        header(lambda h: h["clock"].update(wall_stop_utc=h["clock"]["wall_stop_utc"] + 60)), F, {"E131"}
    ),
    "7 a device's spans deleted": Case(drop_second_device, H, {"E141", "E142"}, devices=("cpu:0", "cpu:1")),
    "7 a device's spans deleted, figures recomputed": Case(
        drop_second_device, F, {"E141"}, devices=("cpu:0", "cpu:1")
    ),
    "8 spans twice": Case(lines("spans", lambda v: v + v[:4]), F, {"E141"}),
    "8 a span past the window": Case(line("spans", -1, t1_ns=10**13), F, {"E141"}),
    "8 spans stretched up to the next pass": Case(stretch_to_the_next_pass, F, {"E141"}),
    "8 passes without a turn's end stretched": Case(stretch_prefills, F, {"E141"}),
    "8 spans invented while the device waited": Case(idle_filled, F, {"E141"}),
    "9 fewer devices than spans show": Case(
        header(lambda h: h["devices"].pop()), F, {"E141"}, devices=("cpu:0", "cpu:1")
    ),
    "10 utilization above 1": Case(figure(util_busy=1.5), H, {"E142"}),
    "10 negative utilization": Case(figure(util_busy=-0.1), H, {"E142"}),
    "10 utilization as text": Case(figure(util_busy="0.95"), H, {"E142"}),
    "10 utilization not a number": Case(
        bytes_of("run.json", lambda b: b.replace(b'"util_busy":', b'"util_busy":NaN,"x":', 1)), P, {"E102"}
    ),
    "11 rewards flipped": Case(
        lines("rollouts", lambda v: [x | {"reward": 1.0, "grade_status": "correct"} for x in v]), F, {"E161"}
    ),
    "12 an evaluation's score flipped in the summary": Case(
        header(lambda h: h["results"]["runs"][0]["metrics"]["accuracy"]["code"]["before"].update(accuracy=1.0)),
        H,
        {"E164"},
    ),
    "13† wrong transcripts replaced by the reference": Case(reference_answers, F, {"E166"}),
    "14 failed items dropped": Case(lines("evals", lambda v: [x for x in v if x["reward"]]), F, {"E164"}),
    "15 wrong items called errored": Case(
        lines("evals", lambda v: [x if x["reward"] else x | {"error": "timeout"} for x in v]), F, {"E164"}
    ),
    "16 the better of two attempts": Case(best_of_two, F, {"E164"}),
    "17 one seed's transcripts under another": Case(seed_copied, F, {"E165"}, seeds=TWO),
    "19 trained on evaluated items": Case(train_on_evaluated, F, {"E162"}),
    "20 an easier verifier": Case(
        header(lambda h: h["tasks"]["Math/Add-v0"].update(grader_hash="0" * 64)), F, {"E121"}
    ),
    "21 other task data under the same id": Case(
        header(lambda h: h["tasks"]["Search/Lookup-v0"].update(grader_hash="1" * 64, version="9")), F, {"E121"}
    ),
    "21 another prompt under the same id": Case(
        lines("rollouts", lambda v: v[0]["turns"][0].update(text="1+1=?", token_ids=list(b"1+1=?"))),
        F,
        {"E162"},
    ),
    "22 a lower target": Case(
        header(lambda h: h["results"]["comparison"].update(target=0.1)), H, {"E172"}
    ),
    "23 evaluated more often": Case(more_evaluations, F, {"E134"}),
    "24 the first evaluation skipped": Case(skip_first_evaluation, F, {"E134"}),
    "24 an evaluation moved to fewer samples": Case(
        lines("evals", lambda v: [x | {"samples": x["samples"] // 2} for x in v]), F, {"E134"}
    ),
    "25 cherry-picked seeds": Case(header(lambda h: h["config"].update(seed=99)), F, {"E123"}),
    "26 the slowest run dropped": Case(header(lambda h: h["runs"].pop()), F, {"E123"}, seeds=TWO),
    "27 the asynchronous arm made fewer updates": Case(fewer_updates, F, {"E155"}),
    "27 a shorter cap in one arm": Case(
        header(lambda h: h["sampling"]["train"].update(max_new_tokens=3)), F, {"E122"}
    ),
    "28† the baseline's environments slowed": Case(slow_environments, F, {"E155"}),
    "29 arms on different devices": Case(swap_arms_devices, F, {"E171"}),
    "30 arms of different days": Case(a_day_later, F, {"E171"}),
    "31 a learning rate of 0 in an arm": Case(
        lines("updates", lambda v: [x | {"learning_rate": 0.0} if x["arm"] == "A1" else x for x in v]),
        F,
        {"E154"},
    ),
    "32 stale beyond the limit, relabelled": Case(
        lines("rollouts", lambda v: [x | {"oldest_version": x["consumed_in"], "staleness": 0} for x in v]),
        F,
        {"E153"},
    ),
    "33 consumed before it ended": Case(
        lines("rollouts", lambda v: v[0].update(t_end_ns=v[0]["t_end_ns"] + 200 * golden.MS)), F, {"E152"}
    ),
    "34 consumed twice": Case(
        lines("rollouts", lambda v: [*v, v[0] | {"rollout_id": "again"}]), F, {"E151", "E152"}
    ),
    "35 a token more in the ledger": Case(
        header(lambda h: h["runs"][0]["ledger"]["math"]["tokens"].update(consumed=1)), F, {"E151"}
    ),
    "36 a warm compile cache for one arm": Case(compile_cache_for_one_arm, F, {"E133"}),
    "37 a warm prefix cache for one arm": Case(
        lines(
            "spans",
            lambda v: [x | {"real_tokens": 5} if (x["arm"], x["role"]) == ("A1", "prefill") else x for x in v],
        ),
        F,
        {"E122"},
    ),
    "38 sampling after the clock stopped": Case(generation_after_the_clock, F, {"E141"}),
    "39 time limits of the grader doubled": Case(
        header(lambda h: h["tasks"]["Code/Predict-v0"].update(grader_hash="2" * 64)), F, {"E121"}
    ),
    "40 a limited run called official": Case(
        header(lambda h: (h["config"].update(limit=2), h.update(official=True))), F, {"E122"}
    ),
    "41 another split with extra predictions": Case(wrong_split, F, {"E164"}),
    "43 a path that climbs out": Case(
        bytes_of("manifest.json", lambda b: b.replace(b'"path":"run.json"', b'"path":"../run.json"')), P, {"E102"}
    ),
    "43 a link": Case(link, P, {"E101"}),
    "43 deep JSON": Case(deep, H, {"E102"}),
    "43 a key twice": Case(
        bytes_of("system.json", lambda b: b'{"cores":2,"cores":64}\n'), H, {"E102"}
    ),
    "43 a byte-order mark": Case(bytes_of("run.json", lambda b: b"\xef\xbb\xbf" + b), P, {"E102"}),
    "43 CR LF": Case(bytes_of("updates.jsonl", lambda b: b.replace(b"\n", b"\r\n")), P, {"E102"}),
    "43 a huge number": Case(bytes_of("system.json", lambda b: b'{"cores":' + b"9" * 5000 + b"}"), H, {"E102"}),
    "45 a future schema": Case(header(lambda h: h.update(schema="bench.run/2")), P, {"E102"}),
    "45 an unknown task": Case(
        header(lambda h: h["tasks"].update({"Chess/Mate-v0": {"version": "1", "grader_hash": "0" * 64}})),
        F,
        {"E121"},
    ),
    "46 another version of the suite": Case(header(lambda h: h.update(suite_version="0.2")), F, {"E121"}),
    "47 parity called passed": Case(
        header(lambda h: h["results"]["comparison"].update(parity="pass")), H, {"E172"}
    ),
    "48 seeds without any variance": Case(same_time_for_all_seeds, F, {"E174"}, seeds=TWO),
    "49 faster than the device": Case(timed(lambda t: t // 10_000), F, {"E144"}),
}  # fmt: skip

ELSEWHERE = {
    18: "a copy under another name: tests/leaderboard/test_submit.py",
    42: "signatures: tests/leaderboard/test_signature.py",
    44: "markup, formulas, escapes and reordering text: tests/leaderboard/site and test_submit.py",
    50: "another adapter than the one that played: tests/bench/test_replay.py",
}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Case], Path]]:
    """Golden runs, each kind built once."""
    made: dict[tuple[object, ...], Path] = {}

    def get(case: Case) -> Path:
        key = (case.seeds, case.devices)
        if key not in made:
            folder = tmp_path_factory.mktemp("golden") / "run"
            made[key] = golden.build(folder, seeds=case.seeds, devices=case.devices)
        return made[key]

    yield get


def test_all_fifty_cases_are_held() -> None:
    numbers = {int(name.split()[0].rstrip("†")) for name in CORPUS} | ELSEWHERE.keys()
    assert numbers == set(range(1, 51))


@pytest.mark.parametrize(
    "kind", [Case(print, P, set()), Case(print, P, set(), seeds=TWO, devices=("cpu:0", "cpu:1"))]
)
def test_what_the_corpus_changes_passes_untouched(build: Callable[[Case], Path], kind: Case) -> None:
    report = verify(build(kind))
    assert report.ok, report.findings
    assert report.counts.keys() <= {"W203"}


@pytest.mark.parametrize("name", CORPUS)
def test_a_cheat_is_refused_with_its_code(build: Callable[[Case], Path], tmp_path: Path, name: str) -> None:
    case = CORPUS[name]
    run = Path(shutil.copytree(build(case), tmp_path / "run"))
    case.change(run)
    if case.able == "hashes":
        golden.reseal(run)
    elif case.able == "figures":
        golden.recompute(run)
    report = verify(run)
    found = report.counts.keys() if "†" in name else set(report.codes)
    assert case.codes <= found, f"{sorted(found)}: {[str(f) for f in report.findings][:8]}"
    # nobody who recomputes everything is caught by what he recomputed
    recomputed = {"plain": set(), "hashes": {"E111", "E112"}, "figures": {"E111", "E112", "E142", "E172"}}
    assert not set(report.codes) & recomputed[case.able]
    for finding in report.findings:
        assert finding.place and finding.reason
