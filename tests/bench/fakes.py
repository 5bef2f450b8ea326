"""An (arm, seed) without a model: the tasks are real, the policy is scripted, the clock is counted."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import tasks
from bench.compose import Prepared, tenants_of
from bench.record import ArmResult, Checkpointing, EvalRecord, Sink
from tunix_core.clock import clock_ns
from tunix_core.model.lora import factors_sha256
from tunix_core.tenant import Ledger, draw, tickets
from tunix_core.types import (
    EpisodeTicket,
    Event,
    Fate,
    Span,
    StopReason,
    TenantSpec,
    Trajectory,
    Turn,
    UpdateReport,
)

MS = 1_000_000
ROUND_MS = {"S0": 60, "S1": 40, "A0": 40, "A1": 20}
TURN_MS = 2
FACTORS = {"q": (np.zeros((1, 2, 1), np.float32), np.zeros((1, 1, 2), np.float32))}
SHA = factors_sha256(FACTORS)


@dataclass
class ScriptedArms:
    """Stands for `bench.compose.run_arm`. `before_update` may raise, or set a stop."""

    before_update: Callable[[str, int, int], None] = lambda arm, seed, update: None
    all_errored: bool = False
    loss: float = 0.1
    round_ms: dict[str, int] = field(default_factory=lambda: dict(ROUND_MS))
    played: list[tuple[str, int]] = field(default_factory=list)
    now: int = 0

    def __call__(
        self,
        prepared: Prepared,
        arm: str,
        seed: int,
        sink: Sink,
        should_stop: Callable[[], bool],
        checkpoints: Checkpointing | None = None,
    ) -> ArmResult:
        self.played.append((arm, seed))
        self.now = max(self.now, clock_ns()) + 100 * MS
        return _Play(self, prepared, arm, seed, sink, should_stop, checkpoints).run()


@dataclass
class _Play:
    script: ScriptedArms
    prepared: Prepared
    arm: str
    seed: int
    sink: Sink
    should_stop: Callable[[], bool]
    checkpoints: Checkpointing | None = None

    @property
    def round_ms(self) -> int:
        return self.script.round_ms[self.arm.removesuffix("-aa")]

    def run(self) -> ArmResult:
        tenants = tenants_of(self.prepared, self.seed)
        ledgers = {t.tenant_id: Ledger(t.tenant_id) for t in tenants}
        begin = 0
        for tenant in tenants:
            self.sink.adapter(tenant.tenant_id, "initial", 0, FACTORS)
        snapshots = [(t, 0, 0, self.script.now) for t in tenants]
        if self.checkpoints is not None and self.checkpoints.resume:
            begin, ledgers, times = self._restore()
            snapshots = [(t, 0, 0, at) for t, at in zip(tenants, times, strict=True)]
            self._event("resumed", {"step": begin, "updates": {}, "redrawn": {}})
        done = dict.fromkeys(ledgers, begin)
        start = self._tick(5)
        self._event("run_start", {"tenants": list(ledgers)})
        status = "success"
        for k in range(begin, self.prepared.config.updates):
            self.script.before_update(self.arm, self.seed, k)
            if self.should_stop():
                status = "interrupted"
                break
            self._update(k, tenants, ledgers)
            done = dict.fromkeys(ledgers, k + 1)
            self._save(k + 1, ledgers, [at for *_, at in snapshots])
        stop = self._tick(5)
        self._event("run_stop", {"status": status, "recompiles": {}})
        if status == "success":
            for tenant in tenants:
                self.sink.adapter(tenant.tenant_id, "final", self.prepared.config.updates, FACTORS)
            updates = self.prepared.config.updates
            snapshots += [(t, 1, t.updates * t.groups_per_update * t.group_size, stop - MS) for t in tenants]
            for tenant, eval_id, samples, at in snapshots:
                self._evaluate(tenant, eval_id, updates * eval_id, samples, at)
        return ArmResult(
            status=status,
            reason="",
            t_start_ns=start,
            t_stop_ns=stop,
            init_s=0.1,
            compile_s=0.2,
            recompiles_after_warmup=0,
            ledger={name: ledger.snapshot() for name, ledger in ledgers.items()},
            updates=done,
            adapters={name: {"initial_sha256": SHA, "final_sha256": SHA} for name in ledgers},
        )

    def _save(self, step: int, ledgers: dict[str, Ledger], times: list[int]) -> None:
        if self.checkpoints is not None:
            folder = self.checkpoints.directory / str(step)
            folder.mkdir(parents=True)
            (folder / "state").write_bytes(pickle.dumps((step, ledgers, times)))
            self._event("checkpoint", {"step": step, "blocked_ns": 0})

    def _restore(self) -> tuple[int, dict[str, Ledger], list[int]]:
        assert self.checkpoints is not None
        newest = max(int(path.name) for path in self.checkpoints.directory.iterdir())
        return pickle.loads((self.checkpoints.directory / str(newest) / "state").read_bytes())

    def _update(self, k: int, tenants: tuple[TenantSpec, ...], ledgers: dict[str, Ledger]) -> None:
        version = k if self.arm != "A1" else max(0, k - 1)
        t0 = self.script.now
        self._tick(self.round_ms // 2)
        batches = {t.tenant_id: self._groups(t, k, version, t0, ledgers[t.tenant_id]) for t in tenants}
        self._passes(t0, [trajectory for batch in batches.values() for trajectory in batch])
        start = self._tick(1)
        # no two seeds take equally long
        self.script.now += 1000 * self.seed * (k + sum(self.arm.encode()))
        end = self._tick(self.round_ms // 4)
        work = sum(len(turn.token_ids) for batch in batches.values() for t in batch for turn in t.turns)
        self._span("train", start, end, tuple(batches), work)
        for tenant in tenants:
            name = tenant.tenant_id
            self._tick(1)
            self._event("adapter.published", {"tenant": name, "version": k + 1, "sha256": SHA})
            for trajectory in batches[name]:
                errored = trajectory.error is not None
                fate = Fate.ERRORED if errored else Fate.CONSUMED
                consumed = (None, None) if errored else (k, k - version)
                self.sink.trajectory(replace(trajectory, fate=fate), *consumed)
            self.sink.update(self._report(k, tenant, version, start, end, batches[name], work))

    def _passes(self, t0: int, batch: list[Trajectory]) -> None:
        """The k-th turn of every episode takes a prefill, which draws its first token, and a decode."""
        policy = [[turn for turn in t.turns if turn.role == "policy"] for t in batch]
        for k in range(max(map(len, policy))):
            own = [(t, turns[k]) for t, turns in zip(batch, policy, strict=True) if len(turns) > k]
            names = tuple(sorted({t.ticket.tenant_id for t, _ in own}))
            prompts = [t.turns[: next(i for i, x in enumerate(t.turns) if x is turn)] for t, turn in own]
            at = turn_start(t0, k)
            read = sum(len(turn.token_ids) for before in prompts for turn in before)
            self._span("prefill", at, at + MS, names, read)
            drawn = sum(len(turn.token_ids) for _, turn in own) - len(own)
            self._span("decode", at + MS + MS // 2, at + TURN_MS * MS, names, drawn)

    def _groups(self, tenant: TenantSpec, k: int, version: int, t0: int, ledger: Ledger) -> list[Trajectory]:
        batch: list[Trajectory] = []
        for ordinal in range(k * tenant.groups_per_update, (k + 1) * tenant.groups_per_update):
            ledger.admit(ordinal, tenant.group_size)
            group = []
            for ticket in tickets(tenant, ordinal, version):
                good = ticket.sample_index % 2 == 0
                trajectory = play(ticket, good, self.prepared.sizes.turn, version, t0, self.script.now)
                if self.script.all_errored:
                    trajectory = replace(
                        trajectory, error="scripted fault", stop=StopReason.ERROR, reward=0.0, turns=()
                    )
                ledger.arrive(ordinal, ticket.sample_index, trajectory.sampled_tokens)
                group.append(trajectory)
            errors = {i: Fate.ERRORED for i, t in enumerate(group) if t.error is not None}
            ledger.settle(ordinal, Fate.CONSUMED, errors)
            batch += group
        return batch

    def _report(
        self, k: int, tenant: TenantSpec, version: int, t0: int, t1: int, batch: list[Trajectory], work: int
    ) -> UpdateReport:
        tokens = sum(t.sampled_tokens for t in batch)
        return UpdateReport(
            update_id=k,
            tenant_id=tenant.tenant_id,
            version_before=k,
            version_after=k + 1,
            ordinals=tuple(range(k * tenant.groups_per_update, (k + 1) * tenant.groups_per_update)),
            t0_ns=t0,
            t1_ns=t1,
            published_ns=self.script.now,
            loss=self.script.loss,
            grad_norm=0.5,
            learning_rate=tenant.optimizer.learning_rate,
            clip_fraction=0.0,
            is_ess=1.0,
            max_is_weight=1.0,
            kl=0.0,
            logprob_gap=0.0,
            entropy=float("nan"),
            loss_tokens=tokens,
            real_tokens=work,
            executed_slots=work + 20,
            staleness={k - version: tokens} if tokens else {},
            reward_mean=0.5,
            reward_mean_kept=0.5,
            groups_no_signal=0,
            invalid_rewards=0,
        )

    def _evaluate(self, tenant: TenantSpec, eval_id: int, version: int, samples: int, at: int) -> None:
        fixed = replace(tenant, seed=0)
        for k in range(self.prepared.config.eval_items):
            env_id, env_seed, item_index = draw(fixed, k)
            ticket = EpisodeTicket(
                tenant_id=tenant.tenant_id,
                ordinal=k,
                sample_index=0,
                env_id=env_id,
                split="dev",
                env_seed=env_seed,
                item_index=item_index,
            )
            good, now = eval_id > 0 or k % 2 == 0, self.script.now
            played = play(ticket, good, self.prepared.sizes.turn, version, now, now + 50 * MS)
            self.sink.evaluation(
                EvalRecord(
                    tenant=tenant.tenant_id,
                    eval_id=eval_id,
                    version=version,
                    samples=samples,
                    snapshot_ns=at,
                    trajectory=replace(played, fate=Fate.CONSUMED),
                )
            )

    def _span(self, role: str, t0: int, t1: int, names: tuple[str, ...], real: int) -> None:
        self.sink.span(
            Span(
                device="cpu:0",
                role=role,
                t0_ns=t0,
                t1_ns=t1,
                tenants=names,
                executed_slots=real + 20,
                real_tokens=real,
            )
        )

    def _event(self, key: str, value: dict[str, Any]) -> None:
        self.sink.event(Event(key=key, t_ns=self.script.now, value=value))

    def _tick(self, ms: int) -> int:
        self.script.now += ms * MS
        return self.script.now


def play(ticket: EpisodeTicket, good: bool, cap: int, version: int, t0: int, t1: int) -> Trajectory:
    """One episode by the oracle, or by the careless demonstrator, no turn of more than `cap` tokens."""
    env = tasks.make(ticket.env_id)
    observation, info = env.reset(
        seed=ticket.env_seed, options={"split": ticket.split, "index": ticket.item_index}
    )
    spec, item = tasks.get(ticket.env_id), env.unwrapped.item  # type: ignore[attr-defined]
    said = spec.oracle(item) if good else spec.careless(item, random.Random(ticket.item_index))
    turns = [_turn("environment", observation, t0, version)]
    reward = 0.0
    for k, text in enumerate(text[:cap] for text in said):
        turns.append(_turn("policy", text, turn_start(t0, k), version))
        observation, reward, terminated, truncated, info = env.step(text)
        if observation:
            turns.append(_turn("environment", observation, turns[-1].t_end_ns, version))
        if terminated or truncated:
            break
    return Trajectory(
        ticket=ticket,
        item_uid=info["item_uid"],
        turns=tuple(turns),
        reward=float(reward),
        grade_status=str(info["grade_status"]),
        stop=StopReason(info["stop"]),
        fate=Fate.OPEN,
        t_start_ns=t0,
        t_end_ns=t1,
        env_ns=MS,
    )


def _turn(role: str, text: str, at: int, version: int) -> Turn:
    ids = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)
    sampled = role == "policy"
    return Turn(
        role=role,
        text=text,
        token_ids=ids,
        loss_mask=np.full(len(ids), sampled),
        behavior_logprobs=np.full(len(ids), -0.123456789 if sampled else 0.0, np.float32),
        policy_version=np.full(len(ids), version if sampled else -1, np.int32),
        stop=StopReason.EOS if sampled else None,
        t_start_ns=at,
        t_end_ns=at + TURN_MS * MS if sampled else at,
    )


def turn_start(t0: int, k: int) -> int:
    """When the k-th policy turn of an episode begins."""
    return t0 + 3 * k * MS
