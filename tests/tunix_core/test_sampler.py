"""The sampler: what it draws, from which distribution, and that nothing else enters a draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from tunix_core import packing
from tunix_core.errors import SamplerError
from tunix_core.learner.update import score_tokens
from tunix_core.model.lora import Adapters, stack_adapters, write_slot
from tunix_core.sampler.base import turn
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.sampler.sampling import draw, keep_top
from tunix_core.streams import sampling_seed
from tunix_core.telemetry import compile_counter
from tunix_core.testing import TINY_SAMPLER, LetterTokenizer, random_adapter, tiny_base, tiny_tenant
from tunix_core.types import (
    Bucket,
    EpisodeTicket,
    SampleRequest,
    SampleResult,
    SamplingSpec,
    Span,
    StopReason,
    TrainSequence,
)

NAMES = ("t0", "t1", "t2")
BASE = tiny_base()
STOPS = LetterTokenizer().stop_ids
BUCKET = Bucket(rows=4, length=32)
TEMPERATURES = np.asarray([1.0, 0.7, 1.5], np.float32)


def adapters() -> Adapters:
    """Three tenants: an untrained one, and two whose adapters change a lot."""
    stacked = stack_adapters(BASE.config, [tiny_tenant(n) for n in NAMES], 2)
    factors = stacked.factors
    for slot in (1, 2):
        factors = write_slot(factors, slot, random_adapter(seed=slot).factors)
    return stacked._replace(factors=factors)


def engine(spans: list[Span] | None = None, stop_ids: Sequence[int] = STOPS) -> SamplerEngine:
    return SamplerEngine(
        TINY_SAMPLER,
        BASE.config,
        BASE.params,
        adapters(),
        stop_ids=stop_ids,
        clock_ns=lambda: 0,
        on_span=(spans if spans is not None else []).append,
    )


def request(
    context: Sequence[int] = (4, 5, 0, 1, 6),
    *,
    tenant: int = 0,
    ordinal: int = 0,
    sample: int = 0,
    seed: int = 42,
    sampling: SamplingSpec | None = None,
) -> SampleRequest:
    ticket = EpisodeTicket(
        tenant_id=NAMES[tenant],
        ordinal=ordinal,
        sample_index=sample,
        env_id="e",
        split="train",
        env_seed=seed,
        item_index=ordinal,
    )
    default = SamplingSpec(temperature=float(TEMPERATURES[tenant]), max_new_tokens=6)
    return SampleRequest(
        ticket=ticket,
        turn_index=0,
        context_ids=np.asarray(context, np.int32),
        sampling=sampling or default,
        stop_ids=STOPS,
        stream_seed=sampling_seed(ticket, 0),
        adapter_slot=tenant,
    )


def sample(requests: Sequence[SampleRequest], on: SamplerEngine | None = None) -> list[SampleResult]:
    """Results in the order of the requests."""
    sampler = on or engine()
    for r in requests:
        sampler.submit(r)
    done = {}
    while sampler.busy:
        done |= {result.ticket.key: result for result in turn(sampler)}
    return [done[r.ticket.key] for r in requests]


def crowd(n: int = 14) -> list[SampleRequest]:
    """Requests of all tenants with contexts of many lengths, more than there are slots."""
    rng = np.random.default_rng(5)
    return [
        request(rng.integers(0, 8, 1 + (5 * i) % 24), tenant=i % 3, ordinal=i, sample=i % 4) for i in range(n)
    ]


def learner_logprobs(
    request: SampleRequest, sampled: np.ndarray, under: Adapters, temperature: float | None = None
) -> np.ndarray:
    """What the learner says of the sampled ids."""
    n, m = len(request.context_ids), len(sampled)
    sequence = TrainSequence(
        tenant_id=request.ticket.tenant_id,
        ordinal=0,
        sample_index=0,
        token_ids=np.concatenate([request.context_ids, sampled]),
        loss_mask=np.arange(n + m) >= n,
        behavior_logprobs=np.zeros(n + m, np.float32),
        policy_version=np.zeros(n + m, np.int32),
        advantage=1.0,
    )
    plan = packing.plan([n + m], [sequence.tenant_id], [BUCKET])
    versions = dict.fromkeys(NAMES, 0)
    (batch,) = packing.pack([sequence], [1.0], {t: i for i, t in enumerate(NAMES)}, versions, plan)
    temperatures = TEMPERATURES if temperature is None else np.full(3, temperature, np.float32)
    scored = score_tokens(BASE.params, *under, temperatures, batch, config=BASE.config)
    return packing.unpack([batch], plan, [scored.logprobs])[0][n:]


def test_behaviour_logprobs_are_the_learners_at_every_position() -> None:
    requests = crowd()
    for asked, result in zip(requests, sample(requests), strict=True):
        expected = learner_logprobs(asked, result.token_ids, adapters())
        np.testing.assert_allclose(result.behavior_logprobs, expected, atol=1e-5)
        assert not result.policy_version.any()


def test_samples_do_not_depend_on_slot_order_or_neighbours() -> None:
    requests = crowd()
    together = sample(requests)
    backwards = sample(requests[::-1])[::-1]
    alone = [sample([r])[0] for r in requests[:6]]
    for one, other in [*zip(together, backwards, strict=True), *zip(together, alone, strict=False)]:
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_array_equal(one.behavior_logprobs, other.behavior_logprobs)


def test_a_groups_prompt_is_read_once_and_its_turns_are_what_they_would_be_alone() -> None:
    """Four turns of one prompt, then the same prompt under another tenant's adapter, which is another read."""
    group = [request(sample=i) for i in range(4)]
    other = request(tenant=1, ordinal=1)
    spans: list[Span] = []
    together = sample([*group, other], engine(spans))
    first = next(span for span in spans if span.role == "prefill")
    assert first.real_tokens == 2 * len(group[0].context_ids)
    for asked, found in zip([*group, other], together, strict=True):
        (alone,) = sample([asked])
        assert found.token_ids.tolist() == alone.token_ids.tolist()
        assert found.behavior_logprobs.tobytes() == alone.behavior_logprobs.tobytes()
    assert len({tuple(found.token_ids.tolist()) for found in together[:4]}) > 1


