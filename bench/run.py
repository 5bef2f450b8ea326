"""`bench run`: the matrix of arms and seeds, interleaved, recorded, and ended in order whatever happens."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import tasks
from bench import models
from bench.arms import labels, repeated, timetable
from bench.config import Resolved, RunConfig, suite_info
from bench.errors import RecordingError, Terminated
from bench.progress import Progress
from bench.record import ArmResult, Checkpointing
from bench.recorder import RunRecorder
from bench.report import write_figure
from bench.resume import Journal, Point
from bench.secret import scrubbed
from bench.trackers.base import Tracker
from bench.trackers.conclusion import conclude
from leaderboard import bundle, metrics
from leaderboard.records import RunRecord
from leaderboard.rescore import task_info
from leaderboard.schema import SCHEMA
from tasks import sandbox
from tunix_core.clock import clock_ns
from tunix_core.errors import TunixError

if TYPE_CHECKING:
    from bench.compose import Prepared

SUITE_VERSION = "0.1"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid() -> str:
    """A sortable unique id: 48 bits of milliseconds, 80 random bits, Crockford base 32."""
    value = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -5, -5))


def order(arms: Sequence[str], seeds: int) -> list[tuple[str, int]]:
    """ABBA: the order of arms turns round with every seed, so that a drift of the machine favours none."""
    return [(arm, s) for s in range(seeds) for arm in (arms if s % 2 == 0 else tuple(reversed(arms)))]


def planned(config: RunConfig) -> list[tuple[str, int]]:
    """Every (arm, seed) of a run in order, the repeats of the A/A pair among them."""
    return order(labels(config.arms, config.seeds, config.aa), config.seeds)


@dataclass(slots=True)
class Stop:
    """Set by a signal or a deadline; asked between two dispatches. A second signal doesn't wait for that."""

    signal: int | None = None
    max_time_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def asked(self) -> bool:
        """Whether to stop now."""
        return self.signal is not None or self._late()

    def reason(self) -> str:
        """Who asked."""
        if self.signal is not None:
            return f"stopped by {signal.Signals(self.signal).name}"
        return f"stopped after max_time {self.max_time_s:g} s" if self._late() else "stopped"

    def _late(self) -> bool:
        return self.max_time_s is not None and self.clock() - self._began > self.max_time_s

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Catches SIGINT and SIGTERM while the run lasts."""

        def handler(number: int, frame: FrameType | None) -> None:
            del frame
            again, self.signal = self.signal is not None, number
            if again:
                raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
            # no stream: the interrupted code may be in the middle of writing to it
            os.write(2, b"stopping after this step (a compilation may take a minute); once more: at once\n")

        old = {n: signal.signal(n, handler) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for n, previous in old.items():
                signal.signal(n, previous)


@dataclass(slots=True)
class Outcome:
    """How the matrix ended."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    status: str = "success"
    reason: str = ""
    defect: Exception | None = None
    """An error nobody foresaw; raised again once the record is sealed."""

    def end(self, status: str, reason: str) -> None:
        """The first end counts."""
        if self.status == "success":
            self.status, self.reason = status, reason


def run(
    resolved: Resolved,
    prepared: Prepared,
    directory: Path,
    *,
    run_id: str,
    run_arm: Callable[..., ArmResult],
    command: Sequence[str],
    stop: Stop,
    progress: Progress,
    open_tracker: Callable[[Mapping[str, Any]], Tracker],
    limit_applied: bool = False,
    warm_up: Callable[[Prepared, Callable[[], bool]], Mapping[str, Any]] | None = None,
    journal: Journal | None = None,
    point: Point | None = None,
) -> RunRecord:
    """Runs the whole matrix and seals the directory; the record tells how it ended.

    `warm_up` is done once before the first arm's clock, where there are arms to compare. With a `journal` the
    run can be resumed, whatever ends it; with a `point` it goes on from there.

    Whatever ends an (arm, seed) early (a signal, a stalled environment, a full disk): what was recorded
    before it stays, and the directory is sealed all the same. Raises UsageError, with nothing written, if the
    directory can't be used, and RecordingError if even the end can't be written.
    """
    recorder = RunRecorder(directory, point.kept if point else None)
    try:
        if point is None:
            header = first_header(resolved, prepared, run_id, command, limit_applied)
            recorder.write_json("system.json", system())
            if (spellings := models.spellings(resolved.config.model)) is not None:
                recorder.write_json("vocabulary.json", {"spellings": spellings})
        else:
            header = point.header
        recorder.write_header(header)
        # not earlier: a tracker that has started has left its own traces
        tracker = open_tracker(header)
    except BaseException:
        if point is None:
            recorder.discard()
        raise
    recorder.on_row = tracker.log
    if warm_up is not None and len(planned(resolved.config)) > 1:
        progress.note("warming up: what a process does only once, before any arm is timed")
        try:
            done = dict(warm_up(prepared, stop.asked))
            header["warmup"] = header.get("warmup") or done
        except TunixError as e:
            # the arms would fail the same way; the record of the first says so
            recorder.warnings.append(f"warm-up: {type(e).__name__}: {e}")
    outcome = _matrix(resolved, prepared, recorder, run_arm, stop, progress, journal, point)
    _end(recorder, header, outcome, tracker, resolved.config.tracker)
    if outcome.defect is not None:
        raise outcome.defect
    if journal is not None and outcome.status == "success":
        journal.remove()
    return RunRecord.open(directory)


