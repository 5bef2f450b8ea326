"""`DataTask`: a task whose items are the rows of a data set.

The official test part stays the test split. The other rows are dev or train by their content; rows whose
text also stands in the test part are left out. Every gold is graded once, by itself, before use.
"""

from __future__ import annotations

import abc
import copy
import random
import threading
from collections.abc import Sequence
from typing import Any, Self

from tasks.data.sources import DataError, DataSource, LoadedPart, load, locate
from tasks.spec import Draw, GradeStatus, TaskItem, TaskSpec, content_uid
from tasks.splits import SPLITS, split_of

_LOCK = threading.Lock()  # guards _LOADED: env workers are threads and all open their first item at once
_LOADED: dict[tuple[str, str], tuple[dict[str, tuple[Draw, ...]], list[dict[str, Any]]]] = {}


class DataTask(TaskSpec):
    """Base of data-set tasks; a subclass says how a row becomes an item."""

    data_source: DataSource
    levels = (1,)
    tiers = ("T2",)
    default_level = 1

    def __init__(self, data: str | None = None) -> None:
        self._data = data

    def reading_from(self, data: str) -> Self:
        """Returns this task with another place for its data."""
        other = copy.copy(self)
        other._data = data
        return other

    @abc.abstractmethod
    def from_row(self, row: dict[str, Any]) -> Draw | None:
        """Turns a row into an item's content; KeyError or ValueError where the row is unusable.

        None leaves the row out: for rows that are known not to be gradable, with their reasons.
        """

    def generate(self, rng: random.Random, level: int) -> Draw:
        """Draws any train row; item streams use `rows` instead."""
        del level
        return rng.choice(self.rows("train"))

    def rows(self, split: str) -> Sequence[Draw]:
        """Returns all items of a split, loading the data set at the first call."""
        found = self._loaded()[0][split]
        if not found:
            raise DataError(f"Task '{self.id}': its data has no rows for split '{split}'; choose another.")
        return found

    def manifest(self) -> list[dict[str, Any]]:
        """Returns file, sha256, rows and licence of each part that was read."""
        return self._loaded()[1]

    def _loaded(self) -> tuple[dict[str, tuple[Draw, ...]], list[dict[str, Any]]]:
        location = locate(self.data_source, self._data)
        key = (self.id, location)
        with _LOCK:
            if key not in _LOADED:
                parts = load(self.data_source, location)
                _LOADED[key] = (self._split(parts), [part.manifest for part in parts])
            return _LOADED[key]

    def _split(self, parts: Sequence[LoadedPart]) -> dict[str, tuple[Draw, ...]]:
        by_split: dict[str, dict[str, Draw]] = {split: {} for split in SPLITS}
        # a mirror may cut a set that has no official test part: its cut is not taken over
        official_test = "test" in self.data_source.parts and any(part.part == "test" for part in parts)
        # the test part first, so that what it holds can be kept out of the others
        for part in sorted(parts, key=lambda part: part.part != "test"):
            is_test = official_test and part.part == "test"
            for number, row in enumerate(part.rows, start=1):
                draw = self._checked(part, number, row)
                if draw is None:
                    continue
                key = " ".join(draw.prompt.split())
                split = "test" if is_test else split_of(self.id, key)
                if official_test and not is_test:
                    split = "train" if split == "test" else split
                    if key in by_split["test"]:
                        continue
                by_split[split].setdefault(key, draw)
        return {split: tuple(draws.values()) for split, draws in by_split.items()}

    def _checked(self, part: LoadedPart, number: int, row: dict[str, Any]) -> Draw | None:
        where = f"Task '{self.id}': row {number} of {part.manifest['file']}"
        try:
            draw = self.from_row(row)
        except KeyError as error:
            raise DataError(f"{where} lacks the field {error.args[0]!r}; it has {', '.join(row)}.") from error
        except (TypeError, ValueError) as error:
            raise DataError(f"{where} is unusable: {error}") from error
        if draw is None or self.sandboxed:
            # a program's gold is run when it is first needed: a thousand runs would be seconds of start-up
            return draw
        item = TaskItem(
            uid=content_uid(self.id, self.version, draw.prompt, draw.gold, draw.meta),
            task_id=self.id,
            split=part.part,
            index=number,
            level=self.default_level,
            prompt=draw.prompt,
            gold=draw.gold,
            meta=draw.meta,
        )
        if self.grade(item, self.oracle(item)[-1]).status is not GradeStatus.CORRECT:
            raise DataError(f"{where}: its own gold {draw.gold!r} is not graded correct; mend it.")
        return draw
