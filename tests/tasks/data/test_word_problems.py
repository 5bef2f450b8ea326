"""Data-set tasks, on own-made rows everywhere and on the real sets where they are."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import pytest

import tasks
from tasks import splits
from tasks.data.sources import DataError, DataMissingError
from tasks.data.task import DataTask
from tasks.spec import GradeStatus, TaskItem


def gsm8k_like(gold: str) -> TaskItem:
    return TaskItem(
        uid="", task_id="Math/GSM8K-v0", split="test", index=0, level=1, prompt="How many?", gold=gold
    )


@pytest.mark.parametrize(
    ("gold", "text", "status"),
    [
        ("18", "#### 18.", GradeStatus.CORRECT),
        ("18", "#### 18.00", GradeStatus.CORRECT),
        ("18", "#### $18", GradeStatus.CORRECT),
        ("18", "####18", GradeStatus.CORRECT),
        ("18", "... #### 18\n\nQuestion: more\n#### 3", GradeStatus.CORRECT),
        ("2125", "<answer>2,125</answer>", GradeStatus.CORRECT),
        ("-3", "so <answer>-3</answer>", GradeStatus.CORRECT),
        ("3", "<answer>-3</answer>", GradeStatus.WRONG),
        ("72", "The answer is 72, in total", GradeStatus.NO_ANSWER),
        ("3", "#### 3\n<answer>4</answer>", GradeStatus.WRONG),
        ("18", "<answer>17 = 18</answer>", GradeStatus.MALFORMED),
        ("18", "#### <search>", GradeStatus.MALFORMED),
        ("18", "<answer>9**9**9</answer>", GradeStatus.MALFORMED),
        ("18", "####", GradeStatus.MALFORMED),
    ],
)
def test_answers_are_whole_exact_numbers(gold: str, text: str, status: GradeStatus):
    assert tasks.get("gsm8k").grade(gsm8k_like(gold), text).status is status


def test_dev_is_cut_from_train_and_test_is_the_official_one(own_data: Path):
    spec = tasks.get("gsm8k")
    found = {split: spec.rows(split) for split in splits.SPLITS}
    prompts = {split: {draw.prompt for draw in draws} for split, draws in found.items() if draws is not None}
    assert len(prompts["test"]) == 40
    # 20 of the 400 train rows also stand in the test part and are left out
    assert len(prompts["train"]) + len(prompts["dev"]) == 380
    assert 15 <= len(prompts["dev"]) <= 65
    assert not prompts["train"] & prompts["dev"]
    assert not prompts["test"] & (prompts["train"] | prompts["dev"])


def test_one_pass_visits_every_row_once(own_data: Path):
    spec = tasks.get("gsm8k")
    uids = [splits.item(spec, "test", 3, index).uid for index in range(80)]
    assert len(set(uids[:40])) == 40
    assert sorted(uids[:40]) == sorted(uids[40:])
    assert uids[:40] != uids[40:]


def test_the_manifest_names_file_hash_rows_and_licence(own_data: Path):
    spec = tasks.get("gsm8k")
    assert isinstance(spec, DataTask)
    train = spec.manifest()[0]
    path = own_data / "gsm8k" / "train.jsonl"
    assert train == {
        "name": "gsm8k",
        "file": "train.jsonl",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 400,
        "licence": "MIT",
    }


def test_a_single_file_or_parquet_is_split_by_content(own_data: Path, tmp_path: Path):
    import datasets

    source = own_data / "gsm8k" / "train.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    parquet = tmp_path / "problems.parquet"
    datasets.disable_progress_bars()
    datasets.Dataset.from_list(rows).to_parquet(str(parquet))
    from_jsonl, from_parquet = tasks.get("gsm8k", data=str(source)), tasks.get("gsm8k", data=str(parquet))
    for split in splits.SPLITS:
        assert from_jsonl.rows(split) == from_parquet.rows(split)
        assert from_jsonl.rows(split)


def test_missing_data_names_the_three_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("BENCH_DATA_DIR", raising=False)
    env = tasks.make("gsm8k")  # building it needs no data; the first reset does
    with pytest.raises(DataMissingError) as caught:
        env.reset(seed=0)
    for way in ("--data", "BENCH_DATA_DIR", "--data hub"):
        assert way in str(caught.value)
    with pytest.raises(DataMissingError, match="does not exist"):
        tasks.make("gsm8k", data=str(tmp_path / "nowhere")).reset(seed=0)
    monkeypatch.setenv("BENCH_DATA_DIR", str(tmp_path))
    with pytest.raises(DataMissingError, match="has no folder"):
        tasks.make("svamp").reset(seed=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"question": "q"}\n', "row 1 of a.jsonl lacks the field 'answer'"),
        ("a.jsonl", '{"question": "q", "answer": "no number"}\n', "ends in no number"),
        ("a.jsonl", '{"question": "q", "answer": "#### 1"}\n{"que', "not readable"),
        ("a.csv", "q,a\n", "must end in one of"),
    ],
)
def test_unusable_data_says_which_row_and_why(tmp_path: Path, name: str, content: str, message: str):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        tasks.make("gsm8k", data=str(path)).reset(seed=0)


def test_the_hub_is_asked_for_a_pinned_revision_only_when_told(
    own_data: Path, monkeypatch: pytest.MonkeyPatch
):
    import datasets

    asked = []

    def deliver(path: str, name: str | None, *, revision: str) -> datasets.DatasetDict:
        asked.append((path, name, revision))
        rows = [{"question": f"q{part}{i}?", "answer": f"#### {i}"} for part in "ab" for i in range(30)]
        return datasets.DatasetDict(
            train=datasets.Dataset.from_list(rows[:30]), test=datasets.Dataset.from_list(rows[30:])
        )

    monkeypatch.setattr(datasets, "load_dataset", deliver)
    spec = tasks.get("gsm8k", data="hub")
    assert [draw.prompt for draw in spec.rows("test") or ()] == [f"qb{i}?" for i in range(30)]
    (path, name, revision) = asked[0]
    assert (path, name, len(revision)) == ("openai/gsm8k", "main", 40)
    assert isinstance(spec, DataTask)
    assert spec.manifest()[0]["file"].startswith(f"openai/gsm8k@{revision}")


def test_a_hub_that_does_not_answer_leaves_the_other_ways(monkeypatch: pytest.MonkeyPatch):
    import datasets

    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(DataMissingError, match=r"no route to the hub.*BENCH_DATA_DIR"):
        tasks.make("svamp", data="hub").reset(seed=0)


def test_an_empty_folder_says_what_belongs_there(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds none of test, train"):
        tasks.make("gsm8k", data=str(tmp_path)).reset(seed=0)


@pytest.mark.parametrize(("task_id", "test_rows"), [("gsm8k", 1319), ("svamp", None)])
def test_the_oracle_scores_one_on_all_real_items(task_id: str, test_rows: int | None, real_data: Path):
    spec = tasks.get(task_id)
    count = 0
    for split in splits.SPLITS:
        rows = spec.rows(split)
        assert rows is not None
        if split == "test" and test_rows is not None:
            assert len(rows) == test_rows
        for index in range(len(rows)):
            item = splits.item(spec, split, 0, index)
            assert spec.grade(item, spec.oracle(item)[-1]).reward == 1.0
            gold = Fraction(str(item.gold))
            for other in (
                gold + 1,
                gold - 1,
                gold * 10,
                gold + Fraction(1, 10),
                -gold if gold else Fraction(9),
            ):
                turn = f"<answer>{other if other.denominator == 1 else float(other)}</answer>"
                assert spec.grade(item, turn).status is GradeStatus.WRONG or gold * 10 == other == gold
            count += 1
    assert count >= {"gsm8k": 8780, "svamp": 990}[task_id]


def test_more_turns_bring_a_calculator(own_data: Path):
    """Case gsm-011: an unbounded power hung the environment."""
    env = tasks.make("gsm8k", max_turns=4, max_tool_calls=3)
    env.reset(seed=0)
    assert env.step("<calc>2,125*2</calc>")[0] == "<result>4250</result>"
    observation, reward, terminated, truncated, _ = env.step("<calc>9**9**9</calc>")
    assert observation.startswith("<result>error")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.step(f"#### {env.get_wrapper_attr('item').gold}")[1:3] == (1.0, True)
