from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import gymnasium
import pytest

import tasks
from tasks import fixtures, registry
from tasks.math.add import Add
from tasks.spec import Grade, GradeStatus, TaskItem
from tasks.validate import validate


class Strict(Add):
    """Another grader than the fixtures were made with."""

    def grade(self, item: TaskItem, text: str) -> Grade:
        grade = super().grade(item, text)
        return dataclasses.replace(grade, status=GradeStatus.WRONG) if grade.reward == 0.0 else grade


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fixtures, "path", lambda spec: tmp_path / "add.jsonl")
    return tmp_path / "add.jsonl"


@pytest.mark.parametrize("task_id", list(tasks.specs()))
def test_every_task_has_enough_of_every_kind(task_id: str):
    found = fixtures.load(tasks.get(task_id))
    assert len(found) >= fixtures.MIN_FIXTURES
    assert {fixture.kind for fixture in found} == set(fixtures.KINDS)
    assert all((fixture.reward == 1.0) == (fixture.kind == "gold") for fixture in found)


def test_a_changed_grader_and_a_changed_item_are_found(moved: Path):
    fixtures.write(Add(), fixtures.make(Add()))
    assert list(fixtures.check(Add())) == []
    assert "no_answer" in "\n".join(fixtures.check(Strict()))
    rows = [json.loads(line) for line in moved.read_text().splitlines()]
    rows[0]["uid"] = "0" * 64
    moved.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "is not what it was" in next(fixtures.check(Add()))


def test_a_task_without_fixtures_is_told_how_to_make_them(moved: Path):
    with pytest.raises(fixtures.FixtureError, match="bench tasks fixtures Math/Add-v0"):
        list(fixtures.check(Add()))
    moved.write_text("{}\n")
    with pytest.raises(fixtures.FixtureError, match=r"add.jsonl:1 is no fixture"):
        list(fixtures.check(Add()))


class Generous(Add):
    def grade(self, item: TaskItem, text: str) -> Grade:
        return Grade(reward=1.0, status=GradeStatus.CORRECT)


def test_fixtures_of_a_generous_grader_cannot_be_made(moved: Path):
    with pytest.raises(fixtures.FixtureError, match=r"'no_answer' earns 1.0"):
        fixtures.make(Generous())


# one file is a task ---------------------------------------------------------------------------------------


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(registry.FILES_VARIABLE, "")
    template = Path(tasks.__file__).parent.parent / "bench" / "templates" / "task.py"
    file = tmp_path / "count_letters.py"
    file.write_text(template.read_text())
    yield file
    gymnasium.registry.pop("My/CountLetters-v0", None)
    registry.specs.cache_clear()


def test_a_file_is_a_task_by_its_path_and_then_by_its_id(own_file: Path):
    spec = tasks.get(str(own_file))
    assert spec.id == "My/CountLetters-v0"
    assert tasks.get("My/CountLetters-v0") is spec
    fixtures.write(spec, fixtures.make(spec))
    assert fixtures.path(spec).parent == own_file.parent
    assert validate(spec.id, items=100) == []
    env = tasks.make(str(own_file))
    env.reset(seed=0)
    assert env.step(spec.oracle(env.get_wrapper_attr("item"))[0])[1] == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TASKS = (", "can't be imported: SyntaxError"),
        ("import nothing_there", "can't be imported: ModuleNotFoundError"),
        ("x = 1", "has no TASKS"),
        ("TASKS = (1,)", "has no TASKS"),
    ],
)
def test_a_file_that_is_no_task_says_why(tmp_path: Path, text: str, message: str):
    file = tmp_path / f"broken_{abs(hash(text))}.py"
    file.write_text(text)
    with pytest.raises(registry.TaskFileError, match=message):
        tasks.get(str(file))
    with pytest.raises(registry.TaskFileError, match="is not there"):
        tasks.get(str(tmp_path / "missing.py"))
