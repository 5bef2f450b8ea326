"""Composes tasks with the trainer: a resolved config in, one trained and scored (arm, seed) out.

`prepare` checks everything that can be checked without loading a device library. `run_arm` does the rest. All
arms of a run share tenants, shapes, kernels, items and evaluation; only the timetable differs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tasks
from bench import models
from bench.arms import timetable
from bench.config import RunConfig
from bench.errors import UsageError
from bench.output import note
from bench.record import ArmResult, Checkpointing, Sink
from bench.shapes import buckets_for, grain_of, prefill_lanes
from tasks import latency, sandbox
from tasks.data.task import DataTask
from tunix_core.clock import clock_ns
from tunix_core.types import (
    EpisodeTicket,
    Event,
    LoraSpec,
    LossSpec,
    OptimizerSpec,
    SamplingSpec,
    TenantSpec,
)

if TYPE_CHECKING:
    from tunix_core.model.load import BaseModel
    from tunix_core.runspec import TrainerSpec
    from tunix_core.telemetry import Observer
    from tunix_core.tokens import Renderer
    from tunix_core.trainer import Trainer

MIN_ENV_WORKERS, MAX_ENV_WORKERS = 16, 2048
CHECKPOINT_EVERY = 10
"""Learner steps, where the buffer is durable and nothing else is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A checked plan of a run: what each tenant trains on, the latency in front of its environments, the sizes."""

    config: RunConfig
    tenants: tuple[TenantSpec, ...]
    """With the seed of seed number 0; `tenants_of` gives those of another."""
    latency: latency.LatencyProfile | None
    card: Mapping[str, Any]
    """The base model's card, its checksum verified."""
    renderer: Renderer
    """Its tokenizer, and how each task is put to it."""
    sizes: Any


def prepare(config: RunConfig) -> Prepared:
    """Checks tasks, data, latency profile and model, and sizes the run; loads no device library.

    Raises the parts' own errors (unknown task, malformed profile, missing data, missing or altered model file).
    """
    from bench.sizing import sizes_of  # reads items of every task: not for `--help`

    env_ids = [tasks.resolve(name) for name in config.tasks]
    if any(tasks.get(env_id).sandboxed for env_id in env_ids):
        sandbox.capability()  # raises here, not an hour later at the first answer
    profile = latency.parse(config.latency, seed=config.seed)
    card = models.card(config.model)
    renderer = models.renderer(config.model, config.prompt, config.shots, env_ids, config.data)
    sizes = sizes_of({env_id: make_env(env_id, data=config.data) for env_id in env_ids}, renderer)
    count = config.tenants if config.tenants is not None else len(env_ids)
    names = [f"{config.tasks[i % len(env_ids)]}" for i in range(count)]
    tenants = tuple(
        TenantSpec(
            tenant_id=name if names.count(name) == 1 else f"{name}-{names[:i].count(name)}",
            env_ids=(env_ids[i % len(env_ids)],),
            seed=i,
            group_size=config.group_size,
            groups_per_update=config.groups_per_update,
            updates=config.updates,
            lora=LoraSpec(rank=config.lora_rank, alpha=config.lora_alpha),
            optimizer=OptimizerSpec(learning_rate=config.learning_rate, warmup_updates=config.warmup_updates),
            loss=LossSpec(policy=config.loss, advantage=config.advantage),
            sampling=SamplingSpec(temperature=config.temperature, max_new_tokens=sizes.turn),
        )
        for i, name in enumerate(names)
    )
    return Prepared(
        config=config,
        tenants=tenants,
        latency=profile if profile.simulated else None,
        card=card,
        renderer=renderer,
        sizes=sizes,
    )


def tenants_of(prepared: Prepared, seed: int) -> tuple[TenantSpec, ...]:
    """The tenants of one seed: every tenant has a data, init and sampling stream of its own."""
    count = len(prepared.tenants)
    return tuple(
        dataclasses.replace(t, seed=(prepared.config.seed + seed) * count + i)
        for i, t in enumerate(prepared.tenants)
    )


