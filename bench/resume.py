"""What lets a run that was stopped, or killed, go on: checkpoints beside its record, and how far the record had come.

`<DIR>.state` holds the trainer's checkpoints of the (arm, seed) under way, a mark for each of them (the
length of every line file when it was taken) and the entries of those that are done. Resuming cuts the lines
back to the newest mark whose checkpoint is whole: what came after is done again. It is deleted when the run
has succeeded.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import RejectedError, UsageError
from bench.record import leaves
from bench.recorder import Begun, Kept, RunRecorder
from bench.secret import HIDDEN
from leaderboard import bundle, canonical
from leaderboard.records import parse
from leaderboard.schema import LINES

FILES = (*LINES, "metrics.jsonl")
SAME = (
    *("schema", "suite_version", "suite", "config", "latency", "model", "tenants", "arms", "seeds", "order"),
    *("sampling", "tasks", "devices", "device_class", "software"),
)
"""Of run.json: what a process must have in common with the one whose run it goes on with."""
LONG = 60
"""Characters of a value in a message."""
FREE = ("out", "max_time", "tracker", "require_tracker", "no_progress_s", "compile_cache", "checkpoint_s")
"""Keys of the configuration that change no line of a record."""


def state_directory(run: Path) -> Path:
    """Beside the record and not in it: a record is sealed and small, this is neither."""
    return run.with_name(f"{run.name}.state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a run goes on."""

    header: dict[str, Any]
    runs: list[dict[str, Any]]
    """Entries of the (arm, seed) that are done; they are not run again."""
    settings: dict[str, Any]
    """Of run.json, of those that are done."""
    at: tuple[str, int, int] | None
    """(arm, seed) under way and the learner step of its checkpoint; None: the next begins anew."""
    kept: Kept
    begun: Begun | None
    stopped_ns: int
    """The last that was recorded, kept or not."""
    dropped_lines: int


class Journal:
    """The folder beside a run directory. One process at a time has it."""

    def __init__(self, directory: Path) -> None:
        """Raises UsageError where another process has it, which then still runs."""
        resolved = directory.resolve()
        self.directory = directory
        self.folder = state_directory(resolved)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise UsageError(f"{directory} is being written by another process", "wait for its end") from None

    def checkpoints(self, arm: str, seed: int) -> Path:
        """Where the trainer's checkpoints of an (arm, seed) go."""
        return self.folder / f"{arm}.s{seed}"

    def mark(self, arm: str, seed: int, step: int, recorder: RunRecorder) -> None:
        """The lines that belong to a checkpoint are on the disk."""
        self._write(f"mark.{arm}.s{seed}.{step}.json", {"at": [arm, seed, step], **_extent(recorder)})

    def done(
        self, runs: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], recorder: RunRecorder
    ) -> None:
        """An (arm, seed) has succeeded, and its lines are on the disk; its checkpoints aren't needed any more."""
        self._write("done.json", {"runs": list(runs), "settings": settings, **_extent(recorder)})
        arm, seed = runs[-1]["arm"], runs[-1]["seed"]
        shutil.rmtree(self.checkpoints(arm, seed), ignore_errors=True)
        for mark in self.folder.glob(f"mark.{arm}.s{seed}.*"):
            mark.unlink()

    def remove(self) -> None:
        """Nothing is left to go on with."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Lets another process have it, and leaves nothing where nothing was kept; twice is once."""
        if self._lock >= 0:
            if [path.name for path in self.folder.glob("*")] == ["lock"]:
                shutil.rmtree(self.folder)
            os.close(self._lock)
            self._lock = -1

    def find(self) -> Point:
        """Where the run goes on; changes nothing. Raises UsageError where it can't."""
        path = self.directory / "run.json"
        if not path.is_file():
            raise UsageError(f"{self.directory} holds no run.json", "nothing was begun there: 'bench run'")
        header = parse(path.read_bytes(), "run.json")
        if header.get("status") == "success":
            raise UsageError(f"the run in {self.directory} has succeeded", "there is nothing to resume")
        done = self._read("done.json") or {
            "runs": [],
            "settings": {},
            "sizes": dict.fromkeys(FILES, 0),
            "warnings": [],
            "nonfinite": 0,
        }
        found = {(run["arm"], run["seed"]) for run in done["runs"]}
        marks = [
            mark
            for path in self.folder.glob("mark.*.json")
            if (mark := self._read(path.name)) is not None
            and tuple(mark["at"][:2]) not in found
            and (self.checkpoints(*mark["at"][:2]) / str(mark["at"][2])).is_dir()
        ]
        mark = max(marks, key=lambda mark: mark["sizes"]["events.jsonl"], default=done)
        at = tuple(mark["at"]) if "at" in mark else None
        for name in FILES:
            size = (self.directory / name).stat().st_size if (self.directory / name).is_file() else -1
            if size < mark["sizes"][name]:
                raise RejectedError(
                    f"{name} is shorter than its run had written it", "start a new run instead"
                )
        kept = _lines(self.directory / "events.jsonl", mark["sizes"]["events.jsonl"])
        last = kept[-1] if kept else b""
        return Point(
            header=header,
            runs=done["runs"],
            settings=done["settings"],
            at=at,
            kept=Kept(
                sizes=mark["sizes"],
                event_head=canonical.sha256(last) if last else canonical.GENESIS,
                event_count=len(kept),
                warnings=tuple(mark["warnings"]),
                nonfinite=mark["nonfinite"],
            ),
            begun=_begun(self.directory, mark["sizes"], at) if at else None,
            stopped_ns=_last_ns(self.directory),
            dropped_lines=sum(
                len(_lines(self.directory / name)) - len(_lines(self.directory / name, mark["sizes"][name]))
                for name in LINES
            ),
        )

    def clear(self, point: Point) -> None:
        """Takes away what belongs to the lines that are cut: newer checkpoints, seal, figure, half-written files."""
        for name in (bundle.MANIFEST, "figure.svg"):
            (self.directory / name).unlink(missing_ok=True)
        for path in self.directory.rglob(".*.part"):
            path.unlink()
        under_way = self.checkpoints(*point.at[:2]) if point.at else None
        for folder in (path for path in self.folder.iterdir() if path.is_dir()):
            if folder != under_way:
                shutil.rmtree(folder)
                continue
            for step in folder.iterdir():
                # a durable buffer lies there too, and is kept
                if step.name[:1].isdigit() and step.name != str(point.at[2] if point.at else None):
                    shutil.rmtree(step)
        for path in self.folder.glob("mark.*.json"):
            mark = self._read(path.name)
            if mark is None or tuple(mark["at"]) != point.at:
                path.unlink()

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        bundle.write_atomically(self.folder / name, canonical.encode(value) + b"\n")

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        return json.loads(path.read_bytes()) if path.is_file() else None


