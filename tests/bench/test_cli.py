from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bench
from bench import compose
from bench.errors import Exit
from leaderboard.records import RunRecord
from tests.bench.conftest import Invoke
from tests.bench.fakes import ScriptedArms
from tunix_core.errors import AssetError

RUN = [
    *("run", "--tasks", "math,search", "--updates", "2", "--eval-items", "4", "--tracker", "none", "--quiet"),
    *("--set", "group_size=2", "--set", "groups_per_update=2"),
]


def test_a_run_ends_with_its_table_and_its_place(invoke: Invoke, tmp_path: Path) -> None:
    code, out, err = invoke(*RUN, "--out", "r")
    assert (code, err) == (0, "")
    assert "S1" in out and "A1" in out and out.rstrip().endswith("record: r")
    assert RunRecord.open(tmp_path / "r").header.set_by["updates"] == "--updates"


def test_without_out_a_run_names_its_own_folder(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke(*RUN)[0] == 0
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name == RunRecord.open(made).header.run_id


def test_json_is_one_document_on_stdout(invoke: Invoke) -> None:
    code, out, _ = invoke(*RUN, "--out", "r", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["schema"] == "bench.result/1"
    assert (document["ok"], document["status"], document["run"]) == (True, "success", "r")


def test_the_product_runs_from_one_end_to_the_other(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke(*RUN, "--out", "r", "--seeds", "2")[0] == 0
    code, out, err = invoke("compare", "r")
    assert code == 0 and "A1 against S1" in out, err
    code, out, _ = invoke("verify", "r")
    assert code == 0 and "verified" in out
    code, out, _ = invoke("submit", "r", "--to", "board", "--name", "Mine", "--author", "Me")
    assert code == 0 and "written: board/submissions/mine-" in out
    code, out, _ = invoke("submit", "r", "--to", "board", "--name", "Mine", "--author", "Me")
    assert code == 0 and "unchanged" in out
    code, out, _ = invoke("leaderboard", "show", "--data", "board")
    assert code == 0 and out.startswith("mine-")
    code, out, _ = invoke("leaderboard", "build", "--data", "board", "--out", "site")
    assert code == 0 and (tmp_path / "site" / "index.html").is_file()
    code, out, _ = invoke("report", "r")
    assert code == 0 and (tmp_path / "r.html").is_file()


def test_a_flipped_reward_is_rejected_with_its_code(invoke: Invoke, tmp_path: Path) -> None:
    invoke(*RUN, "--out", "r")
    path = tmp_path / "r" / "rollouts.jsonl"
    path.write_text(path.read_text().replace('"reward":1.0', '"reward":0.0', 1))
    code, out, _ = invoke("verify", "r", "--json")
    assert code == 3
    assert {f["code"] for f in json.loads(out)["reports"][0]["findings"]} >= {"E111", "E161"}
    code, _, _ = invoke("submit", "r", "--to", "board")
    assert code == 3
    assert not (tmp_path / "board" / "submissions").exists()


def test_thresholds_have_exit_codes_of_their_own(invoke: Invoke) -> None:
    invoke(*RUN, "--out", "r", "--seeds", "2")
    code, out, err = invoke("compare", "r", "--fail-below", "1.01", "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    code, out, err = invoke("compare", "r", "--fail-below", "99", "--json")
    assert (code, json.loads(out)["ok"]) == (5, False)
    assert "error: --fail-below 99: the speed-up is 1." in err
    code, out, err = invoke("compare", "r", "--fail-below", "99", "--require-parity", "--json")
    assert code == 4 and [said.partition(":")[0] for said in json.loads(out)["missed"]] == [
        "--require-parity",
        "--fail-below 99",
    ]
    assert err.count("error: ") == 2


def test_what_a_record_is_refused_for_is_said_wherever_it_is_shown(invoke: Invoke, tmp_path: Path) -> None:
    """The page shows times, and no ratio of them; tables are written as they are; stderr says so both times."""
    invoke(*RUN, "--out", "r")
    (tmp_path / "r" / "rollouts.jsonl").write_text("")
    code, _, err = invoke("compare", "r")
    assert code == 3 and "r is not the record that was sealed: E111 rollouts.jsonl: bytes is 0" in err
    code, out, err = invoke("report", "r", "--format", "md", "--json")
    (remark,) = json.loads(out)["remarks"]
    assert code == 0 and "r is not the record that was sealed: E111" in remark and remark in err
    assert "1.88×" not in (tmp_path / "r.md").read_text()
    code, out, err = invoke("export", "csv", "r", "--json")
    assert code == 0 and json.loads(out)["sealed"] is False and "exported as it is: E111" in err


@pytest.mark.parametrize(
    "command", ["compare", "report", "resume", "export csv", "export wandb", "export peft"]
)
def test_what_is_no_run_directory_is_a_usage_error_everywhere(
    invoke: Invoke, tmp_path: Path, command: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").write_text("<title>Run x</title>")
    for place in ("empty", "page.html", "nowhere"):
        code, _, err = invoke(*command.split(), place)
        assert code == 2 and place in err and "internal" not in err


def test_strict_refuses_warnings_too(invoke: Invoke) -> None:
    invoke(*RUN, "--out", "r")
    assert invoke("verify", "r")[0] == 0
    assert invoke("verify", "r", "--strict")[0] == 3


BAD = {
    "unknown task": (("--tasks", "math,serch"), 2, "Task 'serch' not found. Did you mean 'search'"),
    "unknown arm": (("--arms", "S1,B1"), 2, "arm 'B1' not found"),
    "no tenants": (("--tenants", "0"), 2, "tenants = 0 (--tenants)"),
    "unknown key": (("--set", "taks=math"), 2, "unknown key 'taks'"),
    "greedy training": (("--set", "temperature=0"), 2, "temperature = 0"),
    "malformed latency": (("--latency", "lognormal:median=x"), 2, "Latency profile 'lognormal:median=x'"),
    "unknown option": (("--tasts", "math"), 2, "No such option: --tasts"),
    "not a number": (("--updates", "few"), 2, "Invalid value for '--updates'"),
    "out is a file": (("--out", "file"), 2, "--out file is a file"),
    "out below a file": (("--out", "file/run"), 2, "--out file/run cannot be written"),
    "out is in use": (("--out", "used"), 2, "--out used is not empty"),
    "no such config": (("--config", "none.toml"), 2, "--config none.toml cannot be read"),
    "no data": (("--tasks", "gsm8k"), 6, "Data set 'gsm8k' not found"),
    "no model": (("--set", "model=llama"), 6, "model 'llama'"),
}


@pytest.mark.parametrize(("flags", "code", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_a_code_and_no_trace(
    invoke: Invoke, tmp_path: Path, flags: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").write_text("mine")
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))
    given = [part for part in RUN if part not in ("--tasks", "math,search")] if "--tasks" in flags else RUN
    got, out, err = invoke(*given, *flags)
    assert (got, out) == (code, "")
    assert err.startswith("error: ") and said in err and err.count("\n") == 1
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before

    got, out, err = invoke(*given, *flags, "--json")
    document = json.loads(out)
    assert (got, document["schema"], document["ok"]) == (code, "bench.error/1", False)
    assert document["error"]["exit_code"] == code and said in document["error"]["message"]


def test_an_altered_model_file_is_named_before_anything_is_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered(*given: Any) -> Any:
        raise AssetError("model 'embedded': weights has been altered; reinstall the package")

    monkeypatch.setattr("tunix_core.model.load.check_asset", altered)
    code, _, err = invoke(*RUN, "--out", "r")
    assert code == 6 and "has been altered" in err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("compair", "r"), "No such command 'compair'"),
        (("compare", "nowhere"), "nowhere"),
        (("verify", "nowhere"), "run directory nowhere not found"),
        (("verify",), "nothing to verify"),
        (("verify", "--explain", "E999"), "code 'E999' not found"),
        (("submit", "nowhere"), "run directory nowhere not found"),
        (("report", "nowhere"), "run directory nowhere not found"),
        (("leaderboard", "build", "--data", "nowhere"), "board folder nowhere not found"),
        (("leaderboard", "serve", "--out", "nowhere"), "nowhere holds no site"),
        (("tasks", "show", "maths"), "Did you mean 'math'"),
        (("tasks", "list", "Chess/*"), "no task matches"),
    ],
)
def test_commands_on_what_is_not_there_are_usage_errors(
    invoke: Invoke, argv: tuple[str, ...], said: str
) -> None:
    code, out, err = invoke(*argv)
    assert (code, out) == (2, "")
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 7), (signal.SIGTERM, 7)])
def test_a_signal_ends_in_a_readable_record(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    def before(arm: str, seed: int, update: int) -> None:
        if (arm, update) == ("A1", 1):
            signal.raise_signal(number)

    monkeypatch.setattr(compose, "run_arm", ScriptedArms(before_update=before))
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    got, out, err = invoke(*RUN, "--out", "r")
    assert got == code
    assert err == f"interrupted: stopped by {number.name} during A1 seed 0; 'bench resume r' goes on\n"
    assert "record: r" in out
    assert RunRecord.open(tmp_path / "r").header.status == "interrupted"
    assert invoke("verify", "r")[0] == 3
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_an_interrupt_before_anything_is_saved_is_130(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(config: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("bench.commands.run.prepare", interrupted)
    code, out, err = invoke(*RUN, "--out", "r")
    assert (code, out, err) == (130, "", "error: interrupted\n")
    assert not (tmp_path / "r").exists()


def test_a_defect_is_one_line_unless_debug_asks_for_more(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(arm: str, seed: int, update: int) -> None:
        raise ZeroDivisionError("scripted")

    monkeypatch.setattr(compose, "run_arm", ScriptedArms(before_update=broken))
    code, _, err = invoke(*RUN, "--out", "r")
    assert code == 1
    assert "Traceback" not in err and "internal error: ZeroDivisionError: scripted" in err
    code, _, err = invoke("--debug", *RUN, "--out", "r2")
    assert "Traceback" in err


def test_a_failed_run_says_why_and_is_no_success(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "run_arm", ScriptedArms(all_errored=True))
    code, out, err = invoke(*RUN, "--out", "r", "--json")
    assert code == 1
    assert "all of them errored" in err
    assert (json.loads(out)["ok"], json.loads(out)["status"]) == (False, "error")


def test_a_dry_run_shows_the_plan_and_writes_nothing(invoke: Invoke, tmp_path: Path) -> None:
    dry = ("--out", "r", "--dry-run", "--json", "--limit", "1")
    code, out, _ = invoke(*RUN, "--seeds", "2", "--no-aa", *dry)
    plan = json.loads(out)
    assert (code, plan["schema"]) == (0, "bench.plan/1")
    assert plan["order"] == [["S1", 0], ["A1", 0], ["A1", 1], ["S1", 1]]
    assert plan["seeds"] == {"0": {"math": 0, "search": 1}, "1": {"math": 2, "search": 3}}
    # 4 runs, 2 tenants: 1 update of 2 groups of 2, and 2 evaluations of 4 items
    assert (plan["rollouts"], plan["evaluated_items"]) == (4 * 2 * 4, 4 * 2 * 2 * 4)
    assert plan["limit_applied"] is True
    assert list(tmp_path.iterdir()) == []
    assert "order" in invoke(*RUN, "--dry-run")[1]
    pair = json.loads(invoke(*RUN, "--seeds", "2", *dry)[1])
    assert pair["order"][:3] == [["S1", 0], ["A1", 0], ["S1-aa", 0]]
    assert "S1 again" in pair["arms"]["S1-aa"]


def test_limit_marks_the_record_and_the_table(invoke: Invoke, tmp_path: Path) -> None:
    code, out, _ = invoke(*RUN, "--limit", "1", "--out", "r")
    header = RunRecord.open(tmp_path / "r").header
    assert code == 0
    assert header.limit_applied and header.config["updates"] == 1
    assert "limit" in out.lower()


def test_settings_are_shown_with_their_origins_and_can_be_saved(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_SEEDS", "3")
    code, out, _ = invoke("config", "show", "--set", "updates=7")
    assert code == 0
    assert "# environment BENCH_SEEDS" in out and "# --set" in out
    (tmp_path / "saved.toml").write_text(out)
    monkeypatch.delenv("BENCH_SEEDS")
    code, out, _ = invoke("config", "show", "--config", "saved.toml", "--json")
    document = json.loads(out)
    assert (document["config"]["updates"], document["config"]["seeds"]) == (7, 3)
    assert document["set_by"]["updates"] == "file saved.toml"


def test_tasks_are_listed_by_id_and_short_name(invoke: Invoke) -> None:
    code, out, _ = invoke("tasks", "list", "--json")
    ids = [card["id"] for card in json.loads(out)["tasks"]]
    assert code == 0 and {"Math/Add-v0", "Code/Predict-v0", "Search/Lookup-v0"} <= set(ids)
    assert "Math/Add-v0" in invoke("tasks", "list", "math")[1]


def test_a_card_is_known_without_its_data(invoke: Invoke) -> None:
    code, out, _ = invoke("tasks", "show", "gsm8k")
    assert code == 0 and "not here" in out
    code, out, _ = invoke("tasks", "show", "math", "--json")
    assert json.loads(out)["measured"]["2"]["oracle"] == 1.0


def test_version_and_help_are_on_stdout(invoke: Invoke) -> None:
    assert invoke("--version")[:2] == (0, f"bench {bench.__version__}\n")
    code, out, err = invoke("--help")
    assert (code, err) == (0, "") and "compare" in out
    assert invoke()[0] == Exit.USAGE


def test_a_reader_that_goes_away_ends_quietly() -> None:
    bench = [sys.executable, "-m", "bench", "tasks", "list", "--json"]
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(bench, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    _, err = process.stderr.read(), process.wait(60)
    assert b"Traceback" not in _
    process.stderr.close()
    assert err == Exit.FAILED


def test_a_password_in_a_url_reaches_no_tracker(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import trackers

    told: list[Any] = []
    opened = trackers.open_tracker
    monkeypatch.setattr(
        trackers,
        "open_tracker",
        lambda name, header, **given: told.append(header) or opened(name, header, **given),
    )
    assert invoke(*RUN, "--out", "r", "--data", "https://user:sekretpw@host/x")[0] == 0
    assert told[0]["config"]["data"] == "https://***@host/x"
    assert "sekretpw" not in json.dumps(told)


def test_a_first_interrupt_is_acknowledged_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    from bench.run import Stop

    stop = Stop()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked() and "stopping after this step" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "r", "--to", "file"),
        ("leaderboard", "build", "--data", "board", "--out", "file"),
        ("report", "r", "--out", "file"),
        ("report", "r", "--out", "missing/x.html"),
        ("run", "--out", "x" * 300, "--dry-run"),
        ("run", "--out", "/proc/x/y", "--dry-run"),
        ("compare", "r", "--fail-below", "nan"),
        ("warmstart", "--steps", "0", "--out", "w"),
        ("warmstart", "--out", "file"),
    ],
)
def test_paths_and_numbers_that_cannot_work_are_a_line_and_exit_2(
    invoke: Invoke, tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert invoke(*RUN, "--out", "r")[0] == 0
    (tmp_path / "file").write_text("mine")
    (tmp_path / "board").mkdir()
    code, out, err = invoke(*command)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and "internal" not in err
    assert (tmp_path / "file").read_text() == "mine"


def test_an_archive_is_submitted_and_compared_as_its_folder(invoke: Invoke, tmp_path: Path) -> None:
    from leaderboard.archive import pack

    assert invoke(*RUN, "--out", "r")[0] == 0
    pack(tmp_path / "r", tmp_path / "a.tar.gz")
    assert invoke("compare", "a.tar.gz")[1] == invoke("compare", "r")[1]
    code, out, _ = invoke("submit", "a.tar.gz", "--to", "board")
    assert code == 0 and "written: board/submissions/a-" in out


def test_signs_that_a_terminal_lacks_are_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from bench.output import result

    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    result("2.00×")
    assert raw.getvalue() == b"2.00\\xd7\n"


def test_a_new_task_is_one_file_that_validates(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gymnasium

    from tasks import registry

    monkeypatch.setenv(registry.FILES_VARIABLE, "")
    code, out, _ = invoke("env", "new", "CountVowels", "--out", str(tmp_path))
    assert code == 0
    file = tmp_path / "count_vowels.py"
    assert f"bench tasks validate {file}" in out
    code, out, _ = invoke("tasks", "validate", str(file), "--items", "50")
    assert (code, "My/CountVowels-v0: ok" in out) == (0, True)
    code, _, err = invoke("env", "new", "CountVowels", "--out", str(tmp_path))
    assert (code, "is there already" in err) == (2, True)
    code, _, err = invoke("env", "new", "count", "--out", str(tmp_path))
    assert (code, "letters and digits, a capital first" in err) == (2, True)
    gymnasium.registry.pop("My/CountVowels-v0", None)
    registry.specs.cache_clear()
