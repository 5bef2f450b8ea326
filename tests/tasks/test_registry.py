from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import gymnasium
import pytest

import tasks
from tasks import registry
from tasks.math.add import Add


def test_short_names_reach_their_tasks():
    assert [tasks.get(name).id for name in registry.DEFAULT_TRIO] == [
        "Math/Add-v0",
        "Code/Predict-v0",
        "Search/Lookup-v0",
    ]
    assert all(tasks.get(full).id == full for full in registry.ALIASES.values())


@pytest.mark.parametrize(
    ("name", "near"), [("math/ad-v0", "'Math/Add-v0'"), ("lokup", "'lookup'"), ("gsm8", "'gsm8k'")]
)
def test_an_unknown_task_is_answered_with_the_nearest_names(name: str, near: str):
    with pytest.raises(tasks.UnknownTaskError) as caught:
        tasks.get(name)
    assert near in str(caught.value)
    assert "bench tasks list" in str(caught.value)


def test_gymnasium_makes_every_registered_id():
    assert set(tasks.specs()) <= set(gymnasium.registry)
    env = gymnasium.make("Math/Add-v0", level=3)
    observation, _ = env.reset(seed=0)
    assert len(observation) == len("123+456=?")


def test_cards_are_plain_values():
    for task_id in tasks.specs():
        card = json.loads(json.dumps(tasks.card(task_id)))
        assert card["id"] == task_id
        assert card["licence"]
        assert card["default_level"] in card["levels"]


def test_data_for_a_generated_task_is_a_mistake():
    with pytest.raises(ValueError, match="reads no data"):
        tasks.make("add", data="somewhere.jsonl")


class _Pack(Add):
    """A third party's task."""

    id = "Pack/Plus-v0"


def test_an_installed_pack_adds_its_tasks(monkeypatch: pytest.MonkeyPatch):
    entry = importlib.metadata.EntryPoint("pack", f"{__name__}:pack", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    registry.specs.cache_clear()
    try:
        assert tasks.get("Pack/Plus-v0").title == "Addition"
    finally:
        monkeypatch.undo()
        registry.specs.cache_clear()


def pack() -> list[Add]:
    return [_Pack()]


def test_importing_tasks_and_searching_loads_no_trainer_and_no_data_library():
    code = (
        "import sys, tasks; e = tasks.make('lookup'); e.reset(seed=0); e.step('<search>flag</search>');"
        "print([m for m in ('jax', 'flax', 'datasets', 'wandb', 'tunix_core', 'bench') if m in sys.modules])"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"
