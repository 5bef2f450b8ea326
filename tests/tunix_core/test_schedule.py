"""The timetable, by hand on small views and by simulation under any order of events."""

from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunix_core.errors import ConfigError, LearnerError
from tunix_core.schedule import (
    ARMS,
    Admission,
    GroupView,
    ScheduleSpec,
    ScheduleView,
    TenantView,
    UpdateReason,
    active,
    admissions,
    arm,
    due_publications,
    next_update,
    staleness,
)


def tenant(name="a", published=0, learner=None, admitted=0, per_update=2, total=5, groups=(), **flags):
    return TenantView(
        tenant_id=name,
        published_version=published,
        learner_version=published if learner is None else learner,
        admitted=admitted,
        groups_per_update=per_update,
        updates_total=total,
        outstanding=tuple(GroupView(ordinal=o, complete=c, oldest_version=v) for o, c, v in groups),
        **flags,
    )


def view(*tenants):
    return ScheduleView(tenants=tenants)


def admitted(spec, *tenants):
    return [(a.tenant_id, a.ordinal) for a in admissions(spec, view(*tenants))]


COMPLETION = ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=2, consume="completion")


# Arms


def test_arms_differ_in_the_timetable_alone():
    assert list(ARMS) == ["S0", "S1", "A0", "A1"]
    assert [(s.tenants_at_once, s.step_barrier, s.max_staleness, s.consume) for s in ARMS.values()] == [
        (1, True, 0, "admission"),
        (None, True, 0, "admission"),
        (None, False, 0, "admission"),
        (None, False, 2, "admission"),
    ]
    assert arm("A1", 4).max_staleness == 4 and arm("S0", 0) is ARMS["S0"]


@pytest.mark.parametrize(
    ("name", "limit", "words"), [("S2", None, "S0, S1"), ("S1", 1, "A1"), ("A1", 0, "A0")]
)
def test_impossible_arms_are_refused(name, limit, words):
    with pytest.raises(ConfigError, match=words):
        arm(name, limit)


@pytest.mark.parametrize("bad", [{"max_staleness": -1}, {"tenants_at_once": 0}, {"consume": "random"}])
def test_impossible_specs_are_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ScheduleSpec(**{"tenants_at_once": None, "step_barrier": False, "max_staleness": 0, **bad})


# Admission


def test_synchronous_arm_admits_one_update_and_waits():
    assert admitted(ARMS["S1"], tenant()) == [("a", 0), ("a", 1)]
    assert admitted(ARMS["S1"], tenant(admitted=2)) == []
    assert admitted(ARMS["S1"], tenant(published=1, admitted=2)) == [("a", 2), ("a", 3)]


def test_staleness_buys_that_many_updates_ahead():
    assert admitted(arm("A1", 1), tenant(admitted=1)) == [("a", 1), ("a", 2), ("a", 3)]


def test_admission_counts_what_is_published_not_what_is_learnt():
    assert admitted(ARMS["A0"], tenant(published=0, learner=1, admitted=2)) == []


def test_nobody_admits_past_its_last_update():
    assert admitted(arm("A1", 9), tenant(total=1)) == [("a", 0), ("a", 1)]


def test_tenants_take_turns_in_the_list_of_admissions():
    assert admitted(ARMS["S1"], tenant("a"), tenant("b")) == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_barrier_holds_the_fast_tenant_at_the_slowest():
    fast, slow = tenant("a", published=1, admitted=2), tenant("b", admitted=2)
    assert admitted(ARMS["S1"], fast, slow) == []
    assert admitted(ARMS["A0"], fast, slow) == [("a", 2), ("a", 3)]


def test_serial_arm_runs_one_tenant_after_another():
    assert admitted(ARMS["S0"], tenant("a", published=4, admitted=10), tenant("b")) == []
    assert admitted(ARMS["S0"], tenant("a", published=5, admitted=10), tenant("b"))[0] == ("b", 0)


@pytest.mark.parametrize("flag", ["done", "stopped"])
def test_a_tenant_that_left_holds_nobody_back(flag):
    left, other = tenant("a", **{flag: True}), tenant("b", published=1, admitted=2)
    assert admitted(ARMS["S1"], left, other) == [("b", 2), ("b", 3)]
    assert [t.tenant_id for t in active(ARMS["S0"], view(left, other))] == ["b"]


def test_nothing_to_do_without_tenants():
    assert admissions(ARMS["S1"], view()) == () and next_update(ARMS["S1"], view()) is None


# Updates


