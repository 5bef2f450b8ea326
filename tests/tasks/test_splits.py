from __future__ import annotations

import collections
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks
from tasks import splits
from tasks.splits import _permuted
from tasks.validate import fingerprint

GENERATED = ("Math/Add-v0", "Math/ModChain-v0", "Code/Predict-v0", "Code/Expr-v0", "Search/Lookup-v0")


@pytest.mark.parametrize("task_id", GENERATED)
def test_no_content_is_in_two_splits_over_ten_thousand_items(task_id: str):
    spec = tasks.get(task_id)
    prompts = {
        split: {splits.item(spec, split, index % 7, index).prompt for index in range(count)}
        for split, count in (("train", 6000), ("dev", 2000), ("test", 2000))
    }
    assert not prompts["train"] & prompts["dev"]
    assert not prompts["train"] & prompts["test"]
    assert not prompts["dev"] & prompts["test"]
    assert len(prompts["dev"]) >= 400


@pytest.mark.parametrize("task_id", GENERATED)
def test_neighbouring_seeds_share_no_more_than_chance(task_id: str):
    """Case proc-001: with Random(seed + index), item i+1 of seed 0 is item i of seed 1."""
    spec = tasks.get(task_id)
    a = [splits.item(spec, "train", 0, i).prompt for i in range(21)]
    b = [splits.item(spec, "train", 1, i).prompt for i in range(20)]
    assert sum(x == y for x, y in zip(a[1:], b, strict=True)) <= 1


@given(
    task_id=st.sampled_from(GENERATED),
    split=st.sampled_from(splits.SPLITS),
    seed=st.integers(0, 2**40),
    index=st.integers(0, 10**9),
)
@settings(max_examples=60, deadline=None)
def test_an_item_is_a_pure_function_of_its_coordinates(task_id: str, split: str, seed: int, index: int):
    spec = tasks.get(task_id)
    state = random.getstate()
    assert splits.item(spec, split, seed, index) == splits.item(spec, split, seed, index)
    assert random.getstate() == state


@pytest.mark.parametrize(
    ("task_id", "known"),
    [
        ("Math/Add-v0", "fcffc2dfe920ceec"),
        ("Math/ModChain-v0", "179fd417b1b639a3"),
        ("Code/Predict-v0", "c5eec4559b85e8a8"),
        ("Code/Expr-v0", "07e1ec02b43a1c5e"),
        ("Search/Lookup-v0", "92c9597d2c446338"),
    ],
)
def test_items_of_this_version_never_change(task_id: str, known: str):
    """A change here needs a new task version: stored transcripts and the embedded model depend on it."""
    assert fingerprint(task_id)[:16] == known


def test_unknown_split_level_and_negative_index_are_refused_with_the_choices():
    spec = tasks.get("add")
    with pytest.raises(ValueError, match="choose one of train, dev, test"):
        splits.item(spec, "validation", 0, 0)
    with pytest.raises(ValueError, match="choose one of 1, 2, 3"):
        splits.item(spec, "train", 0, 0, level=99)
    with pytest.raises(ValueError, match="count from 0"):
        splits.item(spec, "train", 0, -1)


@given(count=st.integers(1, 300), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_each_pass_over_rows_is_a_permutation(count: int, seed: int):
    spec = tasks.get("add")
    for epoch in (0, 1):
        places = [splits._row_of(spec, "train", seed, epoch * count + i, count) for i in range(count)]
        assert sorted(places) == list(range(count))


def test_drawing_is_fast_enough_never_to_be_the_bottleneck():
    """A bound an order of magnitude above what a loaded machine needs; it catches quadratic mistakes."""
    spec = tasks.get("add")
    started = time.process_time()
    for index in range(2000):
        splits.item(spec, "train", 0, index)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("count", [1, 2, 7, 33, 64, 65, 250, 1319])
def test_every_row_is_as_likely_to_come_first(count: int):
    """A weak mixing once gave one row of 65 to a third of all seeds."""
    assert sorted(_permuted(i, count, random.Random(3)) for i in range(count)) == list(range(count))
    draws = 40 * count
    found = collections.Counter(_permuted(0, count, random.Random(seed)) for seed in range(draws))
    # forty are expected of each, with a standard deviation of 6.3
    assert len(found) == count
    assert max(found.values()) < 40 + 6 * 6.4
