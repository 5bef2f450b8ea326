"""Test hooks, public: a tiny model with its tokenizer, scripted environments, a scripted sampler, a recorder.

A whole run of the real trainer over these takes a second after its first compilation:

    envs = ScriptedEnvs(lambda ticket: EpisodeScript(reward=share_of("a")))
    recorder = Recorder()
    trainer = tiny_trainer([tiny_tenant("t0")], "A1", envs, observer=recorder)
    trainer.warm_up()
    result = trainer.run()

Faults are data of an `EpisodeScript`: exceptions, rewards that are no numbers, answers that never come.
Nothing here sleeps: what has to last, lasts until an event is set.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

import jax
import numpy as np

from tunix_core.environment import EnvFactory
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.model.decoder import Decoder
from tunix_core.model.load import BaseModel
from tunix_core.model.lora import factors_sha256
from tunix_core.sampler.engine import SamplerSpec
from tunix_core.schedule import ScheduleSpec, arm
from tunix_core.telemetry import Observer
from tunix_core.tokens import Renderer
from tunix_core.trainer import Trainer, TrainerSpec
from tunix_core.types import (
    AdapterVersion,
    Bucket,
    EpisodeTicket,
    Event,
    Fate,
    LoraSpec,
    OptimizerSpec,
    SampleRequest,
    SampleResult,
    SamplingSpec,
    Span,
    StopReason,
    TenantSpec,
    Trajectory,
    UpdateReport,
)


class LetterTokenizer:
    """Eight ids: the letters a, b, c and five controls, two of which end a turn: random turns are short.

    Any other character reads as one of the three letters: lossy, but never out of vocabulary. Arrays are
    filled with 0, the letter a, or with what ends a turn (`pad_id=7`): inferring padding from ids would fail.
    """

    vocab_size = 8
    bos_id, user_id, assistant_id = 4, 5, 6

    def __init__(self, pad_id: int = 0, stop_ids: tuple[int, ...] = (3, 7)) -> None:
        self.pad_id, self.stop_ids = pad_id, stop_ids

    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n], one a character."""
        return np.asarray([(ord(c) - ord("a")) % 3 for c in text], np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The letters among the ids."""
        return "".join("abc"[i] for i in np.asarray(ids, np.int64).tolist() if 0 <= i < 3)

    def token_text(self, token_id: int) -> str:
        """One id for human eyes."""
        return ("a", "b", "c", "<stop>", "<bos>", "<user>", "<assistant>", "<end>")[token_id]


@cache
def tiny_base(*, layers: int = 1, seed: int = 0, vocab_size: int = LetterTokenizer.vocab_size) -> BaseModel:
    """A random float32 model of width 16 whose next-token distributions are far from uniform."""
    config = ModelConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        intermediate_size=24,
        max_position_embeddings=64,
    )
    ids = np.zeros((1, 2), np.int32)
    positions, segments = np.asarray([[0, 1]], np.int32), np.ones((1, 2), np.int32)
    params = Decoder(config).init(jax.random.key(seed), ids, positions, segments)["params"]
    params = jax.tree.map(lambda x: np.array(x), params)
    # the initial scale of 0.02 gives all tokens nearly equal odds, and hides most mistakes
    params["embed_tokens"] *= 15.0
    return BaseModel(name="tiny", config=config, params=params, sha256="")


def tiny_tenant(tenant_id: str = "t0", **changes: Any) -> TenantSpec:
    """A tenant with two groups of four an update, three updates, a step size large enough to be seen."""
    spec = TenantSpec(
        tenant_id=tenant_id,
        env_ids=("scripted",),
        seed=7,
        group_size=4,
        groups_per_update=2,
        updates=3,
        lora=LoraSpec(rank=2, alpha=4.0),
        optimizer=OptimizerSpec(learning_rate=0.05),
        sampling=SamplingSpec(max_new_tokens=6),
    )
    return replace(spec, **changes)


def random_adapter(
    tenant_id: str = "t0", *, version: int = 1, seed: int = 0, rank: int = 2, base: BaseModel | None = None
) -> AdapterVersion:
    """An adapter with both factors random, strong enough to change the model's mind."""
    config = (base or tiny_base()).config
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.3, (config.num_hidden_layers, *shape)).astype(np.float32)

    targets = lora_targets(config)
    factors = {name: (normal(n, rank), normal(rank, m)) for name, (n, m) in targets.items()}
    return AdapterVersion(
        tenant_id=tenant_id, version=version, factors=factors, sha256=factors_sha256(factors), t_ns=0
    )


