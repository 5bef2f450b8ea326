from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunix_core.errors import ConfigError, LearnerError
from tunix_core.losses import sequence_token_weights
from tunix_core.packing import pack, plan, unpack
from tunix_core.types import Bucket, TrainSequence


def bucket(rows, length):
    return Bucket(rows=rows, length=length)


def sequence(n, tenant="a", ordinal=0, prompt=1, **changes):
    """A sequence of n tokens of which all after the prompt are sampled, at version 3."""
    mask = np.arange(n) >= prompt
    made = TrainSequence(
        tenant_id=tenant,
        ordinal=ordinal,
        sample_index=0,
        token_ids=np.arange(n, dtype=np.int32) + 100 * (ordinal + 1),
        loss_mask=mask,
        behavior_logprobs=np.where(mask, -0.5 - ordinal, 0).astype(np.float32),
        policy_version=np.where(mask, 3, -1).astype(np.int32),
        advantage=1.5,
    )
    return replace(made, **changes)


def packed(sequences, buckets, versions=3, **options):
    tenants = [s.tenant_id for s in sequences]
    names = sorted(set(tenants))
    layout = plan([len(s.token_ids) for s in sequences], tenants, buckets, **options)
    weights = np.ones(len(sequences), np.float32)
    slots = {name: i + 1 for i, name in enumerate(names)}
    return layout, pack(sequences, weights, slots, dict.fromkeys(names, versions), layout)


def rows_of(layout, tenant):
    return [row.sequences for batch in layout.batches for row in batch.rows if row.tenant == tenant]


# Planning


def test_first_fit_decreasing_by_hand():
    # 6 and 4 fill a row of ten, twice; in arrival order 4 and 4 would share one, and it would take three.
    layout = plan([4, 4, 6, 6], ["a"] * 4, [bucket(2, 10)])
    assert rows_of(layout, "a") == [(0, 2), (1, 3)]
    assert layout.stats.waste == 0.0


def test_a_row_never_holds_two_tenants():
    layout = plan([2, 2, 2], ["a", "b", "a"], [bucket(2, 10)])
    assert (rows_of(layout, "a"), rows_of(layout, "b")) == ([(0, 2)], [(1,)])


def test_a_row_is_as_long_as_its_longest_member_needs():
    layout = plan([30, 5], ["a", "b"], [bucket(1, 8), bucket(1, 32)])
    assert [(b.bucket.length, b.rows[0].tenant) for b in layout.batches] == [(32, "a"), (8, "b")]


def test_a_row_shrinks_to_the_shortest_length_that_holds_it():
    layout = plan([30, 30, 20], ["a"] * 3, [bucket(1, 64), bucket(1, 40), bucket(1, 24)])
    assert sorted(b.bucket.length for b in layout.batches) == [24, 64]


def test_a_row_travels_among_rows_of_its_own_length():
    """In an empty row of a longer batch its figures would end on other bits, for its neighbours' sake."""
    layout = plan([30, 5, 5], ["a", "b", "c"], [bucket(4, 8), bucket(4, 32)])
    assert [b.bucket for b in layout.batches] == [bucket(4, 32), bucket(4, 8)]
    assert [[r.tenant for r in b.rows] for b in layout.batches] == [["a"], ["b", "c"]]


def test_row_counts_are_chosen_for_the_fewest_empty_rows():
    shapes = [bucket(1, 8), bucket(4, 8)]
    for rows, expected in ((1, [1]), (3, [1, 1, 1]), (4, [4]), (6, [4, 1, 1])):
        layout = plan([8] * rows, ["a"] * rows, shapes)
        assert [b.bucket.rows for b in layout.batches] == expected
    assert [b.bucket.rows for b in plan([8] * 7, ["a"] * 7, [bucket(8, 8), bucket(2, 8)]).batches] == [8]


def test_64_fits_64_and_65_is_an_error_that_names_bucket_and_sample():
    assert plan([63, 64], ["a", "a"], [bucket(2, 64)]).stats.real_tokens == 127
    with pytest.raises(LearnerError, match=r"Sequence 1 of tenant 'b' has 65 tokens; .* bucket holds 64"):
        plan([64, 65], ["a", "b"], [bucket(2, 64)])