def test_a_prompt_of_more_turns_than_there_are_slots_is_read_for_those_there_are() -> None:
    group = [request(sample=i) for i in range(3 * TINY_SAMPLER.slots + 1)]
    spans: list[Span] = []
    found = sample(group, engine(spans))
    assert len(found) == len(group)
    reads = sum(span.real_tokens for span in spans if span.role == "prefill") // len(group[0].context_ids)
    assert 4 <= reads < len(group)


def test_a_neighbours_new_adapter_or_nan_changes_nothing() -> None:
    mine = [request(ordinal=k, tenant=1) for k in range(3)]
    poisoned = random_adapter("t0")
    poisoned = replace(poisoned, factors={k: (a * np.nan, b) for k, (a, b) in poisoned.factors.items()})
    sampler = engine()
    sampler.publish(poisoned, 0)
    theirs = [request(ordinal=k, tenant=0) for k in range(3)]
    results = sample([x for pair in zip(theirs, mine, strict=True) for x in pair], sampler)
    assert all(np.isnan(r.behavior_logprobs).all() for r in results[::2])
    for poisoned_run, clean_run in zip(results[1::2], sample(mine), strict=True):
        np.testing.assert_array_equal(poisoned_run.token_ids, clean_run.token_ids)
        np.testing.assert_array_equal(poisoned_run.behavior_logprobs, clean_run.behavior_logprobs)


def test_a_slot_keeps_nothing_of_its_last_tenant_not_even_a_nan() -> None:
    """Every slot held long turns of a tenant gone NaN; short prompts follow in the same slots."""
    sampler = engine()
    poisoned = random_adapter("t0")
    sampler.publish(
        replace(poisoned, factors={k: (a, b * np.nan) for k, (a, b) in poisoned.factors.items()}), 0
    )
    sample([request([1] * 24, ordinal=k) for k in range(6)], sampler)
    mine = [request([4, 5, k % 3], tenant=1, ordinal=k) for k in range(6)]
    for after_nan, clean in zip(sample(mine, sampler), sample(mine), strict=True):
        np.testing.assert_array_equal(after_nan.token_ids, clean.token_ids)
        np.testing.assert_array_equal(after_nan.behavior_logprobs, clean.behavior_logprobs)


def test_siblings_differ_a_repeat_is_the_same_and_another_seed_differs() -> None:
    def group(seed: int) -> list[bytes]:
        return [r.token_ids.tobytes() for r in sample([request(sample=i, seed=seed) for i in range(8)])]

    first = group(42)
    assert len(set(first)) > 4
    assert group(42) == first
    assert group(43) != first