def trainer_spec(prepared: Prepared, state: Path | None = None) -> TrainerSpec:
    """Shapes for the sizes of these tasks, the same in every arm; `state` is where checkpoints go, if any do."""
    import jax

    from bench.sizing import round_up
    from tunix_core.buffer import BufferSpec
    from tunix_core.runspec import TrainerSpec
    from tunix_core.sampler.base import SamplerSpec

    config, sizes = prepared.config, prepared.sizes
    grain = grain_of(jax.default_backend())
    lengths = [sizes.opening]
    while lengths[-1] * 3 < sizes.context:
        lengths.append(lengths[-1] * 3)
    if lengths[-1] < sizes.context:
        lengths.append(sizes.context)
    return TrainerSpec(
        sampler=SamplerSpec(
            slots=config.slots,
            part_slots=grain.part_slots,
            prefill_lanes=prefill_lanes(grain, config.slots, sizes.context),
            prefill_lengths=tuple(lengths),
            max_new_tokens=sizes.turn,
            workers=grain.workers,
        ),
        buckets=buckets_for(round_up(sizes.episode, 16), grain),
        workers=grain.workers,
        runtime=config.runtime,
        env_workers=config.env_workers or env_workers(config, len(prepared.tenants)),
        no_progress_s=config.no_progress_s,
        in_flight_updates=config.in_flight_updates,
        snapshot_every=config.eval_every,
        buffer=BufferSpec(store=config.buffer if state else "memory"),
        checkpoint_dir=state,
        checkpoint_every=_checkpoint_every(config) if state else 0,
        checkpoint_s=config.checkpoint_s if state else 0.0,
    )


def _checkpoint_every(config: RunConfig) -> int:
    """Learner steps; 0 = no state is kept while a run lasts."""
    if config.checkpoint_every is not None:
        return config.checkpoint_every
    return CHECKPOINT_EVERY if config.buffer == "durable" else 0


def env_workers(config: RunConfig, tenants: int) -> int:
    """A thread for every episode that admission allows under way at once, the same in every arm.

    A waiting environment costs a thread's stack and nothing else; fewer threads than episodes would add a queue to
    the latency (Little's law: episodes under way = rate x time in the environment).
    """
    under_way = tenants * config.groups_per_update * config.group_size * (1 + config.max_staleness)
    return max(MIN_ENV_WORKERS, min(MAX_ENV_WORKERS, under_way))


def make_env(env_id: str, profile: latency.LatencyProfile | None = None, *, data: str | None = None) -> Any:
    """A task's environment; `data` goes to the tasks that read a data set, the others have none to read."""
    reads = data is not None and isinstance(tasks.get(env_id), DataTask)
    return tasks.make(env_id, profile, data=data if reads else None)


def env_factory(prepared: Prepared, *, simulate: bool) -> Callable[[EpisodeTicket], Any]:
    """Environments of tickets, behind the simulated latency in training, without it in evaluation."""

    def build(ticket: EpisodeTicket) -> Any:
        profile = prepared.latency if simulate else None
        env = make_env(ticket.env_id, profile, data=prepared.config.data)
        return _Keyed(env, ticket.sample_index) if simulate and prepared.latency is not None else env

    return build


class _Keyed:
    """Names the sample in `reset`, so that the simulated delays of a group's members differ."""

    def __init__(self, env: Any, sample_index: int) -> None:
        self._env, self._sample_index = env, sample_index

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        return self._env.reset(seed=seed, options={**(options or {}), "sample_index": self._sample_index})

    def step(self, action: str) -> Any:
        return self._env.step(action)

    def close(self) -> None:
        self._env.close()


def devices() -> tuple[list[dict[str, Any]], str]:
    """The devices of a run as run.json tells them, and their class."""
    import jax

    found = jax.devices()[:1]  # one device serves both roles
    kinds = {"cpu": "cpu-sim", "gpu": "gpu", "tpu": "tpu"}
    return (
        [{"id": f"{d.platform}:{d.id}", "kind": d.device_kind, "memory_bytes": None} for d in found],
        kinds.get(found[0].platform, "gpu"),
    )


def keep_compiled(setting: str) -> None:
    """Uses the folder of compiled programs that `compile_cache` names, if any.

    A folder that can't be written is an error where it was named, and a warning where it was our choice.
    """
    from tunix_core import compile_cache

    if setting == "off":
        return
    folder = compile_cache.default_folder() if setting == "auto" else Path(setting).expanduser()
    try:
        compile_cache.use(folder)
    except OSError as error:
        if setting != "auto":
            raise UsageError(
                f"compile_cache {setting!r} cannot be written: {error.strerror}",
                "name another folder, or 'off'",
            ) from error
        note(f"compiled programs are not kept: {folder} cannot be written ({error.strerror})")


@functools.lru_cache(maxsize=1)
def load_model(name: str) -> tuple[BaseModel, Any]:
    """The base model and its weights on the device; one copy a process, shared by every arm."""
    import jax

    base = models.base(name)
    return base, jax.device_put(base.params)