def test_update_takes_the_next_ordinals_once_all_are_complete():
    waiting = tenant(admitted=2, groups=[(0, True, 0), (1, False, 0)])
    assert next_update(ARMS["A0"], view(waiting)) is None
    ready = tenant(admitted=4, groups=[(1, True, 0), (3, True, 0), (0, True, 0), (2, True, 0)])
    plan = next_update(arm("A1", 1), view(ready))
    assert plan and plan.tenants == {"a": (0, 1)} and plan.stale == {} and plan.reason is UpdateReason.READY


def test_a_later_full_update_never_overtakes():
    groups = [(0, False, 0), (1, True, 0), (2, True, 0), (3, True, 0)]
    assert next_update(arm("A1", 1), view(tenant(admitted=4, groups=groups))) is None


def test_without_barrier_whoever_is_ready_shares_the_step():
    a = tenant("a", admitted=2, groups=[(0, True, 0), (1, True, 0)])
    b = tenant("b", admitted=2, groups=[(0, True, 0), (1, False, 0)])
    c = tenant("c", published=1, admitted=4, groups=[(2, True, 1), (3, True, 1)])
    plan = next_update(ARMS["A0"], view(a, b, c))
    assert plan and plan.tenants == {"a": (0, 1), "c": (2, 3)}
    assert next_update(ARMS["S1"], view(a, b)) is None


def test_barrier_waits_for_all_of_the_same_step():
    a = tenant("a", admitted=2, groups=[(0, True, 0), (1, True, 0)])
    b = tenant("b", admitted=2, groups=[(0, True, 0), (1, True, 0)])
    plan = next_update(ARMS["S1"], view(a, b))
    assert plan and plan.tenants == {"a": (0, 1), "b": (0, 1)} and plan.reason is UpdateReason.BARRIER


def test_a_tenant_that_joins_late_catches_up_alone():
    old = tenant("a", published=3, admitted=6)
    new = tenant("b", admitted=2, groups=[(0, True, 0), (1, True, 0)])
    plan = next_update(ARMS["S1"], view(old, new))
    assert plan and plan.tenants == {"b": (0, 1)}


def test_staleness_limit_is_inclusive():
    # Learner at 5, limit 2: versions 5, 4 and 3 are fit, 2 is not, 6 can't exist.
    groups = [(o, True, v) for o, v in ((10, 5), (11, 4), (12, 3), (13, 2))]
    plan = next_update(
        COMPLETION, view(tenant(published=5, total=9, per_update=3, admitted=14, groups=groups))
    )
    assert plan and plan.tenants == {"a": (10, 11, 12)} and plan.stale == {"a": (13,)}
    future = tenant(published=5, total=9, per_update=1, admitted=15, groups=[(14, True, 6)])
    with pytest.raises(LearnerError, match="version 6"):
        next_update(COMPLETION, view(future))
    assert [staleness(5, v) for v in (5, 4, 3, 2)] == [0, 1, 2, 3]


def test_at_limit_zero_every_group_is_on_policy():
    on_policy = ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=0, consume="completion")
    groups = [(2, True, 1), (3, True, 1), (4, True, 0)]
    plan = next_update(on_policy, view(tenant(published=1, admitted=5, groups=groups)))
    assert plan and plan.tenants == {"a": (2, 3)} and plan.stale == {"a": (4,)}


def test_completion_takes_the_oldest_first():
    groups = [(0, False, 0), (1, True, 1), (2, True, 0), (3, True, 0)]
    plan = next_update(COMPLETION, view(tenant(published=1, admitted=4, groups=groups)))
    assert plan and plan.tenants == {"a": (2, 3)}


def test_stale_groups_are_dropped_even_when_nothing_can_be_learnt():
    full = tenant(published=3, admitted=8, groups=[(6, True, 0), (7, True, 0)])
    plan = next_update(COMPLETION, view(full))
    assert plan and plan.tenants == {} and plan.stale == {"a": (6, 7)}
    assert plan.reason is UpdateReason.DROP_ONLY
    # Their places are free again: 3 updates done, so (3 + 1 + 2) * 2 - 6 = 6, bounded by 5 updates in all.
    assert admitted(COMPLETION, tenant(published=3, admitted=8)) == [("a", 8), ("a", 9), ("a", 10), ("a", 11)]


def test_admission_order_refuses_a_group_started_without_permission():
    old = tenant(published=3, admitted=8, groups=[(6, True, 0), (7, True, 3)])
    with pytest.raises(LearnerError, match="Group 6 of tenant 'a'"):
        next_update(arm("A1", 2), view(old))