def test_dropped_sequences_are_counted():
    lengths = [63, 64, 65, 200]
    layout = plan(lengths, ["a"] * 4, [bucket(2, 64)], overlong="drop")
    stats = layout.stats
    assert layout.dropped == (2, 3) and (stats.dropped_sequences, stats.dropped_tokens) == (2, 265)
    assert sum(lengths) == stats.real_tokens + stats.dropped_tokens
    assert stats.executed_slots == 128 and stats.waste == pytest.approx(1 / 128)


def test_nothing_to_pack_makes_no_batch():
    layout = plan([], [], [bucket(2, 64)])
    assert layout.batches == () and layout.stats.waste == 0.0 and unpack([], layout, []) == []


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        (([1], ["a"], []), ConfigError, "Buckets"),
        (([1], ["a"], [bucket(0, 4)]), ConfigError, "Buckets"),
        (([1, 2], ["a"], [bucket(1, 4)]), LearnerError, "2 lengths but 1 tenants"),
        (([1, 0], ["a", "a"], [bucket(1, 4)]), LearnerError, "Sequence 1 has no tokens"),
    ],
)
def test_impossible_plans_are_refused(args, error, words):
    with pytest.raises(error, match=words):
        plan(*args)
    with pytest.raises(ConfigError, match="overlong"):
        plan([1], ["a"], [bucket(1, 4)], overlong="cut")  # type: ignore[arg-type]


lengths_and_tenants = st.lists(st.tuples(st.integers(1, 32), st.sampled_from("abc")), max_size=30)
bucket_sets = st.lists(st.builds(bucket, st.integers(1, 5), st.integers(1, 31)), max_size=3).map(
    lambda extra: [*extra, bucket(2, 32)]
)


@given(lengths_and_tenants, bucket_sets)
def test_every_sequence_has_one_place_in_a_row_that_holds_it(items, buckets):
    lengths, tenants = [n for n, _ in items], [t for _, t in items]
    layout = plan(lengths, tenants, buckets)
    seen = []
    for batch in layout.batches:
        assert batch.bucket in buckets and 1 <= len(batch.rows) <= batch.bucket.rows
        for row in batch.rows:
            assert sum(lengths[i] for i in row.sequences) <= batch.bucket.length
            assert {tenants[i] for i in row.sequences} == {row.tenant}
            assert list(row.sequences) == sorted(row.sequences)
            seen += row.sequences
    assert sorted(seen) == list(range(len(items)))


@given(lengths_and_tenants, bucket_sets)
def test_no_row_of_a_full_batch_is_longer_than_it_need_be(items, buckets):
    buckets = [
        *buckets,
        *(bucket(1, b.length) for b in buckets),
    ]  # with batches of one row none is empty
    lengths, tenants = [n for n, _ in items], [t for _, t in items]
    layout = plan(lengths, tenants, buckets)
    for batch in layout.batches:
        assert len(batch.rows) == batch.bucket.rows
        for row in batch.rows:
            used = sum(lengths[i] for i in row.sequences)
            assert batch.bucket.length == min(b.length for b in buckets if b.length >= used)


@given(lengths_and_tenants, lengths_and_tenants, bucket_sets)
def test_neighbours_do_not_change_what_shares_a_row(items, others, buckets):
    own = [n for n, _ in items]
    alone = plan(own, ["me"] * len(own), buckets)
    lengths = [n for pair in zip(own, own, strict=True) for n in pair] + [n for n, _ in others]
    tenants = ["me", "twin"] * len(own) + [t for _, t in others]
    together = plan(lengths, tenants, buckets)
    index_of = {i: k for k, i in enumerate(i for i, t in enumerate(tenants) if t == "me")}
    mine = [tuple(index_of[i] for i in row) for row in rows_of(together, "me")]
    assert sorted(mine) == sorted(rows_of(alone, "me"))
    if len({b.length for b in buckets}) == 1:
        assert mine == rows_of(alone, "me")