def drift(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between run.json and what this process would have written: 'key: was …, is …'.

    Where the configuration differs, that alone: the rest follows from it.
    """
    # as JSON has it: tuples are lists there
    old, new = (
        dict(leaves(json.loads(json.dumps({key: header.get(key) for key in SAME}))))
        for header in (before, now)
    )
    free = {f"config.{key}" for key in FREE}
    keys = [
        key for key in sorted(old.keys() | new.keys()) if key not in free and old.get(key) != new.get(key)
    ]
    of_config = [key for key in keys if key.startswith("config.")]
    return [f"{key}: was {_brief(old.get(key))}, is {_brief(new.get(key))}" for key in of_config or keys]


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def config_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a record, as it was before it was scrubbed. Raises UsageError where that is lost."""
    if HIDDEN in json.dumps(header["config"]):
        hint = "'bench run --resume' with the options it was begun with"
        raise UsageError("the record hides a secret of its configuration", hint)
    return {
        key: os.path.expanduser(value) if isinstance(value, str) and value.startswith("~/") else value
        for key, value in header["config"].items()
    }


def _extent(recorder: RunRecorder) -> dict[str, Any]:
    return {"sizes": recorder.sizes, "warnings": recorder.warnings, "nonfinite": recorder.nonfinite}


def _lines(path: Path, size: int | None = None) -> list[bytes]:
    """The whole lines of a file's first bytes; the last may be torn."""
    return path.read_bytes()[:size].split(b"\n")[:-1]


def _last_ns(directory: Path) -> int:
    """Of events and spans."""
    events = [json.loads(line)["t_ns"] for line in _lines(directory / "events.jsonl")[-1:]]
    spans = [json.loads(line)["t1_ns"] for line in _lines(directory / "spans.jsonl")[-1:]]
    return max([*events, *spans], default=0)


def _begun(directory: Path, sizes: Mapping[str, int], at: tuple[str, int, int]) -> Begun | None:
    marks: dict[str, int] = {}
    for line in map(json.loads, _lines(directory / "events.jsonl", sizes["events.jsonl"])):
        if (line["arm"], line["seed"]) == at[:2] and line["key"] in ("run_start", "run_stop"):
            marks[line["key"]] = line["t_ns"]
    consumed: Counter[str] = Counter()
    for line in map(json.loads, _lines(directory / "rollouts.jsonl", sizes["rollouts.jsonl"])):
        if (line["arm"], line["seed"], line["fate"]) == (*at[:2], "consumed"):
            consumed[line["tenant"]] += 1
    return Begun(start_ns=marks["run_start"], stop_ns=marks.get("run_stop"), consumed=dict(consumed))
