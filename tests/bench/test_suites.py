from __future__ import annotations

import pytest

from bench.arms import labels, repeated, timetable
from bench.config import RunConfig, resolve, suite_info
from bench.errors import UsageError
from bench.suites import FREE, SUITES, find


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_is_a_layer_below_all_that_a_user_says(name: str) -> None:
    plain = resolve(None, {}, [], {"suite": name})
    assert plain.config.model_dump()["updates"] == SUITES[name].settings["updates"]
    assert plain.set_by["updates"] == f"suite {name}"
    said = resolve(None, {"BENCH_EVAL_ITEMS": "3"}, ["updates=1"], {"suite": name, "seeds": 2})
    assert (said.config.updates, said.config.eval_items, said.config.seeds) == (1, 3, 2)
    assert said.set_by["seeds"] == "--seeds"


def test_a_suite_can_be_named_wherever_a_key_can_be_set() -> None:
    assert resolve(None, {"BENCH_SUITE": "quick"}, [], {}).set_by["tasks"] == "suite quick"


def test_an_unknown_suite_is_a_usage_error_with_the_nearest_names() -> None:
    with pytest.raises(UsageError, match="suite 'quik' not found") as caught:
        resolve(None, {}, [], {"suite": "quik"})
    assert caught.value.hint == "did you mean 'quick'?"


def test_what_departs_from_the_suite_is_on_record_and_what_it_leaves_free_is_not() -> None:
    free = resolve(None, {}, ["lora_rank=8"], {"suite": "quick", "seeds": 2, "arms": "S1,A1", "aa": False})
    assert suite_info(free.config) == {"name": "quick", "version": 2, "changed": []}
    changed = resolve(None, {}, ["lora_rank=4", "updates=3"], {"suite": "quick"})
    assert suite_info(changed.config) == {"name": "quick", "version": 2, "changed": ["lora_rank", "updates"]}
    assert suite_info(resolve(None, {}, [], {}).config) is None


def test_a_suites_targets_are_for_its_own_tasks() -> None:
    assert resolve(None, {}, [], {"suite": "quick"}).config.targets == {"math": 0.90, "search": 0.98}
    part = resolve(None, {}, [], {"suite": "quick", "tasks": "math,lookup"}).config
    assert part.targets == {"math": 0.90}
    assert resolve(None, {}, [], {"suite": "quick", "tasks": "lookup"}).config.targets is None
    own = resolve(None, {}, [], {"suite": "quick", "targets": {"math": 0.5}})
    assert own.config.targets == {"math": 0.5}


@pytest.mark.parametrize("name", SUITES)
def test_suites_set_keys_that_exist_and_are_tuned_for_no_arm(name: str) -> None:
    settings = find(name).settings
    assert settings.keys() <= RunConfig.model_fields.keys()
    assert RunConfig.model_fields.keys() >= FREE
    assert settings["aa"] is True and settings["seeds"] >= 5
    assert set(settings["arms"]) == {"S0", "S1", "A0", "A1"}


def test_the_baseline_is_run_twice_where_there_is_something_to_compare() -> None:
    assert labels(["S1", "A1"], 2, None) == ("S1", "A1", "S1-aa")
    assert labels(["S1", "A1"], 1, None) == ("S1", "A1")
    assert labels(["S1", "A1"], 1, True) == ("S1", "A1", "S1-aa")
    assert labels(["S1", "A1"], 5, False) == ("S1", "A1")
    assert labels(["S1"], 5, None) == ("S1",)
    assert labels(["S0", "A1"], 5, None) == ("S0", "A1")
    with pytest.raises(UsageError, match="S1 is not among the arms"):
        labels(["S0", "A1"], 2, True)


def test_a_repeat_has_the_timetable_of_what_it_repeats() -> None:
    assert (repeated("S1-aa"), repeated("S1")) == ("S1", None)
    assert timetable("S1-aa", 2) == timetable("S1", 2)
    assert timetable("A1", 5).max_staleness == 5
