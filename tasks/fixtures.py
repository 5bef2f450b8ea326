"""Frozen episodes: turns of every kind on fixed items, and what they must earn, in a file beside the code.

They hold items and grader to what they were: a change that alters an item's content or a grade fails here,
and then the task's version must change too, or the change is a mistake.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks import protocol, splits
from tasks.data.sources import DataMissingError
from tasks.spec import GradeStatus, TaskItem, TaskSpec, content_uid, play

FOLDER = Path(__file__).parent / "data" / "fixtures"
MIN_FIXTURES = 20


class FixtureError(Exception):
    """A fixture file that is missing, unreadable or can't be made; says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One episode. Of a generated item its coordinates and uid; of a data-set row its content."""

    kind: str
    """gold, wrong, no_answer, malformed or multiple: what the turns are an example of."""
    turns: tuple[str, ...]
    reward: float
    status: str
    coordinates: tuple[str, int, int, int] | None
    """(split, seed, index, level)."""
    uid: str
    content: dict[str, Any] | None = None
    """prompt, gold and meta."""


def path(spec: TaskSpec) -> Path:
    """Where a task's fixtures are: in this package for its own tasks, else beside the module's file."""
    if type(spec).__module__.startswith("tasks."):
        return FOLDER / f"{spec.id.replace('/', '-')}.jsonl"
    module = Path(inspect.getfile(type(spec)))
    return module.with_name(f"{spec.id.replace('/', '-')}.fixtures.jsonl")


def load(spec: TaskSpec) -> list[Fixture]:
    """Reads a task's fixtures.

    Raises:
      FixtureError: there are none, or a line is not one.
    """
    file = path(spec)
    if not file.is_file():
        raise FixtureError(f"no fixtures at {file}; 'bench tasks fixtures {spec.id}' writes them")
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            row["turns"] = tuple(row["turns"])
            row["coordinates"] = tuple(row["coordinates"]) if row["coordinates"] else None
            found.append(Fixture(**row))
        except (TypeError, ValueError, KeyError) as error:
            raise FixtureError(f"{file}:{number} is no fixture: {error}") from error
    return found


def check(spec: TaskSpec) -> Iterator[str]:
    """Plays every fixture; yields what differs.

    Raises:
      FixtureError: there are no fixtures.
    """
    fixtures = load(spec)
    if len(fixtures) < MIN_FIXTURES:
        yield f"{len(fixtures)} fixtures, at least {MIN_FIXTURES} are wanted"
    for number, fixture in enumerate(fixtures, start=1):
        item = _item(spec, fixture)
        if item.uid != fixture.uid:
            yield f"fixture {number}: the item at {fixture.coordinates} is not what it was"
            continue
        grade = play(spec, item, fixture.turns)
        if (grade.reward, str(grade.status)) != (fixture.reward, fixture.status):
            yield (
                f"fixture {number} ({fixture.kind}): {grade.reward} {grade.status} ({grade.detail}), "
                f"not {fixture.reward} {fixture.status}"
            )


def make(spec: TaskSpec, items: Sequence[TaskItem] | None = None) -> list[Fixture]:
    """Makes fixtures on a few items of every level, or on `items`, which are frozen by their content.

    Raises:
      FixtureError: the oracle is not paid, or one of the other turns is.
    """
    given = items is not None
    drawn = list(items or ())
    for level in () if given else spec.levels:
        try:
            drawn += [splits.item(spec, "dev", 17, index, level) for index in range(2)]
        except DataMissingError:
            if level == spec.default_level:
                raise
            # a level with data of its own: its fixtures would fail wherever those are not
    found = []
    for number, item in enumerate(drawn):
        other = drawn[(number + 1) % len(drawn)]
        for kind, turns in ((kind, write(spec, item, other)) for kind, write in KINDS.items()):
            grade = play(spec, item, turns)
            if kind == "wrong" and grade.status is GradeStatus.CORRECT:
                continue  # another item's answer may happen to be this one's
            if (kind == "gold") != (grade.reward == 1.0):
                raise FixtureError(
                    f"{spec.id}: '{kind}' earns {grade.reward} on {item.prompt!r}: {turns[-1][:80]!r}"
                )
            found.append(
                Fixture(
                    kind=kind,
                    turns=turns,
                    reward=grade.reward,
                    status=str(grade.status),
                    coordinates=None if given else (item.split, 17, item.index, item.level),
                    uid=item.uid,
                    content={"prompt": item.prompt, "gold": item.gold, "meta": item.meta} if given else None,
                )
            )
    return found


def write(spec: TaskSpec, fixtures: Sequence[Fixture]) -> Path:
    """Writes a task's fixtures, a line each."""
    file = path(spec)
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(asdict(fixture), ensure_ascii=False, sort_keys=True) for fixture in fixtures)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def _item(spec: TaskSpec, fixture: Fixture) -> TaskItem:
    if fixture.coordinates is not None:
        split, seed, index, level = fixture.coordinates
        return splits.item(spec, split, seed, index, level)
    content = fixture.content or {}
    return row_item(spec, content["prompt"], content["gold"], content["meta"])


def row_item(spec: TaskSpec, prompt: str, gold: Any, meta: dict[str, Any]) -> TaskItem:
    """An item of a data-set task, from its content alone."""
    return TaskItem(
        uid=content_uid(spec.id, spec.version, prompt, gold, meta),
        task_id=spec.id,
        split="test",
        index=0,
        level=spec.default_level,
        prompt=prompt,
        gold=gold,
        meta=meta,
    )


def _text(spec: TaskSpec, item: TaskItem) -> str:
    return spec.oracle(item)[-1].removeprefix(protocol.ANSWER_OPEN).removesuffix(protocol.ANSWER_CLOSE)


KINDS: dict[str, Callable[[TaskSpec, TaskItem, TaskItem], tuple[str, ...]]] = {
    "gold": lambda spec, item, other: spec.oracle(item),
    "wrong": lambda spec, item, other: (spec.oracle(other)[-1],),
    "no_answer": lambda spec, item, other: (f"I think it is {_text(spec, item)}",),
    "malformed": lambda spec, item, other: (protocol.ANSWER_OPEN + _text(spec, item),),
    "empty": lambda spec, item, other: (protocol.answer_turn(""),),
    "multiple": lambda spec, item, other: (spec.oracle(item)[-1] + spec.oracle(other)[-1],),
    "junk": lambda spec, item, other: (protocol.answer_turn(f"it is {_text(spec, item)} or so"),),
}
