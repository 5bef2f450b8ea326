from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tasks
from tasks.env import TextEnv
from tasks.latency import FORMS, LatencyEnv, LatencyError, parse
from tasks.protocol import search_turn


def test_every_form_in_the_message_is_itself_readable():
    for form in FORMS:
        assert parse(form).text == form


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "unknown kind ''"),
        ("slow", "unknown kind 'slow'"),
        ("none:3", "unknown kind 'none'"),
        ("const:", "const is not a number: ''"),
        ("const:x", "const is not a number: 'x'"),
        ("const:-1", "between 0 and 600"),
        ("const:nan", "not finite"),
        ("const:1e9", "between 0 and 600"),
        ("lognormal", "lacks median, p95"),
        ("lognormal:median=0.3", "lacks p95"),
        ("lognormal:median=0.3,p95=0.1", "median <= p95"),
        ("lognormal:median=0,p95=1", "0 < median"),
        ("lognormal:median=1,p95=2,sd=3", "no parameter 'sd'"),
        ("lognormal:median=1,median=2,p95=3", "comes twice"),
        ("lognormal:0.3", "not of the form name=number"),
        ("heavy:median=0.2,p95=1,tail=2,tail_s=6", "between 0 and 1"),
    ],
)
def test_a_bad_profile_names_its_fault_and_shows_the_forms(text: str, fault: str):
    with pytest.raises(LatencyError) as caught:
        parse(text)
    assert fault in str(caught.value)
    assert "Forms: none; const:0.2" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lognormal_has_the_median_and_p95_it_names():
    profile = parse("lognormal:median=0.4,p95=1.5")
    delays = [profile.delay_s(("env", 0, i, 0, 1)) for i in range(8000)]
    assert statistics.median(delays) == pytest.approx(0.4, rel=0.05)
    assert statistics.quantiles(delays, n=20)[18] == pytest.approx(1.5, rel=0.07)


def test_a_heavy_tail_sticks_as_often_as_it_says():
    profile = parse("heavy:median=0.2,p95=1.5,tail=0.02,tail_s=6")
    delays = [profile.delay_s(("env", i)) for i in range(10_000)]
    assert sum(delay == 6 for delay in delays) == pytest.approx(200, abs=50)


@given(st.tuples(st.text(max_size=5), st.integers(), st.integers()))
def test_a_delay_is_a_pure_bounded_function_of_its_key(key: tuple):
    profile = parse("remote-tools")
    assert profile.delay_s(key) == parse("remote-tools").delay_s(key)
    assert 0 < profile.delay_s(key) <= 600


def test_another_seed_or_sample_waits_otherwise():
    profile, reseeded = parse("remote-tools"), parse("remote-tools", seed=1)
    assert profile.delay_s(("e", 0, 0, 0, 1)) != reseeded.delay_s(("e", 0, 0, 0, 1))
    assert profile.delay_s(("e", 0, 0, 0, 1)) != profile.delay_s(("e", 0, 0, 1, 1))


def test_the_wrapper_waits_after_the_step_and_changes_nothing_else():
    slept: list[float] = []
    plain, inner = tasks.make("lookup"), tasks.make("lookup")
    assert isinstance(inner, TextEnv)
    profile = parse("remote-tools")
    env = LatencyEnv(inner, profile, sleep=slept.append)
    assert env.reset(seed=3) == plain.reset(seed=3)
    assert env.step(search_turn("flag")) == plain.step(search_turn("flag"))
    assert slept == [profile.delay_s(("Search/Lookup-v0", 3, 0, 0, 1))]
    assert env.timings[0].simulated_s == slept[0]
    assert env.transcript() == inner.transcript()


def test_make_wraps_only_where_there_is_latency():
    assert isinstance(tasks.make("add", "none"), TextEnv)
    assert isinstance(tasks.make("add", latency="const:0"), LatencyEnv)
    assert parse("remote-tools").describe()["simulated"] is True
    assert parse("none").describe()["simulated"] is False
