"""reset(seed) decides the item: in every process, whatever else draws random numbers, up to the last row."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tasks
from tests.tasks.conftest import own_made_rows, write_jsonl

ALL = tuple(tasks.specs())
ROOT = Path(__file__).resolve().parents[2]


def observations(task_id: str) -> list[str]:
    """First observations of seeds 0..99, with other draws in between."""
    env = tasks.make(task_id)
    seen = []
    for seed in range(100):
        random.random()
        np.random.rand()
        seen.append(env.reset(seed=seed)[0])
    env.close()
    return seen


def digests() -> dict[str, str]:
    return {name: hashlib.sha256("\0".join(observations(name)).encode()).hexdigest() for name in ALL}


PROGRAM = """
import random, numpy
from tests.tasks.test_seeding import digests
random.seed(1)
numpy.random.seed(2)
print(digests())
"""


def test_a_seed_gives_the_same_bytes_in_every_process(own_data: Path) -> None:
    """Source: https://github.com/open-thought/reasoning-gym/pull/317"""
    for hash_seed in ("0", "4711"):
        child = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        assert child.stdout.strip() == str(digests())


@pytest.mark.parametrize("task_id", ALL)
def test_a_hundred_seeds_give_at_least_ninety_items_where_there_are_so_many(
    task_id: str, own_data: Path
) -> None:
    spec = tasks.get(task_id)
    rows = spec.rows("train")
    if rows is None:
        assert len(set(observations(task_id))) >= 90
    else:
        # drawn with replacement from n rows: n (1 - (1 - 1/n)^100) are expected, here with a wide margin
        n = len(rows)
        assert len(set(observations(task_id))) > 0.8 * n * (1 - (1 - 1 / n) ** 100)


def test_ten_thousand_seeds_of_a_data_set_of_one_row_all_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No draw points past the end. Source: https://github.com/axon-rl/gem/pull/68"""
    (tmp_path / "gsm8k").mkdir()
    write_jsonl(tmp_path / "gsm8k" / "train.jsonl", own_made_rows(0, 40))
    write_jsonl(tmp_path / "gsm8k" / "test.jsonl", own_made_rows(80, 1))
    monkeypatch.setenv("BENCH_DATA_DIR", str(tmp_path))
    env = tasks.make("gsm8k")
    seen = {env.reset(seed=seed, options={"split": "test"})[1]["item_uid"] for seed in range(10_000)}
    assert len(seen) == 1
