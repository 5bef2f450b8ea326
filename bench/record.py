"""Writes the run directory: every line is on its way to disk before any tracker sees it.

Lines are appended and flushed as they come and synced at every update; `run.json` is replaced whole. What a run
leaves behind is therefore readable wherever it was stopped.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from safetensors.numpy import save_file

from bench.errors import UsageError
from leaderboard import bundle, canonical
from leaderboard.schema import LINES, RunHeader
from tunix_core.types import Event, Span, Trajectory, Turn, UpdateReport

LOGPROB_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRecord:
    """One evaluated item of one adapter snapshot; `eval_id` 0 is before training."""

    tenant: str
    eval_id: int
    version: int
    samples: int
    snapshot_ns: int
    trajectory: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """How one (arm, seed) ended; becomes an entry of `runs` in run.json."""

    status: str
    reason: str
    t_start_ns: int
    t_stop_ns: int
    init_s: float
    compile_s: float
    recompiles_after_warmup: int
    ledger: Mapping[str, Mapping[str, Mapping[str, int]]]
    """Per tenant: 'generated' and every fate, each with 'groups', 'rollouts' and 'tokens'."""
    updates: Mapping[str, int]
    adapters: Mapping[str, Mapping[str, str]]

    def as_run(self, arm: str, seed: int) -> dict[str, Any]:
        """The JSON of run.json's `runs`."""
        fates = ("generated", "consumed", "stale", "filtered", "errored", "surplus")
        return {
            "arm": arm,
            "seed": seed,
            "status": self.status,
            "reason": self.reason,
            "t_start_ns": self.t_start_ns,
            "t_stop_ns": self.t_stop_ns,
            "init_s": round(self.init_s, 6),
            "compile_s": round(self.compile_s, 6),
            "recompiles_after_warmup": self.recompiles_after_warmup,
            "ledger": {
                tenant: {unit: {fate: books[fate][unit] for fate in fates} for unit in ("rollouts", "tokens")}
                for tenant, books in self.ledger.items()
            },
            "updates": dict(self.updates),
            "adapters": {tenant: dict(hashes) for tenant, hashes in self.adapters.items()},
        }


