from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config import ARMS, RunConfig, resolve
from bench.errors import UsageError
from bench.plan import limited
from tunix_core import schedule


def resolved(*sets: str, env: dict[str, str] | None = None, file: Path | None = None, **flags: Any) -> Any:
    return resolve(file, env or {}, sets, flags)


def refusal(*sets: str, **more: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolved(*sets, **more)
    assert refused.value.exit_code == 2
    return f"{refused.value} | {refused.value.hint}"


def test_later_layers_win_and_every_value_knows_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("updates = 1\nseeds = 1\neval_items = 1\nlora_rank = 1\n")
    env = {"BENCH_SEEDS": "2", "BENCH_EVAL_ITEMS": "2", "BENCH_LORA_RANK": "2"}
    found = resolved("eval_items=3", "lora_rank=3", env=env, file=file, lora_rank=4, slots=None)
    config = found.config
    assert (config.updates, config.seeds, config.eval_items, config.lora_rank) == (1, 2, 3, 4)
    assert found.set_by == {
        "updates": "file mine.toml",
        "seeds": "environment BENCH_SEEDS",
        "eval_items": "--set",
        "lora_rank": "--lora-rank",
    }
    assert config.slots == RunConfig().slots


def test_the_defaults_are_the_environments_own_latency_and_one_tenant_per_task() -> None:
    config = RunConfig()
    assert (config.latency, config.tenants, config.arms) == ("none", None, ["S1", "A1"])
    assert config.tasks == ["math", "code", "search"]


def test_lists_may_be_given_as_text_or_as_toml() -> None:
    assert resolved("arms=S0, A1").config.arms == ["S0", "A1"]
    assert resolved('arms=["S0","A1"]').config.arms == ["S0", "A1"]
    assert resolved(tasks="math,Code/Predict-v0").config.tasks == ["math", "Code/Predict-v0"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("taks=math", "unknown key 'taks' (--set) | did you mean 'tasks'?"),
        ("zzz=1", "unknown key 'zzz' (--set) | 'bench config show' lists the keys"),
        ("updates", "--set 'updates' is not of the form key=value"),
        ("tenants=0", "tenants = 0 (--set): input should be greater than or equal to 1"),
        ("tenants=-3", "tenants = -3 (--set)"),
        ("temperature=0", "temperature = 0 (--set): input should be greater than 0"),
        ("temperature=nan", "temperature"),
        ("learning_rate=inf", "learning_rate = inf (--set): input should be a finite number"),
        ("learning_rate=-1", "learning_rate = -1"),
        ("max_staleness=0", "max_staleness = 0"),
        ("arms=S9", "Did you mean 'S"),
        ("arms=a1", "arm 'a1' not found. Did you mean 'A1'?"),
        ("arms=S1,S1", "an arm is named twice"),
        ("tasks=", "tasks = [] (--set): list should have at least 1 item"),
        ("seeds=many", "seeds = 'many' (--set): input should be a valid integer"),
        ("loss=ppo", "loss = 'ppo' (--set): input should be 'decoupled_ppo', 'ppo_clip'"),
        ("limit=0", "limit = 0"),
    ],
)
def test_what_cannot_work_is_refused_with_key_origin_and_remedy(setting: str, said: str) -> None:
    assert said in refusal(setting)


@pytest.mark.parametrize(
    "setting",
    [
        *("updates=999999999999999999999", "group_size=1000000000", "lora_rank=1000000", "slots=100000000"),
        *("env_workers=1000000", "eval_items=100000000", "learning_rate=1e300", "lora_alpha=1e30"),
        *("temperature=1e9", "updates=true", "learning_rate=true", "updates=3.0"),
    ],
)
def test_what_no_machine_can_do_and_what_is_no_number_is_refused_before_anything_is_built(
    setting: str,
) -> None:
    assert setting.split("=")[0] in refusal(setting)


def test_a_key_set_twice_under_two_spellings_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("group_size = 4\ngroup-size = 8\n")
    assert f"group_size is set twice (file {file})" in refusal(file=file)


def test_a_table_in_a_file_is_told_where_its_keys_belong(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[run]\nupdates = 3\n")
    assert "keys stand at the top level of the file, under no [run]" in refusal(file=file)


def test_a_file_may_begin_with_a_byte_order_mark_and_not_nest_without_end(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xef\xbb\xbfupdates = 3\n")
    assert resolved(file=file).config.updates == 3
    file.write_text("updates = " + "[" * 5000)
    assert "nested too deep" in refusal(file=file)


def test_a_mistyped_variable_is_refused_and_a_stranger_ignored() -> None:
    assert "environment BENCH_UPDATE" in refusal(env={"BENCH_UPDATE": "3"})
    assert resolved(env={"BENCH_DATA_DIR": "/x", "BENCH_MARKET": "y"}).set_by == {}


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(file=tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("updates = [")
    assert f"--config {broken} is not TOML" in refusal(file=broken)
    broken.write_bytes(b"\xff\xfe")
    assert "is not TOML" in refusal(file=broken)


def test_the_arms_are_those_of_the_schedule() -> None:
    assert set(ARMS) == set(schedule.ARMS)


def test_every_setting_says_what_it_does() -> None:
    for name, field in RunConfig.model_fields.items():
        assert field.description and field.description.endswith("."), name


def test_limit_cuts_updates_and_items_and_nothing_else() -> None:
    config = limited(resolved("limit=2", "updates=20", "eval_items=128")).config
    assert (config.updates, config.eval_items, config.seeds) == (2, 16, 1)
    assert limited(resolved("limit=50", "updates=3")).config.updates == 3
    unlimited = resolved("updates=20")
    assert limited(unlimited) == unlimited


@given(st.text(max_size=40))
def test_no_setting_ends_in_anything_but_a_config_or_a_refusal(text: str) -> None:
    for item in (text, f"updates={text}", f"tasks={text}"):
        try:
            resolve(None, {}, [item], {})
        except UsageError as refused:
            assert str(refused)


def test_the_recipe_of_the_main_job_is_a_valid_config() -> None:
    recipe = Path(__file__).resolve().parents[2] / "recipes" / "main.toml"
    found = resolved(file=recipe)
    assert set(found.set_by) == set(tomllib.loads(recipe.read_text()))
