"""Groups are assembled in any order of arrival and spent exactly once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.buffer.groups import TenantBuffer
from tunix_core.tenant import tickets
from tunix_core.testing import tiny_tenant
from tunix_core.types import EpisodeTicket, Fate, StopReason, Trajectory, Turn

SPEC = tiny_tenant("t0", group_size=3, groups_per_update=2)


def arrived(
    ticket: EpisodeTicket, *, tokens: int = 4, version: int = 0, error: str | None = None
) -> Trajectory:
    turn = Turn(
        role="policy",
        text="",
        token_ids=np.zeros(tokens, np.int32),
        loss_mask=np.ones(tokens, bool),
        behavior_logprobs=np.zeros(tokens, np.float32),
        policy_version=np.full(tokens, version),
        stop=StopReason.EOS,
        t_start_ns=0,
        t_end_ns=0,
    )
    return Trajectory(
        ticket=ticket,
        item_uid="u",
        turns=(turn,) if tokens else (),
        reward=1.0,
        grade_status="",
        stop=StopReason.TERMINATED,
        fate=Fate.ERRORED if error else Fate.OPEN,
        t_start_ns=0,
        t_end_ns=0,
        error=error,
    )


def members(ordinal: int) -> tuple[EpisodeTicket, ...]:
    return tickets(SPEC, ordinal, 0)


def test_a_group_is_complete_with_its_last_member_and_comes_out_in_order() -> None:
    buffer = TenantBuffer(SPEC)
    buffer.admit(0)
    first, second, third = members(0)
    assert not buffer.add(arrived(third))
    assert not buffer.add(arrived(first))
    assert not buffer.view.outstanding[0].complete
    assert buffer.add(arrived(second))
    assert buffer.view.outstanding[0].complete
    (group,) = buffer.take([0], Fate.CONSUMED)
    assert [t.ticket.sample_index for t in group.trajectories] == [0, 1, 2]
    assert buffer.view.outstanding == ()
    assert buffer.ledger.closes()


def test_the_view_tells_the_oldest_token_or_the_version_at_admission() -> None:
    buffer = TenantBuffer(SPEC)
    buffer.published_version = 5
    buffer.admit(0)
    assert buffer.view.outstanding[0].oldest_version == 5
    first, second, _ = members(0)
    buffer.add(arrived(first, version=7))
    assert buffer.view.outstanding[0].oldest_version == 7
    buffer.add(arrived(second, version=6))
    assert buffer.view.outstanding[0].oldest_version == 6
    assert buffer.view.admitted == 1


def test_an_errored_member_keeps_its_place_and_its_own_fate() -> None:
    buffer = TenantBuffer(SPEC)
    buffer.admit(0)
    for i, ticket in enumerate(members(0)):
        buffer.add(arrived(ticket, tokens=i + 1, error="boom" if i == 1 else None))
    (group,) = buffer.take([0], Fate.CONSUMED)
    assert len(group.trajectories) == 3
    books = buffer.ledger.snapshot()
    assert books["consumed"] == {"groups": 1, "rollouts": 2, "tokens": 1 + 3}
    assert books["errored"] == {"groups": 0, "rollouts": 1, "tokens": 2}
    assert buffer.ledger.closes()


def test_nothing_is_taken_or_added_twice() -> None:
    buffer = TenantBuffer(SPEC)
    buffer.admit(0)
    first, *rest = members(0)
    buffer.add(arrived(first))
    with pytest.raises(ValueError, match="arrived already"):
        buffer.add(arrived(first))
    for ticket in rest:
        buffer.add(arrived(ticket))
    buffer.take([0], Fate.CONSUMED)
    with pytest.raises(KeyError):
        buffer.take([0], Fate.CONSUMED)
    with pytest.raises(ValueError, match="admitted already"):
        buffer.admit(0)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12), st.sets(st.integers(0, 3)))
def test_the_books_close_wherever_a_run_ends(arrivals: list[tuple[int, bool]], taken: set[int]) -> None:
    """Four groups, some members arrived, some failed, complete ones taken or not: closing settles the rest."""
    buffer = TenantBuffer(SPEC)
    seen: Counter[tuple[int, int]] = Counter()
    for k in range(4):
        buffer.admit(k)
    for place, (sample_index, failed) in enumerate(arrivals):
        key = (place % 4, sample_index)
        if not seen[key]:
            seen[key] += 1
            buffer.add(arrived(members(key[0])[sample_index], error="x" if failed else None))
    complete = {g.ordinal for g in buffer.view.outstanding if g.complete}
    buffer.take(sorted(taken & complete), Fate.CONSUMED)
    left = buffer.close()
    assert buffer.ledger.closes()
    assert len(left) == len(seen) - 3 * len(taken & complete)
    assert buffer.view.outstanding == ()