class Sink(Protocol):
    """Receives the lines of one (arm, seed), in order of time, on the thread that drives it."""

    def event(self, event: Event) -> None:
        """A point in time."""
        ...

    def span(self, span: Span) -> None:
        """A closed interval of device work."""
        ...

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """A trajectory with its final fate."""
        ...

    def update(self, report: UpdateReport) -> None:
        """What one update did to one tenant."""
        ...

    def evaluation(self, record: EvalRecord) -> None:
        """One evaluated item."""
        ...

    def adapter(
        self, tenant: str, name: str, version: int, factors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """An adapter worth keeping."""
        ...


class RunRecorder:
    """The run directory under construction. One owner drives it."""

    def __init__(self, directory: Path, *, on_row: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Creates the directory (new or empty) and its files.

        Args:
          directory: must not exist, or be empty.
          on_row: gets each row of metrics.jsonl after it is written; trackers hang here.

        Raises UsageError when the directory holds something already or cannot be written.
        """
        self.directory = directory
        self._on_row = on_row
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise UsageError(f"--out {directory} is not empty; a run never overwrites. Name a new folder.")
            (directory / "adapters").mkdir()
            self._files: dict[str, IO[bytes]] = {
                name: (directory / name).open("ab") for name in (*LINES, "metrics.jsonl")
            }
        except OSError as e:
            raise UsageError(f"--out {directory} cannot be written: {e.strerror or e}. Name another folder.") from e
        self._head = "0" * 64
        self._seq = 0
        self.warnings: list[str] = []
        self.nonfinite = 0

    @property
    def event_head(self) -> str:
        """sha256 of the last event's line."""
        return self._head

    @property
    def event_count(self) -> int:
        """Events written."""
        return self._seq

    def sink(
        self, arm: str, seed: int, on_update: Callable[[UpdateReport], None] = lambda report: None
    ) -> ArmSink:
        """Where one (arm, seed) writes to; `on_update` hears of each update after it is written."""
        return ArmSink(self, arm, seed, on_update)

    def line(self, name: str, value: Mapping[str, Any]) -> None:
        """Appends one canonical line."""
        self._files[name].write(canonical.encode(value) + b"\n")

    def event(self, arm: str, seed: int, event: Event) -> None:
        """Appends to the hash chain."""
        line = {
            "seq": self._seq,
            "t_ns": event.t_ns,
            "arm": arm,
            "seed": seed,
            "key": event.key,
            "value": dict(event.value),
            "prev": self._head,
        }
        data = canonical.encode(line)
        self._files["events.jsonl"].write(data + b"\n")
        self._head, self._seq = hashlib.sha256(data).hexdigest(), self._seq + 1

    def row(self, row: dict[str, Any]) -> None:
        """Appends a tracker row, then hands it on."""
        self.line("metrics.jsonl", row)
        if self._on_row is not None:
            self._on_row(row)

    def sync(self) -> None:
        """Everything written so far is on disk when this returns."""
        for f in self._files.values():
            f.flush()
            os.fsync(f.fileno())

    def finite(self, x: float | None) -> float | None:
        """JSON has no NaN: null, and counted."""
        if x is None or math.isfinite(x):
            return x
        self.nonfinite += 1
        return None

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Replaces a JSON file as a whole."""
        bundle.write_atomically(self.directory / name, canonical.encode(value) + b"\n")

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Replaces run.json; the header is checked against the schema first."""
        RunHeader.model_validate(dict(header))
        self.write_json("run.json", header)

    def close(self) -> None:
        """Syncs and closes the line files."""
        if any(not f.closed for f in self._files.values()):
            self.sync()
        for f in self._files.values():
            f.close()


class ArmSink:
    """The recorder as one (arm, seed) sees it."""

    def __init__(
        self, recorder: RunRecorder, arm: str, seed: int, on_update: Callable[[UpdateReport], None]
    ) -> None:
        self._recorder, self.arm, self.seed, self._on_update = recorder, arm, seed, on_update
        self._tag = {"arm": arm, "seed": seed}

    def event(self, event: Event) -> None:
        """Appends to the hash chain."""
        self._recorder.event(self.arm, self.seed, event)

    def span(self, span: Span) -> None:
        """One line of spans.jsonl."""
        self._recorder.line(
            "spans.jsonl",
            {
                **self._tag,
                "device": span.device,
                "role": span.role,
                "t0_ns": span.t0_ns,
                "t1_ns": span.t1_ns,
                "tenants": list(span.tenants),
                "executed_slots": span.executed_slots,
                "real_tokens": span.real_tokens,
            },
        )

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """One line of rollouts.jsonl."""
        t = trajectory.ticket
        sampled = trajectory.sampled_tokens
        total = sum(len(turn.token_ids) for turn in trajectory.turns)
        self._recorder.line(
            "rollouts.jsonl",
            {
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
                "prompt_tokens": total - sampled,
                "completion_tokens": sampled,
                "env_ns": trajectory.env_ns,
                "t_start_ns": trajectory.t_start_ns,
                "t_end_ns": trajectory.t_end_ns,
            },
        )

    def update(self, report: UpdateReport) -> None:
        """One line of updates.jsonl, one row for trackers; synced."""
        names = (
            "loss grad_norm learning_rate clip_fraction is_ess max_is_weight kl logprob_gap entropy reward_mean "
            "reward_mean_kept"
        ).split()
        figures = {name: self._recorder.finite(getattr(report, name)) for name in names}
        counts = {
            name: getattr(report, name)
            for name in ("loss_tokens", "real_tokens", "executed_slots", "groups_no_signal", "invalid_rewards")
        }
        self._recorder.line(
            "updates.jsonl",
            {
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
                **counts,
                "staleness": {str(k): v for k, v in sorted(report.staleness.items())},
                "skipped": report.skipped,
            },
        )
        stale = sum(k * n for k, n in report.staleness.items()) / max(1, sum(report.staleness.values()))
        train = {f"train/{k}": v for k, v in figures.items()}
        axes = {"tenant": report.tenant_id, "work/updates": report.version_after, "time/wall_s": report.t1_ns / 1e9}
        self._recorder.row({**self._tag, **axes, **train, "stale/mean": stale})
        self._recorder.sync()
        self._on_update(report)

    def evaluation(self, record: EvalRecord) -> None:
        """One line of evals.jsonl."""
        self._recorder.line(
            "evals.jsonl",
            {
                **self._tag,
                "tenant": record.tenant,
                "eval_id": record.eval_id,
                "version": record.version,
                "samples": record.samples,
                "snapshot_ns": record.snapshot_ns,
                **self._episode(record.trajectory),
            },
        )

    def adapter(
        self, tenant: str, name: str, version: int, factors: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """adapters/<arm>.s<seed>.<tenant>.<name>.safetensors, with tenant and version as metadata."""
        path = self._recorder.directory / "adapters" / f"{self.arm}.s{self.seed}.{tenant}.{name}.safetensors"
        arrays = {f"{k}.lora_{part}": x for k, ab in factors.items() for part, x in zip("ab", ab, strict=True)}
        save_file(
            {k: np.ascontiguousarray(v) for k, v in arrays.items()},
            path,
            metadata={"tenant": tenant, "version": str(version)},
        )

    def _episode(self, trajectory: Trajectory) -> dict[str, Any]:
        t = trajectory.ticket
        return {
            "env_id": t.env_id,
            "split": t.split,
            "env_seed": t.env_seed,
            "item_index": t.item_index,
            "level": None,
            "item_uid": trajectory.item_uid,
            "turns": [_turn(turn) for turn in trajectory.turns],
            "reward": self._recorder.finite(trajectory.reward) or 0.0,
            "grade_status": trajectory.grade_status,
            "stop": str(trajectory.stop),
            "error": trajectory.error,
        }


def _turn(turn: Turn) -> dict[str, Any]:
    policy = turn.role == "policy"
    return {
        "role": turn.role,
        "text": turn.text,
        "token_ids": turn.token_ids.tolist(),
        "behavior_logprobs": [round(x, LOGPROB_DIGITS) for x in turn.behavior_logprobs.tolist()] if policy else [],
        "policy_version": turn.policy_version.tolist() if policy else [],
        "stop": None if turn.stop is None else str(turn.stop),
        "t0_ns": turn.t_start_ns,
        "t1_ns": turn.t_end_ns,
    }