def warm_up(prepared: Prepared, should_stop: Callable[[], bool]) -> dict[str, Any]:
    """Does what a process does only once before any arm is timed: loads, compiles, runs one unrecorded update.

    Without it the first arm of a run would pay for the others. Returns what run.json holds under `warmup`.
    """
    from tunix_core.telemetry import NullObserver, compile_counter

    t0 = clock_ns()
    counter = compile_counter()
    keep_compiled(prepared.config.compile_cache)
    hits, compiled = counter.cache_hits, counter.real
    tenants = tuple(dataclasses.replace(t, updates=1, groups_per_update=1) for t in tenants_of(prepared, 0))
    trainer = _trainer(prepared, "S1", tenants, NullObserver(), should_stop, simulate=False)
    t1 = clock_ns()
    trainer.warm_up()
    t2 = clock_ns()
    trainer.run()
    return {
        "seconds": (clock_ns() - t0) / 1e9,
        "compile_s": (t2 - t1) / 1e9,
        "compile_cache_hits": counter.cache_hits - hits,
        "programs_compiled": counter.real - compiled,
    }


def built_with(prepared: Prepared, spec: TrainerSpec, tenants: tuple[TenantSpec, ...]) -> dict[str, Any]:
    """What an arm was really built with, as plain JSON: the same in every arm, or they cannot be compared."""
    trainer = dataclasses.asdict(spec)
    for place in ("checkpoint_dir", "checkpoint_every"):
        trainer.pop(place)
    return {
        "trainer": trainer,
        "tenants": {
            t.tenant_id: {k: v for k, v in dataclasses.asdict(t).items() if k not in ("tenant_id", "seed")}
            for t in tenants
        },
        "latency": None if prepared.latency is None else prepared.latency.describe(),
        "evaluation": {"items": prepared.config.eval_items, "max_new_tokens": prepared.sizes.turn},
    }


def _trainer(
    prepared: Prepared,
    arm: str,
    tenants: tuple[TenantSpec, ...],
    observer: Observer,
    should_stop: Callable[[], bool],
    *,
    simulate: bool = True,
    state: Path | None = None,
) -> Trainer:
    from tunix_core.trainer import Trainer

    base, params = load_model(prepared.config.model)
    return Trainer(
        base,
        params,
        tenants,
        timetable(arm, prepared.config.max_staleness),
        env_factory(prepared, simulate=simulate),
        prepared.renderer,
        trainer_spec(prepared, state),
        observer=observer,
        should_stop=should_stop,
    )


def run_arm(
    prepared: Prepared,
    arm: str,
    seed: int,
    sink: Sink,
    should_stop: Callable[[], bool],
    checkpoints: Checkpointing | None = None,
) -> ArmResult:
    """Trains one (arm, seed), then scores its adapter snapshots; lines go to the sink as they come.

    The clock covers training alone and never pauses; snapshots are scored after it has stopped, and carry
    the time at which they were taken.
    """
    from bench.evaluate import evaluate
    from tunix_core.telemetry import compile_counter

    config = prepared.config
    t0 = clock_ns()
    keep_compiled(config.compile_cache)
    hits = compile_counter().cache_hits
    load_model(config.model)
    tenants = tenants_of(prepared, seed)
    compiled = compile_counter().real
    state = None if checkpoints is None else checkpoints.directory
    trainer = _trainer(prepared, arm, tenants, sink, should_stop, state=state)
    if checkpoints is not None and checkpoints.resume:
        restored = trainer.restore()
        again = {name: list(ordinals) for name, ordinals in restored.redrawn.items()}
        value = {"step": restored.step, "updates": dict(restored.updates), "redrawn": again}
        sink.event(Event(key="resumed", t_ns=clock_ns(), value=value))
        groups = sum(map(len, again.values()))
        note(f"{arm} seed {seed}: restored after step {restored.step}, {groups} groups are drawn again")
    t1 = clock_ns()
    trainer.warm_up()
    t2 = clock_ns()
    hits = compile_counter().cache_hits - hits
    compiled = compile_counter().real - compiled
    result = trainer.run()
    hashes: dict[str, dict[str, str]] = {}
    for snapshot in result.snapshots:
        a = snapshot.adapter
        first = a.tenant_id not in hashes
        hashes.setdefault(a.tenant_id, {"initial_sha256": a.sha256})["final_sha256"] = a.sha256
        if first or a.version == config.updates:
            sink.adapter(a.tenant_id, "initial" if first else "final", a.version, a.factors)
    if result.status != "interrupted":
        evaluate(prepared, tenants, trainer.sampler, result.snapshots, sink, should_stop)
    status = "interrupted" if should_stop() and result.status == "success" else result.status
    return ArmResult(
        status={"tenant_stopped": "error"}.get(status, status),
        reason=result.reason,
        t_start_ns=result.t_start_ns,
        t_stop_ns=result.t_stop_ns,
        init_s=(t1 - t0) / 1e9,
        compile_s=(t2 - t1) / 1e9,
        compile_cache_hits=hits,
        programs_compiled=compiled,
        settings=built_with(prepared, trainer.spec, tenants),
        recompiles_after_warmup=sum(result.recompiles.values()),
        ledger=result.ledgers,
        updates=result.updates,
        adapters=hashes,
    )