def test_greedy_repeats_and_takes_the_most_likely_token() -> None:
    greedy = SamplingSpec(temperature=0.0, max_new_tokens=6)
    requests = [request(tenant=t, sample=i, sampling=greedy) for t in range(3) for i in range(2)]
    first, again = sample(requests), sample(requests)
    for asked, one, other in zip(requests, first, again, strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        expected = learner_logprobs(asked, one.token_ids, adapters(), 1.0)
        np.testing.assert_allclose(one.behavior_logprobs, expected, atol=1e-5)
        for place in range(len(one.token_ids)):
            others = [
                learner_logprobs(asked, np.append(one.token_ids[:place], i), adapters(), 1.0)[place]
                for i in range(8)
            ]
            assert int(np.argmax(others)) == one.token_ids[place]
    # siblings of one context are the same answer when nothing is drawn
    np.testing.assert_array_equal(first[0].token_ids, first[1].token_ids)


def test_a_turn_ends_at_any_stop_id_or_at_its_limit_and_never_later() -> None:
    results = sample([request(ordinal=k, tenant=k % 3) for k in range(60)])
    ends = {StopReason.EOS: 0, StopReason.MAX_TOKENS: 0}
    last = set()
    for r in results:
        ends[r.stop] += 1
        assert not set(r.token_ids[:-1].tolist()) & set(STOPS)
        if r.stop is StopReason.EOS:
            last.add(int(r.token_ids[-1]))
        else:
            assert len(r.token_ids) == 6
            assert int(r.token_ids[-1]) not in STOPS
    assert min(ends.values()) > 0
    assert last == set(STOPS)


def test_a_turn_may_be_one_token_long() -> None:
    one = SamplingSpec(max_new_tokens=1)
    for result in sample([request(ordinal=k, sampling=one) for k in range(12)]):
        assert len(result.token_ids) == len(result.behavior_logprobs) == 1
        assert result.stop is (StopReason.EOS if result.token_ids[0] in STOPS else StopReason.MAX_TOKENS)


def test_the_longest_context_and_the_longest_turn_fit() -> None:
    full = request([1] * 24)
    (result,) = sample([full], engine(stop_ids=(100, 101)))  # ids that are never sampled
    assert len(result.token_ids) == 6
    np.testing.assert_allclose(
        result.behavior_logprobs, learner_logprobs(full, result.token_ids, adapters()), atol=1e-5
    )


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (request([1] * 25), "context of 25 tokens"),
        (request([]), "context of 0 tokens"),
        (request(sampling=SamplingSpec(max_new_tokens=7)), "max_new_tokens 7 is outside 1..6"),
        (request(sampling=SamplingSpec(max_new_tokens=0)), "max_new_tokens 0"),
    ],
)
def test_what_the_compiled_shapes_cannot_hold_is_refused(bad: SampleRequest, words: str) -> None:
    sampler = engine()
    with pytest.raises(SamplerError, match=words):
        sampler.submit(bad)
    assert not sampler.busy


def test_a_result_whose_arrays_differ_in_length_is_refused() -> None:
    (result,) = sample([request()])
    with pytest.raises(ValueError, match="differ in length"):
        replace(result, behavior_logprobs=result.behavior_logprobs[:-1])


def test_tokens_sampled_after_a_publication_carry_its_version_and_its_logprobs() -> None:
    """An adapter swapped in mid-turn: per-token versions, each token's log-probability from its own."""
    sampler = engine(stop_ids=(100, 101))  # ids that are never sampled: every turn has six tokens
    old, new = adapters(), random_adapter("t1", version=8, seed=77)
    sampler.versions[1] = 7
    asked = [request([4, 5, k % 3, 1, 6], tenant=1, ordinal=k) for k in range(3)]
    neighbour = request(tenant=2, ordinal=9)
    for r in (*asked, neighbour):
        sampler.submit(r)
    turn(sampler)
    turn(sampler)
    assert not turn(sampler)
    sampler.publish(new, 1)
    done: dict[str, list[SampleResult]] = {}
    while sampler.busy:
        for result in turn(sampler):
            done.setdefault(result.ticket.tenant_id, []).append(result)
    under_new = old._replace(factors=write_slot(old.factors, 1, new.factors))
    for asked_one, result in zip(asked, sorted(done["t1"], key=lambda r: r.ticket.ordinal), strict=True):
        assert result.policy_version.tolist() in ([7] * 3 + [8] * 3, [7] * 5 + [8])
        n = int((result.policy_version == 7).sum())
        before = learner_logprobs(asked_one, result.token_ids, old)
        after = learner_logprobs(asked_one, result.token_ids, under_new)
        np.testing.assert_allclose(result.behavior_logprobs[:n], before[:n], atol=1e-4)
        np.testing.assert_allclose(result.behavior_logprobs[n:], after[n:], atol=1e-4)
        assert np.abs(before[n:] - after[n:]).max() > 0.01  # the two versions do disagree
    (other,) = done["t2"]
    np.testing.assert_array_equal(
        other.behavior_logprobs, sample([neighbour], engine(stop_ids=(100, 101)))[0].behavior_logprobs
    )


