from __future__ import annotations

from pathlib import Path

import pytest

import tasks
from tasks import registry
from tasks.baselines import baselines
from tasks.math.add import Add
from tasks.spec import Grade, GradeStatus, TaskItem
from tasks.validate import validate


@pytest.mark.parametrize("task_id", list(tasks.specs()))
def test_every_task_is_clean(task_id: str, own_data: Path):
    assert validate(task_id, items=300) == []


class _Generous(Add):
    """Pays for containing the answer, and for nothing at all."""

    id = "Math/Generous-v0"

    def grade(self, item: TaskItem, text: str) -> Grade:
        paid = str(item.gold) in text or not text
        return Grade(reward=float(paid), status=GradeStatus.CORRECT if paid else GradeStatus.WRONG)


def test_a_generous_grader_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "specs", lambda: {_Generous.id: _Generous()})
    from tasks import validate as module

    found = [what for rule in (module._oracle_and_null, module._probes) for what, _ in rule(_Generous(), 20)]
    text = "\n".join(found)
    for probe in ("an empty answer", "'no marks'", "'junk around'", "'two answers'", "'all answers'"):
        assert probe in text


@pytest.mark.parametrize("task_id", ["add", "modchain", "predict", "expr", "lookup"])
def test_careless_demonstrators_are_mostly_wrong_and_constants_poor(task_id: str):
    measured = baselines(tasks.get(task_id), items=1500)
    assert measured.oracle == 1.0
    assert measured.careless < 0.3
    assert measured.best_constant <= 0.15