def _matrix(
    resolved: Resolved,
    prepared: Prepared,
    recorder: RunRecorder,
    run_arm: Callable[..., ArmResult],
    stop: Stop,
    progress: Progress,
    journal: Journal | None = None,
    point: Point | None = None,
) -> Outcome:
    outcome = Outcome(runs=list(point.runs), settings=dict(point.settings)) if point else Outcome()
    done = {(run["arm"], run["seed"]) for run in outcome.runs}
    if journal is not None:
        recorder.on_checkpoint = lambda arm, seed, step: journal.mark(arm, seed, step, recorder)
    for arm, seed in planned(resolved.config):
        if (arm, seed) in done:
            continue
        begun = point.begun if point and point.at and point.at[:2] == (arm, seed) else None
        more = (
            {}
            if journal is None
            else {"checkpoints": Checkpointing(journal.checkpoints(arm, seed), begun is not None)}
        )
        name = f"{arm} seed {seed}"
        if stop.asked():
            outcome.end("interrupted", f"{stop.reason()} before {name}")
            break
        progress.begin(arm, seed)
        sink = recorder.sink(arm, seed, progress.update, begun)
        try:
            result = run_arm(prepared, arm, seed, sink, stop.asked, **more)
            sink.finish()
        except KeyboardInterrupt:
            outcome.end("interrupted", f"{stop.reason()} during {name}")
            break
        except (TunixError, RecordingError) as e:
            outcome.end("error", f"{name}: {type(e).__name__}: {e}")
            break
        except Exception as e:  # noqa: BLE001 kept, and raised again once the record is sealed
            outcome.end("error", f"{name}: {type(e).__name__}: {e}")
            outcome.defect = e
            break
        start, end = sink.window(result.t_start_ns, result.t_stop_ns)
        entry = {**result.as_run(arm, seed), "t_start_ns": start, "t_stop_ns": end}
        outcome.runs.append(entry)
        if entry["settings_sha256"] is not None:
            outcome.settings[entry["settings_sha256"]] = dict(result.settings)
        seconds = (end - start) / 1e9
        progress.note(f"{name}: {result.status} after {seconds:.1f} s")
        if result.status != "success":
            why = stop.reason() if result.status == "interrupted" else result.status
            outcome.end(result.status, result.reason or f"{why} during {name}")
            break
        if not any(books["consumed"]["rollouts"] for books in result.ledger.values()):
            outcome.end("error", f"{name}: no rollout could be learnt from; all of them errored")
            break
        if journal is not None:
            try:
                recorder.queue(recorder.write_sync)
                recorder.drain()
            except RecordingError as e:
                outcome.end("error", f"{name}: {e}")
                break
            journal.done(outcome.runs, outcome.settings, recorder)
    return outcome


def _end(
    recorder: RunRecorder, header: dict[str, Any], outcome: Outcome, tracker: Tracker, tracker_name: str
) -> None:
    try:
        recorder.close()
    except RecordingError as e:
        outcome.end("error", str(e))
    if recorder.nonfinite:
        recorder.warnings.append(f"{recorder.nonfinite} figures were not finite and are recorded as null")
    env = dict(os.environ)
    header |= {
        "runs": outcome.runs,
        "settings": outcome.settings,
        "clock": {**header["clock"], "wall_stop_utc": time.time(), "monotonic_stop_ns": clock_ns()},
        "warnings": recorder.warnings,
        "integrity": {"event_head": recorder.event_head, "event_count": recorder.event_count},
        "status": outcome.status,
        "status_reason": scrubbed(outcome.reason, env),
    }
    # twice, so that a fault in what follows can't cost the account of the run
    recorder.write_header(header)
    record = RunRecord.open(recorder.directory)
    header["results"] = metrics.results(record)
    tracker.conclude(partial(conclude, record, header["results"]))
    header["tracker"] = {"name": tracker_name, **asdict(tracker.finish(outcome.status))}
    recorder.write_header(header)
    if any(view.updates for view in record.views):
        write_figure(recorder.directory)
    bundle.seal(recorder.directory)


