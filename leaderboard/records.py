"""Reads a run directory strictly: a fault names its file and line, and no input can exhaust the reader."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from pydantic import ValidationError

from leaderboard import canonical
from leaderboard.errors import RecordError
from leaderboard.schema import SCHEMA, EvalLine, EventLine, Line, RolloutLine, RunHeader, SpanLine, UpdateLine

MAX_LINE_BYTES = 8 * 2**20
MAX_HEADER_BYTES = 64 * 2**20
MAX_LINES = 5_000_000
MAX_DEPTH = 32

_LONG = re.compile(rb"[0-9]{19}")

L = TypeVar("L", bound=Line)
R = TypeVar("R", EventLine, SpanLine, RolloutLine, UpdateLine, EvalLine)


def parse(data: bytes, place: str) -> Any:
    """Parses strict JSON: UTF-8 without mark, no NaN or infinity, integers of 64 bits, no key twice, at most 32
    levels deep.

    Raises:
      RecordError: E102 at `place`.
    """
    try:
        text = data.decode("utf-8")
        # most lines hold no number so long, and are spared a call for each of theirs
        parse_int = _in_range if _LONG.search(data) else None
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=parse_int,
        )
    except UnicodeDecodeError as error:
        raise RecordError("E102", place, f"not UTF-8 at byte {error.start}", "write UTF-8") from error
    except RecursionError as error:
        raise RecordError("E102", place, "nested too deeply", f"at most {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise RecordError("E102", place, f"not strict JSON: {error}") from error
    # so few brackets can't nest deeply; most lines are spared the walk
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise RecordError("E102", place, "nested too deeply", f"at most {MAX_DEPTH} levels")
    return value


def read_model(model: type[L], data: bytes, place: str) -> L:
    """Parses one JSON document into a model of the schema.

    Raises:
      RecordError: E102 for bad JSON or a wrong value, E103 for a missing or unknown field.
    """
    return _validate(model, parse(data, place), place)


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, bytes without the line end); refuses over-long lines and a torn last line."""
    name = path.name
    if not path.is_file():
        raise RecordError("E103", name, "it is no regular file" if path.exists() else "the file is missing")
    with path.open("rb") as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            place = f"{name}:{number}"
            if len(line) > MAX_LINE_BYTES or number > MAX_LINES:
                raise RecordError(
                    "E101", place, "line or file too long", f"at most {MAX_LINE_BYTES} bytes a line"
                )
            if not line.endswith(b"\n"):
                raise RecordError("E102", place, "the last line is cut off", "was the writer killed?")
            if line.endswith(b"\r\n"):
                raise RecordError("E102", place, "the line ends with CR LF", "lines end with LF alone")
            yield number, line[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmView:
    """The lines of one (arm, seed): what every metric is computed from."""

    arm: str
    seed: int
    devices: tuple[str, ...]
    start_ns: int
    stop_ns: int
    events: tuple[EventLine, ...]
    spans: tuple[SpanLine, ...]
    rollouts: tuple[RolloutLine, ...]
    updates: tuple[UpdateLine, ...]
    evals: tuple[EvalLine, ...]

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenants that did anything, sorted."""
        return tuple(sorted({line.tenant for line in (*self.rollouts, *self.updates, *self.evals)}))


class RunRecord:
    """A run directory; each file is parsed once, when first asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def open(cls, directory: str | Path) -> Self:
        """Opens a directory whose run.json can be read.

        Raises:
          RecordError: no such directory, or an unreadable header.
        """
        directory = Path(directory)
        if not (directory / "run.json").is_file():
            raise RecordError(
                "E101",
                str(directory),
                "no run directory here: run.json is missing",
                "give the --out of a run",
            )
        record = cls(directory)
        _ = record.header
        return record

    @cached_property
    def header(self) -> RunHeader:
        """run.json."""
        path = self.directory / "run.json"
        if not path.is_file():
            raise RecordError("E103", "run.json", "the file is missing")
        if path.stat().st_size > MAX_HEADER_BYTES:
            raise RecordError("E101", "run.json", "larger than 64 MiB")
        value = parse(path.read_bytes(), "run.json")
        if isinstance(value, dict) and value.get("schema") != SCHEMA:
            found = str(value.get("schema"))[:60]
            raise RecordError(
                "E102", "run.json", f"schema {found!r} is not {SCHEMA!r}", "use the version that wrote it"
            )
        return _validate(RunHeader, value, "run.json")

    @cached_property
    def events(self) -> list[EventLine]:
        """events.jsonl."""
        return self._lines("events.jsonl", EventLine)

    @cached_property
    def spans(self) -> list[SpanLine]:
        """spans.jsonl."""
        return self._lines("spans.jsonl", SpanLine)

    @cached_property
    def rollouts(self) -> list[RolloutLine]:
        """rollouts.jsonl."""
        return self._lines("rollouts.jsonl", RolloutLine)

    @cached_property
    def updates(self) -> list[UpdateLine]:
        """updates.jsonl."""
        return self._lines("updates.jsonl", UpdateLine)

    @cached_property
    def evals(self) -> list[EvalLine]:
        """evals.jsonl."""
        return self._lines("evals.jsonl", EvalLine)

    @cached_property
    def views(self) -> list[ArmView]:
        """One view per (arm, seed), in the order in which they started."""
        found = {(e.arm, e.seed): e.t_ns for e in self.events if e.key == "run_start"}
        stops = {(e.arm, e.seed): e.t_ns for e in self.events if e.key == "run_stop"}
        all_events, all_spans = _by_run(self.events), _by_run(self.spans)
        all_rollouts, all_updates, all_evals = (
            _by_run(self.rollouts),
            _by_run(self.updates),
            _by_run(self.evals),
        )
        views: list[ArmView] = []
        for key, start in found.items():
            events, spans = tuple(all_events.get(key, ())), tuple(all_spans.get(key, ()))
            updates = tuple(all_updates.get(key, ()))
            # a killed run has no run_stop; its window ends with the last thing it recorded
            ends = [e.t_ns for e in events] + [s.t1_ns for s in spans] + [u.t1_ns for u in updates]
            views.append(
                ArmView(
                    arm=key[0],
                    seed=key[1],
                    devices=tuple(device.id for device in self.header.devices),
                    start_ns=start,
                    stop_ns=stops.get(key, max(ends, default=start)),
                    events=events,
                    spans=spans,
                    rollouts=tuple(all_rollouts.get(key, ())),
                    updates=updates,
                    evals=tuple(all_evals.get(key, ())),
                )
            )
        return views

    def view(self, arm: str, seed: int) -> ArmView:
        """Returns the view of one (arm, seed); KeyError where it never started."""
        for view in self.views:
            if (view.arm, view.seed) == (arm, seed):
                return view
        raise KeyError(f"{arm}, seed {seed} never started in {self.directory}")

    def _lines(self, name: str, model: type[L]) -> list[L]:
        with keeping_all():
            return [
                _validate(model, parse(data, f"{name}:{number}"), f"{name}:{number}")
                for number, data in read_lines(self.directory / name)
            ]


class SealedRecord(RunRecord):
    """A record that was verified before, and is byte for byte what was sealed then: read three times as fast.

    What `parse` refuses beside the schema (a key twice, numbers of 64 bits and more) was refused then.
    """

    def _lines(self, name: str, model: type[L]) -> list[L]:
        found: list[L] = []
        try:
            with keeping_all():
                found.extend(model.model_validate_json(data) for _, data in read_lines(self.directory / name))
        except ValidationError as error:
            raise RecordError(
                "E102", name, f"a line that no verified record holds: {error.errors()[0]['msg']}"
            ) from error
        return found


@contextmanager
def keeping_all() -> Iterator[None]:
    """Nothing read is garbage, and looking for it among a million new objects takes a fifth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def event_chain(path: Path) -> Iterator[tuple[int, str, EventLine]]:
    """Yields (line number, prev that the line should hold, event) of an events file."""
    expected = canonical.GENESIS
    for number, data in read_lines(path):
        yield number, expected, read_model(EventLine, data, f"{path.name}:{number}")
        expected = canonical.sha256(data)


def _by_run(lines: list[R]) -> dict[tuple[str, int], list[R]]:
    split: dict[tuple[str, int], list[R]] = {}
    for line in lines:
        split.setdefault((line.arm, line.seed), []).append(line)
    return split


def _validate(model: type[L], value: Any, place: str) -> L:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if not first["loc"]:
            raise RecordError("E102", place, "not a JSON object") from error
        where = ".".join(str(part) for part in first["loc"])[:120]
        code = "E103" if first["type"] in ("missing", "extra_forbidden") else "E102"
        raise RecordError(code, place, f"{where!r}: {first['msg']}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _in_range(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{text[:20]}… is outside 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:20]} overflows a float")
    return value


def _deeper_than(value: Any, levels: int) -> bool:
    """Breadth first, so that depth costs no stack."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            child
            for node in layer
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not layer:
            return False
    return True