def test_packing_many_sequences_wastes_little():
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(4.5, 0.6, 256).astype(int) + 1, 512).tolist()
    layout = plan(lengths, ["a"] * 256, [bucket(2, 512)])
    assert layout.stats.waste < 0.05


# Filling


def test_batch_by_hand():
    sequences = [sequence(3, ordinal=0), sequence(2, ordinal=1), sequence(4, tenant="b", ordinal=2, prompt=2)]
    _, (batch,) = packed(sequences, [bucket(3, 6)], versions=5)
    assert batch.token_ids.tolist() == [[100, 101, 102, 200, 201, 0], [300, 301, 302, 303, 0, 0], [0] * 6]
    assert batch.segment_ids.tolist() == [[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0], [0] * 6]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 0, 0], [0] * 6]
    assert batch.loss_mask.tolist() == [
        [False, True, True, False, True, False],
        [False] * 2 + [True] * 2 + [False] * 2,
        [False] * 6,
    ]
    assert batch.token_age.tolist() == [[0, 2, 2, 0, 2, 0], [0, 0, 2, 2, 0, 0], [0] * 6]
    assert batch.behavior_logprobs.tolist() == [
        [0, -0.5, -0.5, 0, -1.5, 0],
        [0, 0, -2.5, -2.5, 0, 0],
        [0] * 6,
    ]
    assert batch.advantages.tolist() == [[0, 1.5, 1.5, 0, 1.5, 0], [0, 0, 1.5, 1.5, 0, 0], [0] * 6]
    assert batch.token_weights.tolist() == [[0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0], [0] * 6]
    assert batch.tenant_slot.tolist() == [1, 2, 0]
    assert [str(a.dtype) for a in batch] == ["int32"] * 4 + ["bool"] + ["float32"] * 3 + ["int32"]


def test_ages_of_a_sequence_from_two_policies_are_kept_per_token():
    # 57 tokens of version 7, 71 of version 8, consumed at 9.
    versions = np.asarray([-1] + [7] * 57 + [8] * 71, np.int32)
    _, (batch,) = packed([sequence(129, policy_version=versions)], [bucket(1, 129)], versions=9)
    assert batch.token_age[0].tolist() == [0] + [2] * 57 + [1] * 71


def test_a_token_from_the_future_is_refused():
    with pytest.raises(LearnerError, match=r"version 3.* reached 2"):
        packed([sequence(4)], [bucket(1, 4)], versions=2)


@pytest.mark.parametrize("junk", [0.0, 1.0, -50.0, np.nan])
def test_placeholders_off_the_mask_do_not_reach_the_batch(junk):
    made = sequence(5, prompt=3)
    dirty = replace(made, behavior_logprobs=np.where(made.loss_mask, made.behavior_logprobs, junk))
    (_, (clean_batch,)), (_, (batch,)) = packed([made], [bucket(1, 5)]), packed([dirty], [bucket(1, 5)])
    for a, b in zip(batch, clean_batch, strict=True):
        np.testing.assert_array_equal(a, b)


def test_tool_tokens_are_in_the_context_and_not_in_the_loss():
    # prompt 3, policy 4, tool 3, policy 5.
    mask = np.repeat([False, True, False, True], [3, 4, 3, 5])
    version = np.where(mask, 3, -1)
    _, (batch,) = packed([sequence(15, loss_mask=mask, policy_version=version)], [bucket(1, 16)])
    assert batch.loss_mask.sum() == 9 and (batch.segment_ids[0] == 1).sum() == 15
    assert (batch.token_weights > 0).sum() == 9


def test_a_sequence_without_loss_tokens_is_carried_and_weighs_nothing():
    silent = sequence(3, loss_mask=np.zeros(3, bool), policy_version=np.full(3, -1))
    _, (batch,) = packed([silent], [bucket(1, 4)])
    assert not batch.token_weights.any() and not batch.token_age.any()