def first_header(
    resolved: Resolved, prepared: Prepared, run_id: str, command: Sequence[str], limit_applied: bool
) -> dict[str, Any]:
    """run.json before the first arm."""
    from bench.compose import devices

    config, profile = resolved.config, prepared.latency
    env = dict(os.environ)
    # read together: what is done between two readings would look like a clock that was paused
    now, now_ns = time.time(), clock_ns()
    greedy = {
        "temperature": 0.0,
        "max_new_tokens": prepared.sizes.turn,
        "items": config.eval_items,
        "split": "dev",
    }
    train = {
        "temperature": config.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "max_new_tokens": prepared.sizes.turn,
    }
    found, device_class = devices()
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "suite_version": SUITE_VERSION,
        "suite": suite_info(config),
        "created_utc": datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="seconds"),
        "command": scrubbed(list(command), env),
        "config": scrubbed(config.model_dump(mode="json") | {"out": None}, env),
        "set_by": resolved.set_by,
        "official": False,
        "limit_applied": limit_applied,
        "latency": {
            "profile": config.latency,
            "simulated": profile is not None,
            "description": _describe(profile.describe())
            if profile is not None
            else "the environments' own latency",
        },
        "model": {
            "name": str(prepared.card["name"]),
            "sha256": prepared.card["sha256"],
            "tokenizer_sha256": prepared.card.get("tokenizer_sha256", ""),
            "dtype": "float32",
            "parameters": prepared.card["parameters"],
            "prompts": {}
            if config.model == models.EMBEDDED
            else models.prompts(prepared.renderer, (e for t in prepared.tenants for e in t.env_ids)),
        },
        "tenants": [
            {
                "tenant": t.tenant_id,
                "env_ids": list(t.env_ids),
                "level": None,
                "group_size": t.group_size,
                "groups_per_update": t.groups_per_update,
                "updates": t.updates,
                "weight": t.weight,
                "target": _target(config, place),
                "settings": {
                    part: {f: getattr(getattr(t, part), f) for f in getattr(t, part).__slots__}
                    for part in ("lora", "optimizer", "loss", "sampling")
                },
            }
            for place, t in enumerate(prepared.tenants)
        ],
        "arms": [
            {
                "arm": name,
                "tenants_at_once": spec.tenants_at_once,
                "step_barrier": spec.step_barrier,
                "max_staleness": spec.max_staleness,
                "consume": spec.consume,
                "repeats": repeated(name),
            }
            for name in labels(config.arms, config.seeds, config.aa)
            for spec in [timetable(name, config.max_staleness)]
        ],
        "seeds": list(range(config.seeds)),
        "order": [list(pair) for pair in planned(config)],
        "sampling": {"train": train, "eval": greedy},
        "tasks": {
            env_id: task_info(env_id).model_dump(mode="json")
            for env_id in sorted({e for t in prepared.tenants for e in t.env_ids})
        },
        "devices": found,
        "device_class": device_class,
        "software": software() | _sandbox(prepared),
        "clock": {
            "wall_start_utc": now,
            "wall_stop_utc": None,
            "monotonic_start_ns": now_ns,
            "monotonic_stop_ns": None,
        },
        "runs": [],
        "results": {},
        "integrity": {"event_head": "0" * 64, "event_count": 0},
        "tracker": {},
        "warnings": [],
        "status": "running",
        "status_reason": "",
    }


def _target(config: RunConfig, place: int) -> float | None:
    """Tenants share the tasks in turn, and so their targets."""
    return (config.targets or {}).get(config.tasks[place % len(config.tasks)])


def _describe(profile: Mapping[str, Any]) -> str:
    return f"simulated: {profile['form']}, {profile['unit']}, seed {profile['seed']}"


def software() -> dict[str, Any]:
    """Versions of what computes the results."""
    names = ("jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "bm25s", "safetensors")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in names},
    }


def _sandbox(prepared: Prepared) -> dict[str, Any]:
    """Where programs that a model wrote are run; nothing where no task runs any."""
    env_ids = {env_id for tenant in prepared.tenants for env_id in tenant.env_ids}
    if not any(tasks.get(env_id).sandboxed for env_id in env_ids):
        return {}
    found = sandbox.capability()
    return {"sandbox": str(found.level), "sandbox_walls": str(found)}


def system() -> dict[str, Any]:
    """The machine, without names or paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load = list(os.getloadavg())
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": memory,
        "load_average": load,
    }