def test_dropping_a_tenant_forgets_its_turns_and_no_others() -> None:
    sampler = engine()
    requests = crowd(12)
    for r in requests:
        sampler.submit(r)
    turn(sampler)
    sampler.drop("t1")
    results = []
    while sampler.busy:
        results += turn(sampler)
    assert {r.ticket.tenant_id for r in results} == {"t0", "t2"}
    assert sampler.waiting == []
    expected = {r.ticket.key: r for r in sample(requests)}
    for r in results:
        np.testing.assert_array_equal(r.token_ids, expected[r.ticket.key].token_ids)


def test_spans_account_for_every_token() -> None:
    spans: list[Span] = []
    requests = crowd()
    results = sample(requests, engine(spans))
    prompts = sum(s.real_tokens for s in spans if s.role == "prefill")
    decoded = sum(s.real_tokens for s in spans if s.role == "decode")
    assert prompts == sum(len(r.context_ids) for r in requests)
    # the first token of a turn comes with its prefill
    assert decoded == sum(len(r.token_ids) for r in results) - len(requests)
    assert all(0 < s.real_tokens <= s.executed_slots for s in spans)
    assert {t for s in spans for t in s.tenants} == set(NAMES)


def test_nothing_compiles_after_warm_up() -> None:
    sampler = engine()
    sampler.warm_up()
    sampler.publish(random_adapter(), 0)
    before = compile_counter().names()
    sample(crowd(), sampler)
    sampler.publish(random_adapter(version=2), 2)
    sample(crowd(), sampler)
    assert not compile_counter().names() - before


def test_warm_up_leaves_no_trace() -> None:
    warm = engine()
    warm.warm_up()
    for one, other in zip(sample(crowd(6), warm), sample(crowd(6)), strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)


def test_the_nucleus_is_the_smallest_set_that_reaches_top_p() -> None:
    probabilities = np.asarray([[0.05, 0.5, 0.15, 0.3]] * 5, np.float32)
    top_p = np.asarray([0.49, 0.5, 0.79, 0.81, 1.0], np.float32)
    kept = np.isfinite(keep_top(jnp.log(probabilities), top_p, np.zeros(5, np.int32)))
    assert kept.sum(1).tolist() == [1, 1, 2, 3, 4]
    assert kept[:, 1].all()
    np.testing.assert_array_equal(kept[2], [False, True, False, True])


def test_top_k_keeps_k_and_zero_keeps_all() -> None:
    logits = np.asarray([[0.0, 3.0, 1.0, 2.0]] * 3, np.float32)
    kept = np.isfinite(keep_top(logits, np.ones(3, np.float32), np.asarray([1, 2, 0])))
    np.testing.assert_array_equal(kept, [[False, True, False, False], [False, True, False, True], [True] * 4])


def test_a_row_that_cuts_nothing_is_untouched_by_filtering() -> None:
    # over a real vocabulary a cumulative sum often reaches 1 before its end
    logits = np.random.default_rng(0).normal(0, 3, (50, 272)).astype(np.float32)
    kept = keep_top(logits, np.ones(50, np.float32), np.zeros(50, np.int32))
    np.testing.assert_array_equal(kept, logits)


def test_draws_follow_the_distribution_whose_logprob_is_reported() -> None:
    n = 4000
    logits = np.tile(np.asarray([[2.0, 1.0, 0.0, -1.0]], np.float32), (n, 1))
    keys = np.stack([np.arange(n), np.zeros(n)], 1).astype(np.uint32)
    zeros = np.zeros(n, np.int32)
    for temperature, top_k in ((1.0, 0), (2.0, 0), (1.0, 2)):
        token, logprob = draw(
            logits,
            np.full(n, temperature, np.float32),
            np.ones(n, np.float32),
            np.full(n, top_k, np.int32),
            keys,
            zeros,
            filtered=top_k > 0,
        )
        token, logprob = np.asarray(token), np.asarray(logprob)
        weights = np.exp(logits[0] / temperature)
        weights[top_k or 4 :] = 0
        expected = weights / weights.sum()
        seen = np.bincount(token, minlength=4) / n
        np.testing.assert_allclose(seen, expected, atol=4 * np.sqrt(0.25 / n))
        np.testing.assert_allclose(logprob, np.log(expected[token]), atol=1e-5)