@pytest.mark.parametrize("field", ["loss_mask", "behavior_logprobs", "policy_version"])
def test_arrays_of_different_length_are_refused(field):
    # never padded with zeros.
    made = sequence(4)
    short = replace(made, **{field: getattr(made, field)[:-1]})
    with pytest.raises(LearnerError, match=r"\('a', 0, 0\).*They must be equal"):
        packed([short], [bucket(1, 4)])


def test_a_first_token_in_the_loss_is_refused():
    with pytest.raises(LearnerError, match="nothing precedes it"):
        packed([sequence(4, prompt=0)], [bucket(1, 4)])


def test_a_plan_of_other_sequences_is_refused():
    layout = plan([4], ["a"], [bucket(1, 4)])
    with pytest.raises(LearnerError, match="2 sequences and 1 weights"):
        pack([sequence(4)] * 2, [1.0], {"a": 0}, {"a": 3}, layout)
    with pytest.raises(LearnerError, match="planned for tenant 'a'"):
        pack([sequence(4, tenant="b")], [1.0], {"a": 0}, {"a": 3}, layout)


@settings(max_examples=60, deadline=None)
@given(lengths_and_tenants, bucket_sets, st.booleans())
def test_unpack_inverts_pack(items, buckets, drop):
    if drop:
        buckets = buckets[:-1] or [bucket(1, 16)]
    sequences = [sequence(n, tenant=t, ordinal=k) for k, (n, t) in enumerate(items)]
    layout, batches = packed(sequences, buckets, overlong="drop")
    for name in ("token_ids", "behavior_logprobs", "loss_mask"):
        back = unpack(batches, layout, [getattr(b, name) for b in batches])
        for i, (found, made) in enumerate(zip(back, sequences, strict=True)):
            expected = getattr(made, name) if i not in layout.dropped else []
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["token_mean", "sequence_mean", "constant"])
@pytest.mark.parametrize(
    "buckets",
    [[bucket(1, 15)], [bucket(2, 10)], [bucket(1, 7)], [bucket(5, 15)], [bucket(8, 40), bucket(1, 7)]],
)
def test_the_weighted_sum_does_not_depend_on_the_layout(kind, buckets):
    # 2, 4 and 6 loss tokens; empty rows weigh nothing, and the denominator isn't a row's.
    counts, losses = [2, 4, 6], [0.0, 0.5, -0.5]
    sequences = [sequence(n + 1, ordinal=k, advantage=losses[k]) for k, n in enumerate(counts)]
    layout = plan([n + 1 for n in counts], ["a"] * 3, buckets)
    weights = sequence_token_weights(counts, kind, 10.0)
    batches = pack(sequences, weights, {"a": 0}, {"a": 3}, layout)
    total = sum(float((b.token_weights * b.advantages).sum()) for b in batches)
    expected = {"token_mean": -1 / 12, "sequence_mean": 0.0, "constant": -1 / 30}[kind]
    assert total == pytest.approx(expected, abs=1e-7)


def test_weights_of_a_tenant_ignore_its_neighbours():
    # a mean over the tenant's own tokens, whoever is in the batch.
    sums = defaultdict(float)
    tenants, counts = ["a", "b", "b", "b"], np.asarray([4, 9, 2, 5])
    weights = np.zeros(4, np.float32)
    for name in "ab":
        mine = np.asarray([t == name for t in tenants])
        weights[mine] = sequence_token_weights(counts[mine], "token_mean")
    sequences = [
        sequence(int(n) + 1, tenant=t, ordinal=k)
        for k, (n, t) in enumerate(zip(counts, tenants, strict=True))
    ]
    layout = plan(counts + 1, tenants, [bucket(2, 10)])
    for batch in pack(sequences, weights, {"a": 0, "b": 1}, {"a": 3, "b": 3}, layout):
        for slot, row in zip(batch.tenant_slot, batch.token_weights, strict=True):
            sums[int(slot)] += float(row.sum())
    assert sums == pytest.approx({0: 1.0, 1: 1.0})