TINY_SAMPLER = SamplerSpec(
    slots=6, prefill_lanes=3, prefill_lengths=(8, 24), max_new_tokens=6, decode_steps=2
)
TINY_SPEC = TrainerSpec(
    sampler=TINY_SAMPLER, buckets=(Bucket(rows=4, length=32),), runtime="inline", env_workers=4
)


def tiny_trainer(
    tenants: Sequence[TenantSpec],
    schedule: ScheduleSpec | str,
    env_factory: EnvFactory,
    *,
    spec: TrainerSpec = TINY_SPEC,
    base: BaseModel | None = None,
    tokenizer: LetterTokenizer | None = None,
    observer: Observer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trainer:
    """The real trainer on the tiny model; `schedule` may be the name of an arm."""
    base = base or tiny_base()
    return Trainer(
        base,
        base.params,
        tenants,
        arm(schedule) if isinstance(schedule, str) else schedule,
        env_factory,
        Renderer(tokenizer or LetterTokenizer()),
        spec,
        observer=observer,
        should_stop=should_stop,
    )


def share_of(letter: str) -> Callable[[tuple[str, ...]], float]:
    """A reward: the share of a letter in all that the policy said."""
    return lambda said: "".join(said).count(letter) / max(len("".join(said)), 1)


share_of_a = share_of("a")
"""The default reward: dense, so that groups have signal."""


def constant(reward: Any) -> Callable[[tuple[str, ...]], Any]:
    """A reward that is always the same; NaN, None and infinities included."""
    return lambda said: reward


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScript:
    """What one scripted episode does."""

    observations: tuple[str, ...] = ("ab",)
    """The first at reset, one more after each turn; the episode ends with the turn after the last."""
    reward: Callable[[tuple[str, ...]], Any] = share_of_a
    """Of all the policy said, turn by turn."""
    endless: bool = False
    """Never ends: the last observation comes again and again."""
    truncate: bool = False
    """Ends as truncated rather than terminated."""
    raise_at: Literal["factory", "reset", "step", "close"] | None = None
    """Where the episode raises `error`."""
    error: type[Exception] = RuntimeError
    harness_error: str | None = None
    """Reported with the last step: the verifier failed."""
    hold: threading.Event | None = None
    """Every step waits for it: an environment as slow as the test wants."""
    on_step: Callable[[EpisodeTicket], None] = lambda ticket: None
    """Called in every step, before anything else."""


class ScriptedEnv:
    """An environment that follows its script."""

    def __init__(self, ticket: EpisodeTicket, script: EpisodeScript) -> None:
        self.ticket, self.script = ticket, script
        self.said: list[str] = []
        self.closed = 0

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The first observation; the item's uid is made of the ticket."""
        del seed, options
        self._fail("reset")
        t = self.ticket
        return self.script.observations[0], {"item_uid": f"{t.env_id}/{t.env_seed}/{t.item_index}"}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """The next observation, or the reward."""
        script = self.script
        script.on_step(self.ticket)
        if script.hold is not None:
            script.hold.wait()
        self._fail("step")
        self.said.append(action)
        if script.endless or len(self.said) < len(script.observations):
            return (
                script.observations[min(len(self.said), len(script.observations) - 1)],
                0.0,
                False,
                False,
                {},
            )
        info: dict[str, Any] = {"grade_status": "correct", "stop": "terminated"}
        if script.harness_error is not None:
            info["harness_error"] = script.harness_error
        return "", script.reward(tuple(self.said)), not script.truncate, script.truncate, info

    def close(self) -> None:
        """Counts."""
        self.closed += 1
        self._fail("close")

    def _fail(self, place: str) -> None:
        if self.script.raise_at == place:
            raise self.script.error(f"scripted failure in {place}")


class ScriptedEnvs:
    """An environment factory: `choose` gives each ticket its script; `built` holds the environments made."""

    def __init__(self, choose: Callable[[EpisodeTicket], EpisodeScript] | None = None) -> None:
        self._choose = choose or (lambda ticket: EpisodeScript())
        self.built: list[ScriptedEnv] = []

    def __call__(self, ticket: EpisodeTicket) -> ScriptedEnv:
        """Builds the environment of one episode."""
        script = self._choose(ticket)
        if script.raise_at == "factory":
            raise script.error("scripted failure in factory")
        env = ScriptedEnv(ticket, script)
        self.built.append(env)
        return env


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A trajectory as the observer was told of it."""

    trajectory: Trajectory
    consumed_in: int | None
    staleness: int | None


@dataclass(slots=True)
class Recorder:
    """An observer that keeps every line."""

    events: list[Event] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    reports: list[UpdateReport] = field(default_factory=list)

    def event(self, event: Event) -> None:
        """Kept in `events`."""
        self.events.append(event)

    def span(self, span: Span) -> None:
        """Kept in `spans`."""
        self.spans.append(span)

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """Kept in `endings`."""
        self.endings.append(Ending(trajectory=trajectory, consumed_in=consumed_in, staleness=staleness))

    def update(self, report: UpdateReport) -> None:
        """Kept in `reports`."""
        self.reports.append(report)

    def fates(self, tenant_id: str) -> Counter[Fate]:
        """How many of a tenant's trajectories met which fate."""
        return Counter(e.trajectory.fate for e in self.endings if e.trajectory.ticket.tenant_id == tenant_id)

    def consumed(self, tenant_id: str) -> dict[tuple[int, int], Trajectory]:
        """A tenant's consumed trajectories by (ordinal, sample_index)."""
        return {
            e.trajectory.ticket.key[1:]: e.trajectory
            for e in self.endings
            if e.trajectory.ticket.tenant_id == tenant_id and e.trajectory.fate is Fate.CONSUMED
        }

    def reports_of(self, tenant_id: str) -> list[UpdateReport]:
        """A tenant's updates, in order."""
        return [r for r in self.reports if r.tenant_id == tenant_id]

    def adapters(self, tenant_id: str) -> list[str]:
        """Hashes of a tenant's published adapters, in order."""
        published = [e.value for e in self.events if e.key == "adapter.published"]
        return [str(v["sha256"]) for v in published if v["tenant"] == tenant_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A scripted turn."""

    token_ids: Sequence[int]
    behavior_logprobs: Sequence[float] | None = None
    """-1 each where not given."""
    policy_version: Sequence[int] | int = 0
    after_dispatches: int = 1
    """How many `turn` calls it takes."""
    error: Exception | None = None
    """Raised instead."""


class ScriptedSampler:
    """Stands in for `SamplerEngine` under an `Actor`: fixed ids, log-probabilities, versions."""

    def __init__(
        self,
        answer: Callable[[SampleRequest], Answer],
        *,
        stop_ids: Sequence[int] = (3, 7),
        spec: SamplerSpec = TINY_SAMPLER,
        clock_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self.spec, self.requests = spec, list[SampleRequest]()
        self._answer, self._stop_ids, self._clock_ns = answer, tuple(stop_ids), clock_ns
        self._running: list[SimpleNamespace] = []

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._running)

    def submit(self, request: SampleRequest) -> None:
        """Takes a request; its answer comes after as many turns as scripted."""
        self.requests.append(request)
        answer = self._answer(request)
        self._running.append(
            SimpleNamespace(request=request, answer=answer, left=answer.after_dispatches, t=self._clock_ns())
        )

    def drop(self, tenant_id: str) -> None:
        """Forgets a tenant's requests."""
        self._running = [r for r in self._running if r.request.ticket.tenant_id != tenant_id]

    def turn(self) -> list[SampleResult]:
        """One dispatch; the answers that are due."""
        for running in self._running:
            running.left -= 1
        due = [r for r in self._running if r.left <= 0]
        self._running = [r for r in self._running if r.left > 0]
        return [self._result(r.request, r.answer, r.t) for r in due]

    def _result(self, request: SampleRequest, answer: Answer, t_start_ns: int) -> SampleResult:
        if answer.error is not None:
            raise answer.error
        ids = np.asarray(answer.token_ids, np.int32)
        logprobs = np.full(len(ids), -1.0) if answer.behavior_logprobs is None else answer.behavior_logprobs
        versions = answer.policy_version
        return SampleResult(
            ticket=request.ticket,
            turn_index=request.turn_index,
            token_ids=ids,
            behavior_logprobs=np.asarray(logprobs, np.float32),
            policy_version=np.full(len(ids), versions) if isinstance(versions, int) else np.asarray(versions),
            stop=StopReason.EOS if ids[-1] in self._stop_ids else StopReason.MAX_TOKENS,
            t_start_ns=t_start_ns,
            t_end_ns=self._clock_ns(),
        )
