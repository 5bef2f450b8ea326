"""Datasets of reasoning-gym as tasks. The stand-ins have the faults that were found upstream."""

from __future__ import annotations

import random
import sys
import types
from typing import Any

import gymnasium
import numpy as np
import pytest

import tasks
from tasks import splits, validate
from tasks.adapters import reasoning_gym
from tasks.adapters.reasoning_gym import ReasoningGym
from tasks.data.sources import DataMissingError
from tasks.spec import GradeStatus


class Counting:
    """Item i of seed s is item i - 1 of seed s + 1; its scorer pays for containing the answer, and for nothing."""

    def __init__(self, seed: int, size: int, largest: int = 10**6) -> None:
        if largest < 1:
            raise AssertionError("largest must be positive")
        self.seed, self.largest = seed, largest

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = random.Random(self.seed + index).randrange(self.largest)
        return {"question": f"What follows {number}?", "answer": str(number + 1), "metadata": {}}

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        if answer is None:
            return 0.01
        return 1.0 if answer == entry["answer"] else 0.5 * (entry["answer"] in answer)


class Templates(Counting):
    """Draws its templates when it is made, from the global random state."""

    def __init__(self, seed: int, size: int) -> None:
        super().__init__(seed, size)
        self.names = [f"{random.random():.9f} {np.random.rand():.9f}" for _ in range(size)]

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"question": f"Say: {self.names[index]}", "answer": f"  {self.names[index]}\n", "metadata": {}}


class Paths(Counting):
    """Several answers are right, and the scorer raises on some."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return super().__getitem__(index) | {"answer": "up right"}

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        assert answer is not None
        if answer == "left left":
            raise IndexError("outside")
        return 1.0 if sorted(answer.split()) == ["right", "up"] else 0.5


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch):
    """A package reasoning_gym with three datasets."""
    classes = {"counting": Counting, "templates": Templates, "shortest_path": Paths, "countdown": Counting}
    factory = types.ModuleType("reasoning_gym.factory")
    factory.DATASETS = {name: (made, None) for name, made in classes.items()}  # type: ignore[attr-defined]
    factory.create_dataset = lambda name, **config: classes[name](**config)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "reasoning_gym", types.ModuleType("reasoning_gym"))
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", factory)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    reasoning_gym.spec.cache_clear()
    yield
    reasoning_gym.spec.cache_clear()
    for name in classes:
        gymnasium.registry.pop(f"RG/{name}-v0", None)


def prompts(spec: tasks.TaskSpec, split: str, seed: int, count: int = 200) -> list[str]:
    return [splits.item(spec, split, seed, index).prompt for index in range(count)]


@pytest.mark.parametrize("name", ["counting", "templates"])
def test_neighbouring_seeds_and_splits_share_nothing(package: None, name: str):
    """Cases proc-001 and proc-002."""
    spec = tasks.get(f"RG/{name}-v0")
    first, second, held_out = prompts(spec, "train", 0), prompts(spec, "train", 1), prompts(spec, "test", 0)
    assert len(set(first)) >= 199
    assert not set(first) & set(second)
    assert not (set(first) | set(second)) & set(held_out)
    assert prompts(spec, "train", 0) == first


def test_it_is_a_gymnasium_environment_of_our_kind(package: None):
    spec = tasks.get("RG/counting-v0")
    env = gymnasium.make("RG/counting-v0")
    env.reset(seed=0)
    assert env.step(spec.oracle(env.get_wrapper_attr("item"))[0])[1:4] == (1.0, True, False)


@pytest.mark.parametrize("name", ["counting", "templates", "shortest_path"])
def test_only_the_answer_pays(package: None, name: str):
    """Cases proc-003, proc-008 and proc-009: embedded, empty and enumerated answers earned something."""
    spec = tasks.get(f"RG/{name}-v0")
    for index in range(20):
        item = splits.item(spec, "dev", 0, index)
        gold = item.gold
        assert spec.grade(item, f"<answer>{gold}</answer>").reward == 1.0
        for text in ("", gold, f"<answer>{gold} or so</answer>", f"<answer>it is {gold}</answer>", "<answer></answer>",
                     "<answer>0123456789</answer>", f"<answer>{gold}</answer><answer>{gold}1</answer>"):  # fmt: skip
            assert spec.grade(item, text).reward == 0.0, text


def test_of_several_right_answers_the_scorer_decides_by_its_full_mark(package: None):
    spec = tasks.get("RG/shortest_path-v0")
    item = splits.item(spec, "dev", 0, 0)
    verdicts = {
        "right up": GradeStatus.CORRECT,
        "up up": GradeStatus.WRONG,  # the scorer's half mark
        "left left": GradeStatus.WRONG,  # the scorer raises
        "__import__('os')": GradeStatus.MALFORMED,  # never reaches it
    }
    for answer, status in verdicts.items():
        assert spec.grade(item, f"<answer>{answer}</answer>").status is status


def test_the_global_random_state_is_left_alone(package: None):
    spec = tasks.get("RG/templates-v0")
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    splits.item(spec, "train", 0, 0)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]


def test_a_configuration_of_ones_own(package: None):
    spec = ReasoningGym("counting", largest=3)
    assert set(prompts(spec, "train", 0)) <= {f"What follows {n}?" for n in range(3)}
    with pytest.raises(ValueError, match=r"refuses {'largest': 0}: largest must be positive"):
        ReasoningGym("counting", largest=0)


def test_what_is_no_task_says_why(package: None):
    with pytest.raises(tasks.UnknownTaskError, match=r"evaluates the answer's text; take Math/Countdown-v0"):
        tasks.get("RG/countdown-v0")
    with pytest.raises(tasks.UnknownTaskError, match="no dataset 'nothing'"):
        tasks.get("RG/nothing-v0")
    assert reasoning_gym.names() == ("RG/counting-v0", "RG/shortest_path-v0", "RG/templates-v0")


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", None)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    reasoning_gym.spec.cache_clear()
    with pytest.raises(DataMissingError, match="pip install"):
        tasks.get("RG/chain_sum-v0")
    assert reasoning_gym.names() == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain_sum", "leg_counting", "shortest_path", "gsm_symbolic"])
def test_the_real_package(name: str):
    pytest.importorskip("reasoning_gym")
    assert validate.validate(f"RG/{name}-v0", items=60) == []
