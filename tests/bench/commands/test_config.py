from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from bench.commands.config import EXAMPLES, template
from bench.config import RunConfig, resolve
from tests.bench.conftest import Invoke


def test_a_new_file_changes_nothing_until_a_line_is_uncommented(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("config", "init")[0] == 0
    file = tmp_path / "bench.toml"
    assert resolve(file, {}, (), {}).set_by == {}
    file.write_text(file.read_text().replace("# updates = 20", "updates = 3"))
    assert resolve(file, {}, (), {}).config.updates == 3


def test_its_lines_are_all_keys_at_their_defaults() -> None:
    settings = dict(re.findall(r"^# ([a-z_]+) = (.+)$", template("x.toml"), flags=re.M))
    assert list(settings) == list(RunConfig.model_fields)
    values = tomllib.loads("\n".join(f"{key} = {text}" for key, text in settings.items()))
    unset = {key for key, field in RunConfig.model_fields.items() if field.get_default() is None}
    assert unset == set(EXAMPLES)
    kept = {key: value for key, value in values.items() if key not in unset}
    assert RunConfig(**kept) == RunConfig()
    for key in unset:
        RunConfig.model_validate({key: values[key]})


def test_what_is_shown_is_a_config_file(invoke: Invoke, tmp_path: Path) -> None:
    written = tmp_path / "written.toml"
    written.write_text('tasks = ["math", "code"]\ntargets = { math = 0.9, code = 0.5 }\n')
    code, shown, _ = invoke("config", "show", "--config", str(written))
    assert code == 0
    saved = tmp_path / "saved.toml"
    saved.write_text(shown)
    assert resolve(saved, {}, (), {}).config == resolve(written, {}, (), {}).config


def test_no_file_is_overwritten(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text("updates = 3\n")
    code, out, err = invoke("config", "init", "bench.toml")
    assert (code, out) == (2, "") and "is there already" in err
    assert file.read_text() == "updates = 3\n"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere.toml")
    assert invoke("config", "init", "bench.toml")[0] == 2
    assert not (tmp_path / "elsewhere.toml").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("run", "updates=10"), "--set updates=10"),
        (("run", "UPDATES=10"), "--set updates=10"),
        (("run", "BENCH_UPDATES=10"), "BENCH_UPDATES=10 before 'bench'"),
        (("run", "--set", "seeds=2", "updates=10"), "--set updates=10"),
        (("plan", "tenants=3"), "--set tenants=3"),
        (("tasks", "list", "math", "x=1"), "'bench tasks list --help' lists what there is"),
        (("config", "init", "c.yaml"), "for example bench.toml"),
        (("config", "init", "nowhere/c.toml"), "there is no folder nowhere"),
    ],
)
def test_what_was_meant_is_said(invoke: Invoke, argv: tuple[str, ...], said: str) -> None:
    code, out, err = invoke(*argv)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_a_variable_without_its_prefix_is_pointed_at_and_has_no_effect(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPDATES", "3")
    code, out, err = invoke("config", "show", "--json")
    assert code == 0 and "BENCH_UPDATES would be" in err
    document = json.loads(out)
    assert (document["config"]["updates"], document["set_by"]["updates"]) == (20, "default")
