"""The functions of `bench` are its commands: same results, same refusals; and importing them costs nothing."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bench
from bench import cli, compose
from bench.errors import RejectedError, UsageError
from tests.bench.fakes import ScriptedArms
from tests.bench.test_cli import RUN

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "tasks": ["math", "search"],
    "updates": 2,
    "eval_items": 4,
    "tracker": "none",
    "group_size": 2,
    "groups_per_update": 2,
}


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compose, "run_arm", ScriptedArms())


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), flags=re.S)
    exec(compile(example, "docs/api.md", "exec"), {"__name__": "example"})
    said = capsys.readouterr().out
    assert "unknown key 'task' (--task) – did you mean 'tasks'?" in said
    assert "A1 against S1" in said and (tmp_path / "runs/api.html").is_file()


def test_a_run_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    made = bench.run("a", **SETTINGS)
    assert cli.invoke([*RUN, "--out", "b"]) == 0
    printed = capsys.readouterr().out
    assert str(bench.load("b")) in printed
    assert made.ok and str(made).splitlines()[0] == printed.splitlines()[0]
    assert "<pre>" in made._repr_html_() and "A1" in made._repr_html_()
    assert cli.invoke(["compare", "b", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = bench.compare("b")
    assert document["verdict"] == found.verdict and document["parity"] == found.parity.verdict
    assert document == json.loads(json.dumps(document | found.as_dict()))
    assert found._repr_html_() == f"<pre>{html.escape(found.text())}</pre>"
    assert bench.verify("b").ok


def test_errors_are_the_packages_own_with_the_commands_message(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as refused:
        bench.run("c", updates=0)
    assert cli.invoke(["run", "--updates", "0", "--out", "c"]) == 2
    assert str(refused.value) in capsys.readouterr().err
    for function in (bench.load, bench.compare, bench.report, bench.verify):
        with pytest.raises(UsageError, match="run directory nowhere not found"):
            function("nowhere")
    with pytest.raises(UsageError, match="nosuch"):
        bench.make("nosuch")
    with pytest.raises(UsageError, match="updates = None is no value"):
        bench.run("c", updates=None)
    bench.run("d", **SETTINGS)
    with Path("d/metrics.jsonl").open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(RejectedError, match="not the record that was sealed"):
        bench.compare("d")
    assert not bench.verify("d").ok
    Path("d/run.json").write_text("[]")
    with pytest.raises(RejectedError, match=r"run\.json"):
        bench.load("d")


def test_a_run_stands_for_its_folder_and_two_can_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = bench.run("one", **SETTINGS), bench.run("two", **SETTINGS)
    assert repr(one) == "<Run one: success, arms S1, A1, seeds [0]>"
    found = bench.compare(one, two, metric="t_total")
    assert cli.invoke(["compare", "one", "two", "--metric", "t_total"]) == 0
    assert str(found) == capsys.readouterr().out.rstrip("\n")
    assert repr(found).startswith("<Comparison of A1 with S1: A1 against S1, t_total: ")
    page = bench.report([one, two], "both.md")
    assert page == Path("both.md") and page.is_file()
    assert bench.verify(two).ok


def test_a_function_stays_one_when_its_submodule_is_imported() -> None:
    import bench.compare
    import bench.run

    assert callable(bench.run) and bench.run.Stop and bench.compare.Comparison
    with pytest.raises(UsageError):
        bench.run(arms=["S9"])  # type: ignore[operator]


def test_importing_bench_loads_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import bench\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert not new & {'jax', 'numpy', 'pydantic', 'typer', 'tasks', 'tunix_core', 'leaderboard'}, new"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
