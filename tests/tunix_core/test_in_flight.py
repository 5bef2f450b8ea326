"""An adapter published while turns run: every token is labelled with the policy that sampled it, or none is mixed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tunix_core import packing
from tunix_core.learner.update import score_tokens
from tunix_core.model.lora import Adapters, stack_adapters, write_slot
from tunix_core.sampler.base import SamplerSpec, turn
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.streams import sampling_seed
from tunix_core.testing import (
    TINY_SAMPLER,
    TINY_SPEC,
    EpisodeScript,
    LetterTokenizer,
    Recorder,
    ScriptedEnvs,
    random_adapter,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.types import (
    AdapterVersion,
    Bucket,
    EpisodeTicket,
    SampleRequest,
    SampleResult,
    SamplingSpec,
    TrainSequence,
)

BASE = tiny_base()
LONG = SamplerSpec(slots=2, prefill_lanes=1, prefill_lengths=(8,), max_new_tokens=128, decode_steps=2)
NAMES = ("t0", "t1")
SEVEN, EIGHT, NINE = (random_adapter("t0", version=v, seed=v) for v in (7, 8, 9))


def engine(spec: SamplerSpec = LONG) -> SamplerEngine:
    """Of two tenants, t0 at version 7; no id ends a turn."""
    sampler = SamplerEngine(
        spec,
        BASE.config,
        BASE.params,
        stack_adapters(BASE.config, [tiny_tenant(n) for n in NAMES], 2),
        stop_ids=(100,),
        clock_ns=lambda: 0,
        on_span=lambda span: None,
    )
    sampler.publish(SEVEN, 0)
    return sampler


def request(ordinal: int = 0, tenant: int = 0, max_new_tokens: int = 128) -> SampleRequest:
    ticket = EpisodeTicket(
        tenant_id=NAMES[tenant],
        ordinal=ordinal,
        sample_index=0,
        env_id="e",
        split="train",
        env_seed=1,
        item_index=ordinal,
    )
    return SampleRequest(
        ticket=ticket,
        turn_index=0,
        context_ids=np.asarray((4, 5, 0, 1, 6), np.int32),
        sampling=SamplingSpec(max_new_tokens=max_new_tokens),
        stop_ids=(100,),
        stream_seed=sampling_seed(ticket, 0),
        adapter_slot=tenant,
    )


def until(sampler: SamplerEngine, tokens: int) -> None:
    while sampler.tokens_sampled < tokens:
        turn(sampler)


def finish(sampler: SamplerEngine) -> dict[tuple[str, int, int], SampleResult]:
    done = {}
    while sampler.busy:
        done |= {r.ticket.key: r for r in turn(sampler)}
    return done


def rescored(sampler: SamplerEngine, result: SampleResult, adapter: AdapterVersion) -> np.ndarray:
    """What the learner says of a result's tokens under one saved adapter."""
    context = request().context_ids
    n, m = len(context), len(result.token_ids)
    sequence = TrainSequence(
        tenant_id="t0",
        ordinal=0,
        sample_index=0,
        token_ids=np.concatenate([context, result.token_ids]),
        loss_mask=np.arange(n + m) >= n,
        behavior_logprobs=np.zeros(n + m, np.float32),
        policy_version=np.zeros(n + m, np.int32),
        advantage=1.0,
    )
    plan = packing.plan([n + m], ["t0"], [Bucket(rows=1, length=136)])
    (batch,) = packing.pack([sequence], [1.0], {"t0": 0}, {"t0": 0}, plan)
    under = Adapters(write_slot(sampler.adapters.factors, 0, adapter.factors), sampler.adapters.scale)
    scored = score_tokens(BASE.params, *under, np.ones(2, np.float32), batch, config=BASE.config)
    return packing.unpack([batch], plan, [scored.logprobs])[0][n:]


def runs_of(versions: np.ndarray) -> list[tuple[int, int]]:
    """(version, how many) of each stretch."""
    edges = [0, *(np.flatnonzero(np.diff(versions)) + 1).tolist(), len(versions)]
    return [(int(versions[a]), b - a) for a, b in pairwise(edges)]


def test_in_flight_each_token_has_the_version_and_the_logprob_of_its_own_adapter() -> None:
    """128 tokens, the adapter replaced after the 57th: 57 of version 7, then 71 of version 8.

    Source: https://github.com/vllm-project/vllm/issues/54443
    """
    sampler = engine()
    sampler.submit(request())
    until(sampler, 57)
    sampler.publish(EIGHT, 0)
    (result,) = finish(sampler).values()
    assert runs_of(result.policy_version) == [(7, 57), (8, 71)]
    before, after = rescored(sampler, result, SEVEN), rescored(sampler, result, EIGHT)
    np.testing.assert_allclose(result.behavior_logprobs[:57], before[:57], atol=1e-4)
    np.testing.assert_allclose(result.behavior_logprobs[57:], after[57:], atol=1e-4)
    assert np.abs(before - after).mean() > 0.1  # the two versions do disagree