def test_publications_are_due_where_the_learner_is_ahead():
    tenants = (tenant("a", published=1, learner=2), tenant("b"), tenant("c", learner=1, stopped=True))
    assert due_publications(view(*tenants)) == ("a",)


# Any order of events


@dataclass
class Job:
    """One simulated tenant."""

    name: str
    per_update: int
    total: int
    published: int = 0
    learner: int = 0
    admitted: int = 0
    groups: dict[int, tuple[bool, int]] = field(default_factory=dict)
    updates: list[tuple[int, ...]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)

    def view(self):
        groups = [(o, c, v) for o, (c, v) in self.groups.items()]
        return tenant(
            self.name, self.published, self.learner, self.admitted, self.per_update, self.total, groups
        )


def simulate(spec, shapes, random):
    """Runs to the end, taking any possible event next; fails when none is possible before the end."""
    jobs = {f"t{i}": Job(f"t{i}", n, total) for i, (n, total) in enumerate(shapes)}
    while any(job.published < job.total for job in jobs.values()):
        now = view(*(job.view() for job in jobs.values()))
        admission, plan = admissions(spec, now), next_update(spec, now)
        events = []
        if admission:
            events.append(partial(_admit, jobs, random.choice(_first_of_each(admission))))
        running = [
            (job, o) for job in jobs.values() for o, (complete, _) in job.groups.items() if not complete
        ]
        if running:
            events.append(partial(_complete, *random.choice(running)))
        if plan is not None:
            events.append(partial(_learn, jobs, plan))
        due = due_publications(now)
        if due:
            events.append(partial(_publish, jobs[random.choice(due)]))
        assert events, f"deadlock: {now}"
        random.choice(events)()
    return jobs


def _first_of_each(admission: tuple[Admission, ...]):
    first = {}
    for a in admission:
        first.setdefault(a.tenant_id, a)
    return list(first.values())


def _admit(jobs, admission):
    job = jobs[admission.tenant_id]
    assert admission.ordinal == job.admitted
    job.groups[job.admitted] = (False, job.published)
    job.admitted += 1


def _complete(job, ordinal):
    job.groups[ordinal] = (True, job.groups[ordinal][1])


def _publish(job):
    job.published = job.learner


def _learn(jobs, plan):
    for name, ordinals in plan.stale.items():
        for o in ordinals:
            assert jobs[name].learner - jobs[name].groups.pop(o)[1] > 0
            jobs[name].dropped.append(o)
    for name, ordinals in plan.tenants.items():
        job = jobs[name]
        job.lags += [job.learner - job.groups.pop(o)[1] for o in ordinals]
        job.updates.append(ordinals)
        job.learner += 1


shapes = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(shapes, st.randoms(use_true_random=False), st.integers(1, 4))
def test_all_arms_learn_the_same_groups_in_the_same_updates(jobs, random: Random, eta):
    for spec in (ARMS["S0"], ARMS["S1"], ARMS["A0"], arm("A1", eta)):
        for job, (n, total) in zip(simulate(spec, jobs, random).values(), jobs, strict=True):
            assert job.updates == [tuple(range(u * n, (u + 1) * n)) for u in range(total)]
            assert max(job.lags) <= spec.max_staleness
            assert job.admitted == n * total and not job.groups and not job.dropped


@settings(max_examples=60, deadline=None)
@given(shapes, st.randoms(use_true_random=False), st.integers(0, 3))
def test_completion_order_learns_once_within_the_limit_and_redraws_what_it_drops(jobs, random: Random, eta):
    spec = ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=eta, consume="completion")
    for job, (n, total) in zip(simulate(spec, jobs, random).values(), jobs, strict=True):
        consumed = [o for update in job.updates for o in update]
        assert [len(update) for update in job.updates] == [n] * total
        assert sorted([*consumed, *job.dropped, *job.groups]) == list(range(job.admitted))
        assert max(job.lags) <= eta


@settings(max_examples=30, deadline=None)
@given(shapes, st.randoms(use_true_random=False), st.integers(1, 2), st.booleans(), st.integers(0, 2))
def test_any_mixture_of_settings_ends(jobs, random: Random, at_once, barrier, eta):
    for consume in ("admission", "completion"):
        spec = ScheduleSpec(tenants_at_once=at_once, step_barrier=barrier, max_staleness=eta, consume=consume)
        assert all(len(j.updates) == j.total for j in simulate(spec, jobs, random).values())
