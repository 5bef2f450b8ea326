"""Playing frozen adapters: what evaluation sees, and that training doesn't notice."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pytest

from tunix_core.errors import StalledError
from tunix_core.model.lora import stack_adapters
from tunix_core.rollout import play
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.testing import (
    TINY_SAMPLER,
    Answer,
    EpisodeScript,
    LetterTokenizer,
    Recorder,
    ScriptedEnvs,
    ScriptedSampler,
    random_adapter,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.tokens import Renderer
from tunix_core.types import EpisodeTicket, SamplingSpec, StopReason, Trajectory

NAMES = ("t0", "t1", "t2")
BASE = tiny_base()
GREEDY = SamplingSpec(temperature=0.0, max_new_tokens=6)
TWO_TURNS = EpisodeScript(observations=("ab", "c"))


def dev_tickets(n: int, tenant: str = "t0") -> list[EpisodeTicket]:
    return [
        EpisodeTicket(
            tenant_id=tenant,
            ordinal=k,
            sample_index=0,
            env_id="e",
            split="dev",
            env_seed=1,
            item_index=k,
        )
        for k in range(n)
    ]


def engine() -> SamplerEngine:
    return SamplerEngine(
        TINY_SAMPLER,
        BASE.config,
        BASE.params,
        stack_adapters(BASE.config, [tiny_tenant(n) for n in NAMES], 2),
        stop_ids=LetterTokenizer().stop_ids,
        clock_ns=lambda: 0,
        on_span=lambda span: None,
    )


def played(
    on: SamplerEngine,
    tickets: Sequence[EpisodeTicket],
    envs: ScriptedEnvs | None = None,
    sampling: SamplingSpec = GREEDY,
    stop_after: int | None = None,
) -> list[Trajectory]:
    calls = iter(range(10**6))
    return play(
        on,
        tickets,
        env_factory=envs or ScriptedEnvs(lambda t: TWO_TURNS),
        renderer=Renderer(LetterTokenizer()),
        sampling=dict.fromkeys(NAMES, sampling),
        adapter_slot={n: i for i, n in enumerate(NAMES)},
        clock_ns=lambda: 0,
        should_stop=lambda: stop_after is not None and next(calls) >= stop_after,
    )


def sampled(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    return [np.concatenate([t.token_ids for t in x.turns]).tolist() for x in trajectories]


def test_every_ticket_comes_back_in_order_and_greedy_play_repeats() -> None:
    on = engine()
    tickets = dev_tickets(30)  # more than twice the slots
    first = played(on, tickets)
    assert [t.ticket for t in first] == tickets
    assert sampled(played(on, tickets)) == sampled(first) == sampled(played(engine(), tickets))
    assert not on.busy
    assert {t.stop for t in first} <= {StopReason.TERMINATED, StopReason.MAX_TOKENS}


def test_evaluation_and_training_draw_from_different_streams() -> None:
    drawn = SamplingSpec(temperature=1.0, max_new_tokens=6)
    dev = dev_tickets(10)
    train = [EpisodeTicket(**{**_fields(t), "split": "train"}) for t in dev]
    assert sampled(played(engine(), dev, sampling=drawn)) != sampled(played(engine(), train, sampling=drawn))


def _fields(ticket: EpisodeTicket) -> dict[str, object]:
    return {name: getattr(ticket, name) for name in EpisodeTicket.__dataclass_fields__}


def test_stopping_leaves_the_engine_idle_and_every_environment_closed() -> None:
    on, envs = engine(), ScriptedEnvs(lambda t: TWO_TURNS)
    some = played(on, dev_tickets(30), envs, stop_after=8)
    assert len(some) < 30
    assert not on.busy
    assert all(e.closed == 1 for e in envs.built)


def test_failing_environments_are_reported_and_the_rest_goes_on() -> None:
    envs = ScriptedEnvs(lambda t: EpisodeScript(raise_at="step" if t.ordinal % 3 == 0 else None))
    done = played(engine(), dev_tickets(9), envs)
    # one whose turn was cut is never stepped, and so never raises
    failed = [t for t in done if t.error is not None]
    assert failed and all(t.ticket.ordinal % 3 == 0 for t in failed)
    assert len(done) == 9


def test_episodes_that_wait_for_nothing_are_a_stall_and_not_a_hang() -> None:
    class Mute(ScriptedSampler):
        @property
        def busy(self) -> bool:
            return False

    with pytest.raises(StalledError, match="3 episodes are open"):
        played(Mute(lambda r: Answer(token_ids=(7,))), dev_tickets(3))  # pyright: ignore[reportArgumentType]


def test_evaluating_between_updates_changes_nothing_in_training() -> None:
    """Evaluation after every step, through the trainer's own sampler: same rollouts, reports and adapters."""

    class Evaluating(Recorder):
        def update(self, report) -> None:  # type: ignore[no-untyped-def]
            super().update(report)
            on = trainer.sampler
            if not on.busy:
                played(on, dev_tickets(7, report.tenant_id))
            else:  # a busy sampler isn't to be borrowed: evaluation has one of its own
                other = engine()
                other.publish(random_adapter(), 0)
                played(other, dev_tickets(7))

    tenants = [tiny_tenant(n, seed=i, updates=2) for i, n in enumerate(NAMES)]
    runs = []
    for recorder in (Recorder(), Evaluating()):
        trainer = tiny_trainer(tenants, "S1", ScriptedEnvs(lambda t: TWO_TURNS), observer=recorder)
        trainer.run()
        runs.append(recorder)
    plain, evaluated = runs
    for name in NAMES:
        assert plain.adapters(name) == evaluated.adapters(name)
        assert [r.loss for r in plain.reports_of(name)] == [r.loss for r in evaluated.reports_of(name)]
        one, other = plain.consumed(name), evaluated.consumed(name)
        assert one.keys() == other.keys()
        assert sampled(list(one.values())) == sampled(list(other.values()))


def test_playing_does_not_move_the_adapters_of_the_engine() -> None:
    on = engine()
    before = {k: (jnp.copy(a), jnp.copy(b)) for k, (a, b) in on.adapters.factors.items()}
    played(on, dev_tickets(5))
    for name, pair in before.items():
        for one, other in zip(pair, on.adapters.factors[name], strict=True):
            np.testing.assert_array_equal(one, other)
