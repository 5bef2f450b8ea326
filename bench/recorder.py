"""Writes the run directory: every line is on its way to disk before any tracker sees it.

Lines are appended as they come, by a thread of their own, and synced at every update; `run.json` is replaced
whole. What a run leaves behind is therefore readable wherever it was stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from bench.errors import UsageError
from bench.record import EvalRecord
from bench.writer import LineFile, Writer, strict
from leaderboard import bundle, canonical
from leaderboard.schema import LINES, RunHeader
from tunix_core.types import Event, Fate, Span, Trajectory, Turn, UpdateReport

LOGPROB_DIGITS = 6
FIGURES = (
    "loss",
    "grad_norm",
    "learning_rate",
    "clip_fraction",
    "is_ess",
    "max_is_weight",
    "kl",
    "logprob_gap",
    "entropy",
    "ratio_mean",
    "ratio_min",
    "ratio_max",
    "rejected_fraction",
    "max_log_is_weight_raw",
    "max_log_is_weight",
    "reward_mean",
    "reward_mean_kept",
)
"""Of an update; null where they weren't finite."""
COUNTS = (
    "loss_tokens",
    "effective_loss_tokens",
    "real_tokens",
    "executed_slots",
    "groups_no_signal",
    "invalid_rewards",
    "filtered",
    "filtered_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How much of a record a resumed run goes on with."""

    sizes: Mapping[str, int]
    """Bytes by line file."""
    event_head: str
    event_count: int
    warnings: tuple[str, ...]
    nonfinite: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What the kept lines hold of an (arm, seed) that is resumed."""

    start_ns: int
    stop_ns: int | None
    """None where it was still training."""
    consumed: Mapping[str, int]
    """Rollouts learnt, by tenant."""


class RunRecorder:
    """The run directory under construction. One thread drives it; a second one writes."""

    on_row: Callable[[Mapping[str, Any]], None] | None = None
    """Gets each row of metrics.jsonl once written, on the writing thread; trackers hang here."""
    on_checkpoint: Callable[[str, int, int], None] | None = None
    """Told of an (arm, seed) and the step of its checkpoint once every line before it is on the disk."""

    def __init__(self, directory: Path, kept: Kept | None = None) -> None:
        """Creates the directory and its files; or goes on with them, from where what is kept ends.

        Raises UsageError when it isn't empty or cannot be written; then nothing is left behind.
        """
        self.directory = directory
        self.warnings: list[str] = list(kept.warnings) if kept else []
        self.nonfinite = kept.nonfinite if kept else 0
        self._files: dict[str, LineFile] = {}
        self._head, self._count = (kept.event_head, kept.event_count) if kept else (canonical.GENESIS, 0)
        if kept:
            self._made: list[Path] = []
            self._files |= {name: LineFile(directory / name, keep=size) for name, size in kept.sizes.items()}
            self._writer = Writer()
            return
        self._made = [path for path in (directory, *directory.parents) if not path.exists()]
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise UsageError(
                    f"--out {directory} is not empty; a run never overwrites", "name a new folder"
                )
            (directory / "adapters").mkdir()
            for name in (*LINES, "metrics.jsonl"):
                self._files[name] = LineFile(directory / name)
        except OSError as e:
            self._remove()
            what = f"--out {directory} cannot be written: {e.strerror or e}"
            raise UsageError(what, "name another folder") from e
        self._writer = Writer()

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each line file; those of a point in time on the writing thread, or once drained."""
        return {name: file.size for name, file in self._files.items()}

    @property
    def event_head(self) -> str:
        """sha256 of the last event's line; final once closed."""
        return self._head

    @property
    def event_count(self) -> int:
        """Events written; final once closed."""
        return self._count

    def sink(
        self,
        arm: str,
        seed: int,
        on_update: Callable[[UpdateReport], None] = lambda report: None,
        begun: Begun | None = None,
    ) -> ArmSink:
        """Where one (arm, seed) writes to; `on_update` hears of each update at once.

        `begun` is what the record has of it already, where it is resumed.
        """
        return ArmSink(self, arm, seed, on_update, begun)

    def queue(self, job: Callable[[], None]) -> None:
        """Has the writing thread do something after all that was queued before; raises RecordingError."""
        self._writer.put(job)

    def write_line(self, name: str, value: Mapping[str, Any]) -> None:
        """Appends one canonical line; for jobs on the writing thread."""
        self._files[name].append(canonical.encode(value))

    def write_event(self, tag: Mapping[str, Any], event: Event) -> None:
        """Appends to the hash chain; for jobs on the writing thread."""
        value = strict(event.value, self._saw_nonfinite)
        line = {**tag, "seq": self._count, "t_ns": event.t_ns, "key": event.key, "value": value}
        data = canonical.encode({**line, "prev": self._head})
        self._files["events.jsonl"].append(data)
        self._head, self._count = canonical.sha256(data), self._count + 1

    def write_row(self, row: Mapping[str, Any]) -> None:
        """Appends a tracker row, then hands it on; for jobs on the writing thread."""
        written = strict(row, self._saw_nonfinite)
        self.write_line("metrics.jsonl", written)
        if self.on_row is not None:
            self.on_row(written)

    def write_checkpoint(self, arm: str, seed: int, step: int) -> None:
        """Syncs, then tells of a checkpoint; for jobs on the writing thread."""
        self.write_sync()
        if self.on_checkpoint is not None:
            self.on_checkpoint(arm, seed, step)

    def write_sync(self) -> None:
        """Everything written so far is on the disk when this returns; for jobs on the writing thread."""
        for f in self._files.values():
            f.sync()

    def finite(self, x: float | None) -> float | None:
        """JSON has no NaN: null, and counted."""
        return strict(x, self._saw_nonfinite)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Replaces a JSON file as a whole, at once."""
        bundle.write_atomically(self.directory / name, canonical.encode(value) + b"\n")

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Replaces run.json, at once; the header is checked against the schema first."""
        RunHeader.model_validate(dict(header))
        self.write_json("run.json", header)

    def drain(self) -> None:
        """Returns once everything queued is written; raises RecordingError."""
        self._writer.drain()

    def close(self) -> None:
        """Writes what is queued, syncs and closes the files; raises RecordingError. Twice is once."""
        try:
            if any(not f.closed for f in self._files.values()):
                self._writer.put(self.write_sync)
            self._writer.close()
        finally:
            self._stop()

    def discard(self) -> None:
        """Takes the directory away again, when a run ends before its first header."""
        self._stop()
        self._remove()

    def _stop(self) -> None:
        self._writer.stop()
        for f in self._files.values():
            f.close()

    def _remove(self) -> None:
        made = [self.directory / name for name in (*self._files, "system.json", "run.json")]
        for path in (*made, self.directory / "adapters", *self._made):
            # what was never made isn't there, and whoever put something there meanwhile keeps it
            with contextlib.suppress(OSError):
                path.unlink() if path in made else path.rmdir()

    def _saw_nonfinite(self) -> None:
        self.nonfinite += 1


class ArmSink:
    """The recorder as one (arm, seed) sees it."""

    def __init__(
        self,
        recorder: RunRecorder,
        arm: str,
        seed: int,
        on_update: Callable[[UpdateReport], None],
        begun: Begun | None = None,
    ) -> None:
        self._recorder, self.arm, self.seed, self._on_update = recorder, arm, seed, on_update
        self._tag = {"arm": arm, "seed": seed}
        self._begun = begun
        self._start_ns = begun.start_ns if begun else 0
        self._consumed: dict[str, int] = dict(begun.consumed) if begun else {}
        self._scores: dict[tuple[str, int], list[EvalRecord]] = {}

    def event(self, event: Event) -> None:
        """Appends to the hash chain; a window that the record has is not opened or closed again."""
        begun = self._begun
        if begun and (event.key == "run_start" or (event.key == "run_stop" and begun.stop_ns is not None)):
            return
        if event.key == "run_start":
            self._start_ns = event.t_ns
        if event.key in ("run_start", "run_stop"):
            # both clocks at both ends of the window: a clock that was paused in between is found out
            event = dataclasses.replace(event, value={**event.value, "wall_utc": time.time()})
        self._recorder.queue(partial(self._recorder.write_event, self._tag, event))
        if event.key == "checkpoint":
            told = (self.arm, self.seed, int(event.value["step"]))
            self._recorder.queue(partial(self._recorder.write_checkpoint, *told))

    def window(self, start_ns: int, stop_ns: int) -> tuple[int, int]:
        """The window of this (arm, seed): the trainer's, but where an earlier process opened or closed it."""
        if self._begun is None:
            return start_ns, stop_ns
        return self._begun.start_ns, stop_ns if self._begun.stop_ns is None else self._begun.stop_ns

    def span(self, span: Span) -> None:
        """One line of spans.jsonl."""
        line = {
            **self._tag,
            "device": span.device,
            "role": span.role,
            "t0_ns": span.t0_ns,
            "t1_ns": span.t1_ns,
            "tenants": list(span.tenants),
            "executed_slots": span.executed_slots,
            "real_tokens": span.real_tokens,
        }
        self._recorder.queue(partial(self._recorder.write_line, "spans.jsonl", line))

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """One line of rollouts.jsonl."""
        if trajectory.fate is Fate.CONSUMED:
            tenant = trajectory.ticket.tenant_id
            self._consumed[tenant] = self._consumed.get(tenant, 0) + 1
        self._recorder.queue(partial(self._write_trajectory, trajectory, consumed_in, staleness))

    def update(self, report: UpdateReport) -> None:
        """One line of updates.jsonl, one row for trackers; synced."""
        samples = self._consumed.get(report.tenant_id, 0)
        self._recorder.queue(partial(self._write_update, report, samples))
        self._on_update(report)

    def evaluation(self, record: EvalRecord) -> None:
        """One line of evals.jsonl."""
        self._scores.setdefault((record.tenant, record.eval_id), []).append(record)
        self._recorder.queue(partial(self._write_evaluation, record))

    def adapter(
        self, tenant: str, name: str, version: int, factors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """adapters/<arm>.s<seed>.<tenant>.<name>.safetensors, with tenant and version as metadata."""
        path = self._recorder.directory / "adapters" / f"{self.arm}.s{self.seed}.{tenant}.{name}.safetensors"
        arrays = {
            f"{key}.lora_{part}": np.ascontiguousarray(x)
            for key, pair in factors.items()
            for part, x in zip("ab", pair, strict=True)
        }
        metadata = {"tenant": tenant, "version": str(version)}
        data = save(arrays, metadata=metadata)
        self._recorder.queue(partial(bundle.write_atomically, path, data))

    def finish(self) -> None:
        """One tracker row per evaluation, once all its items are in."""
        for (tenant, eval_id), records in sorted(self._scores.items()):
            first = records[0]
            self._recorder.queue(
                partial(
                    self._recorder.write_row,
                    {
                        **self._axes(tenant, first.version, first.samples, first.snapshot_ns),
                        "eval/id": eval_id,
                        "eval/accuracy": sum(r.trajectory.reward for r in records) / len(records),
                        "eval/items": len(records),
                    },
                )
            )

    def _axes(self, tenant: str, updates: int, samples: int, t_ns: int) -> dict[str, Any]:
        wall = max(0, t_ns - self._start_ns) / 1e9
        axes = {"tenant": tenant, "work/updates": updates, "work/samples": samples, "time/wall_s": wall}
        return {**self._tag, **axes}

    def _write_trajectory(
        self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None
    ) -> None:
        t = trajectory.ticket
        sampled = trajectory.sampled_tokens
        line = {
            **self._tag,
            "rollout_id": f"{self.arm}.s{self.seed}.{t.tenant_id}.{t.ordinal}.{t.sample_index}",
            "tenant": t.tenant_id,
            "ordinal": t.ordinal,
            "sample_index": t.sample_index,
            **self._episode(trajectory),
            "fate": str(trajectory.fate),
            "consumed_in": consumed_in,
            "oldest_version": trajectory.oldest_version,
            "staleness": staleness,
            "prompt_tokens": sum(len(turn.token_ids) for turn in trajectory.turns) - sampled,
            "completion_tokens": sampled,
            "env_ns": trajectory.env_ns,
            "t_start_ns": trajectory.t_start_ns,
            "t_end_ns": trajectory.t_end_ns,
        }
        self._recorder.write_line("rollouts.jsonl", line)

    def _write_update(self, report: UpdateReport, samples: int) -> None:
        figures = {name: self._recorder.finite(getattr(report, name)) for name in FIGURES}
        line = {
            **self._tag,
            "update_id": report.update_id,
            "tenant": report.tenant_id,
            "version_before": report.version_before,
            "version_after": report.version_after,
            "ordinals": list(report.ordinals),
            "t0_ns": report.t0_ns,
            "t1_ns": report.t1_ns,
            "published_ns": report.published_ns,
            **figures,
            **{name: getattr(report, name) for name in COUNTS},
            "staleness": {str(age): n for age, n in sorted(report.staleness.items())},
            "skipped": report.skipped,
        }
        self._recorder.write_line("updates.jsonl", line)
        tokens = sum(report.staleness.values())
        row = {
            **self._axes(report.tenant_id, report.version_after, samples, report.t1_ns),
            **{f"train/{name}": x for name, x in figures.items() if x is not None},
            "stale/mean": sum(age * n for age, n in report.staleness.items()) / tokens if tokens else 0.0,
            "stale/max": max(report.staleness, default=0),
            "pad/train": 1 - report.real_tokens / report.executed_slots if report.executed_slots else 0.0,
        }
        self._recorder.write_row(row)
        self._recorder.write_sync()

    def _write_evaluation(self, record: EvalRecord) -> None:
        line = {
            **self._tag,
            "tenant": record.tenant,
            "eval_id": record.eval_id,
            "version": record.version,
            "samples": record.samples,
            "snapshot_ns": record.snapshot_ns,
            **self._episode(record.trajectory),
        }
        self._recorder.write_line("evals.jsonl", line)

    def _episode(self, trajectory: Trajectory) -> dict[str, Any]:
        t = trajectory.ticket
        reward = self._recorder.finite(trajectory.reward)
        return {
            "env_id": t.env_id,
            "split": t.split,
            "env_seed": t.env_seed,
            "item_index": t.item_index,
            "level": None,
            "item_uid": trajectory.item_uid,
            "turns": [self._turn(turn) for turn in trajectory.turns],
            "reward": 0.0 if reward is None else reward,
            "grade_status": trajectory.grade_status,
            "stop": str(trajectory.stop),
            "error": trajectory.error,
        }

    def _turn(self, turn: Turn) -> dict[str, Any]:
        policy = turn.role == "policy"
        logprobs = turn.behavior_logprobs.tolist() if policy else []
        return {
            "role": turn.role,
            "text": turn.text,
            "token_ids": turn.token_ids.tolist(),
            "behavior_logprobs": [round(x, LOGPROB_DIGITS) for x in logprobs],
            "policy_version": turn.policy_version.tolist() if policy else [],
            "stop": None if turn.stop is None else str(turn.stop),
            "t0_ns": turn.t_start_ns,
            "t1_ns": turn.t_end_ns,
        }
