"""Cards: what a task declares, what was measured, and the page made of both."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import pytest

import tasks
from tasks import cards
from tasks.spec import TIERS

ROOT = Path(tasks.__file__).parent.parent
STEP = {"step_ms"}  # of a machine, not of the task


def test_the_page_is_made_of_the_cards():
    file = ROOT / "docs" / "make_tasks.py"
    spec = importlib.util.spec_from_file_location("make_tasks", file)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (ROOT / "docs" / "tasks.md").read_text() == script.page(), "run docs/make_tasks.py"


@pytest.mark.parametrize("task_id", list(tasks.specs()))
def test_every_level_has_a_tier_and_figures_within_the_cap(task_id: str):
    spec, card = tasks.get(task_id), tasks.card(task_id)
    assert [str(level) for level in card["levels"]] == list(card["measured"])
    assert len(spec.tiers) == len(spec.levels)
    assert all(a <= b for a, b in itertools.pairwise(map(list(TIERS).index, spec.tiers)))
    for figures in card["measured"].values():
        assert figures["oracle"] == 1.0
        assert figures["best_constant"] <= spec.best_constant_cap
        assert figures["random_format"] <= max(spec.best_constant_cap, 0.15)
        assert (figures["closed_book"] is None) == ("search" not in card["tools"])


@pytest.mark.parametrize(
    ("task_id", "level"),
    [("add", 1), ("compare", 4), ("expr", 2), ("function", 1), ("lookup", 2), ("multihop", 2), ("guess", 1)],
)
def test_the_figures_are_those_of_the_code(task_id: str, level: int):
    spec = tasks.get(task_id)
    stored = cards.measured(spec)[str(level)]
    found = cards.measure(spec, level)
    assert {k: v for k, v in found.items() if k not in STEP} == {
        k: v for k, v in stored.items() if k not in STEP
    }


def test_the_closed_book_earns_nothing_where_names_are_permuted():
    for task_id, level in (("facts", "3"), ("multihop", "5")):
        assert tasks.card(task_id)["measured"][level]["closed_book"] <= 0.01
