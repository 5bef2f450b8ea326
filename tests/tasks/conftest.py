"""Own-made data, so that data-set tasks can be built anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMES = ("Ada", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Hal", "Ivy", "Jo")


def own_made_rows(start: int, count: int) -> list[dict[str, str]]:
    rows = []
    for i in range(start, start + count):
        a, b = 3 + i, 5 + 2 * i
        question = f"{NAMES[i % 10]} has {a} nuts and finds {b} more in hole {i}. How many nuts are there?"
        rows.append({"question": question, "answer": f"{a}+{b}=<<{a}+{b}={a + b}>>{a + b}\n#### {a + b:,}"})
    return rows


def write_jsonl(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="session")
def own_made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    (root / "gsm8k").mkdir()
    write_jsonl(root / "gsm8k" / "train.jsonl", own_made_rows(0, 400))
    write_jsonl(root / "gsm8k" / "test.jsonl", own_made_rows(380, 40))
    (root / "svamp").mkdir()
    svamp = [
        {
            "ID": str(i),
            "Body": f"There are {i + 3} cups on shelf {i}",
            "Question": "How many after one more?",
            "Answer": float(i + 4),
        }
        for i in range(300)
    ]
    (root / "svamp" / "SVAMP.json").write_text(json.dumps(svamp), encoding="utf-8")
    for name in ("mbpp", "humaneval", "cruxeval"):
        (root / name).mkdir()
    write_jsonl(root / "mbpp" / "mbpp.jsonl", [own_made_program(i, "mbpp") for i in range(80)])
    write_jsonl(root / "humaneval" / "HumanEval.jsonl", [own_made_program(i, "humaneval") for i in range(80)])
    write_jsonl(
        root / "cruxeval" / "cruxeval.jsonl",
        [
            {"code": f"def f(x):\n    return [x, {i}]", "input": f"{i % 7}", "output": f"[{i % 7}, {i}]"}
            for i in range(150)
        ],
    )
    return root


def own_made_program(i: int, kind: str) -> dict[str, str]:
    name = f"add_{i}"
    shown = f"    >>> {name}(1)\n    {1 + i}\n"
    return {
        "task_id": f"{kind}/{i}",
        "prompt": f'def {name}(x):\n    """Add {i}.\n{shown}    """\n',
        "canonical_solution": f"    return x + {i}\n",
        "entry_point": name,
        "test": f"def check(candidate):\n    assert candidate(1) == {1 + i}\n    assert candidate(-9) == {i - 9}\n",
        "description": f"Write a function to add {i}.",
    }


@pytest.fixture
def own_data(own_made_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA_DIR", str(own_made_folder))
    return own_made_folder


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The real data sets where this machine has them."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("BENCH_DATA_DIR") or beside)
    if not (folder / "gsm8k").is_dir():
        pytest.skip(
            f"no data sets: set BENCH_DATA_DIR to a folder with gsm8k/ and svamp/ (looked in {folder})"
        )
    monkeypatch.setenv("BENCH_DATA_DIR", str(folder))
    yield folder