def test_off_a_running_turn_ends_on_the_version_it_began_with() -> None:
    sampler = engine()
    sampler.submit(request())
    until(sampler, 57)
    sampler.publish(EIGHT, 0, in_flight=False)
    (result,) = finish(sampler).values()
    assert runs_of(result.policy_version) == [(7, 128)]
    np.testing.assert_allclose(result.behavior_logprobs, rescored(sampler, result, SEVEN), atol=1e-4)
    alone = engine()
    alone.submit(request())
    np.testing.assert_array_equal(finish(alone)[result.ticket.key].token_ids, result.token_ids)


def test_off_the_next_turns_wait_for_the_new_adapter_and_the_newest_wins() -> None:
    sampler = engine()
    sampler.submit(request(0))
    until(sampler, 57)
    sampler.submit(request(1))  # a slot is free, but its tenant's adapter is about to be replaced
    sampler.publish(EIGHT, 0, in_flight=False)
    sampler.publish(NINE, 0, in_flight=False)
    done = finish(sampler)
    assert runs_of(done["t0", 0, 0].policy_version) == [(7, 128)]
    assert runs_of(done["t0", 1, 0].policy_version) == [(9, 128)]
    np.testing.assert_allclose(
        done["t0", 1, 0].behavior_logprobs, rescored(sampler, done["t0", 1, 0], NINE), atol=1e-4
    )


def test_off_nobody_else_waits() -> None:
    sampler = engine()
    sampler.submit(request(0))
    until(sampler, 57)
    sampler.publish(EIGHT, 0, in_flight=False)
    sampler.submit(request(1))
    sampler.submit(request(0, tenant=1, max_new_tokens=8))
    done = finish(sampler)
    assert list(done) == [("t1", 0, 0), ("t0", 0, 0), ("t0", 1, 0)]
    alone = engine()
    alone.submit(request(0, tenant=1, max_new_tokens=8))
    (other,) = finish(alone).values()
    np.testing.assert_array_equal(done["t1", 0, 0].behavior_logprobs, other.behavior_logprobs)


def test_off_an_idle_tenant_is_swapped_at_once_and_a_dropped_one_lets_go() -> None:
    sampler = engine()
    sampler.publish(EIGHT, 0, in_flight=False)
    assert sampler.versions[0] == 8
    sampler.submit(request())
    turn(sampler)
    sampler.publish(NINE, 0, in_flight=False)
    assert sampler.versions[0] == 8
    sampler.drop("t0")
    assert sampler.versions[0] == 9
    assert not sampler.busy


# ---------------------------------------------------------------- in a run


def policy_turns(recorder: Recorder) -> list[np.ndarray]:
    """Versions of each turn of the policy."""
    turns = (t for e in recorder.endings for t in e.trajectory.turns)
    return [t.policy_version for t in turns if t.role == "policy"]


@pytest.mark.parametrize("on", [True, False])
def test_turns_of_a_run_are_mixed_or_never_and_staleness_is_that_of_the_oldest_token(on: bool) -> None:
    recorder = Recorder()
    tenants = [tiny_tenant(n, seed=i, updates=8, group_size=5) for i, n in enumerate(NAMES)]
    trainer = tiny_trainer(
        tenants,
        "A1",
        ScriptedEnvs(lambda t: EpisodeScript(observations=("ab", "c", "ab"))),
        spec=replace(TINY_SPEC, in_flight_updates=on, sampler=replace(TINY_SAMPLER, slots=5)),
        observer=recorder,
        tokenizer=LetterTokenizer(stop_ids=(7,)),
    )
    assert trainer.run().status == "success"
    mixed = [v for v in policy_turns(recorder) if len(set(v.tolist())) > 1]
    assert bool(mixed) is on
    reports = {(r.update_id, r.tenant_id): r for r in recorder.reports}
    assert max(age for r in recorder.reports for age in r.staleness) in (1, 2)
    for e in recorder.endings:
        if e.consumed_in is None or not e.trajectory.sampled_tokens:
            continue
        oldest = min(
            int(t.policy_version[t.loss_mask].min()) for t in e.trajectory.turns if t.loss_mask.any()
        )
        report = reports[e.consumed_in, e.trajectory.ticket.tenant_id]
        assert e.staleness == report.version_before - oldest <= 2


def test_both_ways_learn_the_same_without_staleness() -> None:
    """At staleness 0 no turn runs while its tenant's adapter is published, so the option can't matter."""
    hashes = []
    for on in (True, False):
        recorder = Recorder()
        tenants = [tiny_tenant(n, seed=i) for i, n in enumerate(NAMES)]
        spec = replace(TINY_SPEC, in_flight_updates=on)
        tiny_trainer(tenants, "A0", ScriptedEnvs(), spec=spec, observer=recorder).run()
        hashes.append([recorder.adapters(n) for n in NAMES])
    assert hashes[0] == hashes[1]
