from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.errors import ConfigError
from tunix_core.tenant import FINAL_FATES, UNITS, Ledger, draw, tickets
from tunix_core.types import Fate, TenantSpec


def spec(env_ids=("a", "b"), seed=0, **changes):
    return TenantSpec(tenant_id="t", env_ids=env_ids, seed=seed, **changes)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(0, 2**31), st.integers(1, 60))
def test_no_item_comes_twice_and_none_is_skipped(mix, seed, groups):
    drawn = [draw(spec(tuple(mix), seed), k) for k in range(groups)]
    items = {env: [i for e, _, i in drawn if e == env] for env in mix}
    for env, indices in items.items():
        assert indices == list(range(len(indices))), env
    assert {s for _, s, _ in drawn} == {seed}


def test_an_id_listed_twice_is_drawn_twice_as_often():
    counts = Counter(draw(spec(("a", "a", "b")), k)[0] for k in range(30))
    assert counts == {"a": 20, "b": 10}


def test_the_seed_changes_the_order_of_the_mix():
    orders = {tuple(draw(spec(seed=s), k)[0] for k in range(12)) for s in range(8)}
    assert len(orders) > 1


def test_draw_is_pure():
    assert [draw(spec(), k) for k in (5, 0, 5)] == [draw(spec(), k) for k in (5, 0, 5)]


def test_bad_draws_are_refused():
    with pytest.raises(ValueError, match="negative"):
        draw(spec(), -1)
    with pytest.raises(ConfigError, match="no environment"):
        draw(spec(env_ids=()), 0)


def test_tickets_of_a_group_share_the_item_and_differ_in_sample_index():
    group = tickets(spec(group_size=3), 4, admitted_version=2, split="dev")
    assert [t.key for t in group] == [("t", 4, 0), ("t", 4, 1), ("t", 4, 2)]
    assert len({(t.env_id, t.env_seed, t.item_index) for t in group}) == 1
    assert {(t.admitted_version, t.split) for t in group} == {(2, "dev")}


def test_ledger_books_each_rollout_of_a_mixed_group():
    ledger = Ledger("t")
    ledger.admit(0, 3)
    for i, tokens in enumerate((5, 7, 2)):
        ledger.arrive(0, i, tokens)
    assert not ledger.closes() and ledger.fate(0) is Fate.OPEN
    assert ledger.snapshot()["open"] == {"groups": 1, "rollouts": 3, "tokens": 14}
    ledger.settle(0, Fate.CONSUMED, {1: Fate.ERRORED})
    assert ledger.closes() and ledger.fate(0) is Fate.CONSUMED
    books = ledger.snapshot()
    assert books["generated"] == {"groups": 1, "rollouts": 3, "tokens": 14}
    assert books["consumed"] == {"groups": 1, "rollouts": 2, "tokens": 7}
    assert books["errored"] == {"groups": 0, "rollouts": 1, "tokens": 7}


def test_a_second_final_fate_is_refused():
    ledger = Ledger("t")
    ledger.admit(0, 1)
    ledger.arrive(0, 0, 1)
    ledger.settle(0, Fate.CONSUMED)
    before = ledger.snapshot()
    for act in (
        lambda: ledger.settle(0, Fate.STALE),
        lambda: ledger.settle(0, Fate.CONSUMED),
        lambda: ledger.arrive(0, 0, 1),
        lambda: ledger.admit(0, 1),
    ):
        with pytest.raises(ValueError, match="Group 0 of tenant 't'"):
            act()
    assert ledger.snapshot() == before


def test_what_cannot_be_is_refused_without_a_trace():
    ledger = Ledger("t")
    ledger.admit(0, 2)
    ledger.arrive(0, 0, 4)
    before = ledger.snapshot()
    for act, words in (
        (lambda: ledger.settle(0, Fate.CONSUMED), "never arrived"),
        (lambda: ledger.settle(0, Fate.OPEN), "no final fate"),
        (lambda: ledger.settle(0, Fate.STALE, {2: Fate.ERRORED}), "no rollout 2"),
        (lambda: ledger.settle(1, Fate.STALE), "never admitted"),
        (lambda: ledger.arrive(0, 0, 4), "arrived already"),
        (lambda: ledger.arrive(0, 2, 4), "there is no 2"),
    ):
        with pytest.raises(ValueError, match=words):
            act()
    assert ledger.snapshot() == before


@given(st.data())
def test_ledger_balances_at_any_kill_point(data):
    ledger = Ledger("t")
    for ordinal in range(data.draw(st.integers(0, 6))):
        size = data.draw(st.integers(1, 4))
        ledger.admit(ordinal, size)
        arrived = data.draw(st.integers(0, size))
        for i in range(arrived):
            ledger.arrive(ordinal, i, data.draw(st.integers(0, 20)))
        if data.draw(st.booleans()):
            fates = FINAL_FATES if arrived == size else tuple(f for f in FINAL_FATES if f != Fate.CONSUMED)
            ledger.settle(ordinal, data.draw(st.sampled_from(fates)))
        books = ledger.snapshot()
        for unit in UNITS:
            assert books["generated"][unit] == sum(
                b[unit] for name, b in books.items() if name != "generated"
            )
        assert ledger.closes() == (books["open"]["groups"] == 0)
