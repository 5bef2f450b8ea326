"""Episodes that no bucket holds: refused at start, or filtered, counted and told; nothing is cut in silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tunix_core.learning import TENANTS, make, trajectory, update
from tunix_core.errors import ConfigError, LearnerError
from tunix_core.learner.stage import tenant_batch, trained_length
from tunix_core.testing import TINY_SPEC, EpisodeScript, Recorder, ScriptedEnvs, tiny_tenant, tiny_trainer
from tunix_core.types import Bucket, Fate, Group, LossSpec

SHORT = replace(TINY_SPEC, buckets=(Bucket(rows=4, length=17),), overlong="drop")
"""A first turn of up to six tokens fits, a second one doesn't always."""


def test_buckets_that_cannot_hold_an_episode_are_refused_at_start_unless_dropping_is_chosen() -> None:
    strict = replace(SHORT, overlong="error")
    with pytest.raises(ConfigError, match=r"\(4, 17\).*episode of 30 tokens.*overlong='drop'"):
        tiny_trainer([tiny_tenant()], "S1", ScriptedEnvs(), spec=strict)
    with pytest.raises(ConfigError, match="overlong is 'cut'"):
        tiny_trainer([tiny_tenant()], "S1", ScriptedEnvs(), spec=replace(SHORT, overlong="cut"))


@pytest.mark.parametrize("schedule", ["S1", "A1"])
def test_overlong_episodes_are_filtered_counted_and_told_and_the_books_close(schedule: str) -> None:
    recorder = Recorder()
    envs = ScriptedEnvs(lambda ticket: EpisodeScript(observations=("ab", "a")))
    trainer = tiny_trainer([tiny_tenant(updates=4)], schedule, envs, spec=SHORT, observer=recorder)
    trainer.warm_up()
    result = trainer.run()
    assert result.status == "success"
    books = result.ledgers["t0"]
    fates = ("consumed", "stale", "filtered", "errored", "surplus")
    for unit in ("rollouts", "tokens"):
        assert books["generated"][unit] == sum(books[fate][unit] for fate in fates)
    ended = [e for e in recorder.endings if e.consumed_in is not None or e.trajectory.fate is Fate.FILTERED]
    assert {e.trajectory.fate for e in ended} == {Fate.CONSUMED, Fate.FILTERED}
    for e in ended:
        fits = trained_length(e.trajectory) <= 17
        assert e.trajectory.fate is (Fate.CONSUMED if fits else Fate.FILTERED)
        assert (e.consumed_in is not None) == fits
    # what went in was trained or dropped
    reports = recorder.reports_of("t0")
    in_updates = {o for r in reports for o in r.ordinals}
    mine = [e.trajectory for e in ended if e.trajectory.ticket.ordinal in in_updates]
    assert sum(r.loss_tokens + r.filtered_tokens for r in reports) == sum(t.sampled_tokens for t in mine)
    assert sum(r.filtered for r in reports) == sum(t.fate is Fate.FILTERED for t in mine)
    told = [e.value for e in recorder.events if e.key == "rollout.filtered"]
    assert len(told) == books["filtered"]["rollouts"]
    assert sum(v["tokens"] for v in told) == books["filtered"]["tokens"]
    assert all(v["reason"].endswith("tokens exceed the longest bucket, 17") for v in told)


def test_a_sequence_as_long_as_the_bucket_fits_and_one_more_does_not() -> None:
    """Samples of 63, 64, 65 and 200 tokens against a bucket of 64 (NVIDIA-NeMo/RL issue 169)."""
    members = [trajectory(float(i % 2), sample=i, shape=(3, n - 3)) for i, n in enumerate((63, 64, 65, 200))]
    assert [trained_length(t) for t in members] == [63, 64, 65, 200]
    bucket = [Bucket(rows=2, length=64)]
    with pytest.raises(LearnerError, match=r"Sequence 2 .* 65 tokens; the longest bucket holds 64"):
        update(make(buckets=bucket), Group(tenant_id="t0", ordinal=0, trajectories=tuple(members)))
    marked = [replace(t, fate=Fate.FILTERED) if trained_length(t) > 64 else t for t in members]
    group = Group(tenant_id="t0", ordinal=0, trajectories=tuple(marked))
    report = update(make(buckets=bucket), group)["t0"]
    assert (report.filtered, report.filtered_tokens) == (2, 62 + 197)
    assert report.loss_tokens == 60 + 61
    assert report.loss_tokens + report.filtered_tokens == sum(t.sampled_tokens for t in members)


def test_advantages_and_denominators_are_those_without_the_filtered() -> None:
    members = [trajectory(float(i), sample=i) for i in range(4)]
    filtered = [*members[:3], replace(members[3], fate=Fate.FILTERED)]
    one = tenant_batch([Group(tenant_id="t0", ordinal=0, trajectories=tuple(filtered))], LossSpec(), 6.0)
    other = tenant_batch([Group(tenant_id="t0", ordinal=0, trajectories=tuple(members[:3]))], LossSpec(), 6.0)
    assert [s.advantage for s in one.sequences] == [s.advantage for s in other.sequences]
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.rewards == (0.0, 1.0, 2.0, 3.0)  # the headline reward is of every rollout


def test_an_update_whose_rollouts_were_all_filtered_takes_no_step_and_counts() -> None:
    learner = make(TENANTS)
    before = learner.adapter("t0").sha256
    gone = tuple(replace(trajectory(float(i), sample=i), fate=Fate.FILTERED) for i in range(4))
    report = update(learner, Group(tenant_id="t0", ordinal=0, trajectories=gone))["t0"]
    assert report.skipped is not None and report.version_after == 1
    assert (report.loss_tokens, report.filtered) == (0, 4)
    assert learner.adapter("t0").sha256 == before
