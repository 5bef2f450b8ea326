from __future__ import annotations

import io
from typing import Any

import pytest

from bench.progress import EVERY_S, Progress, is_live
from tests.bench.conftest import small
from tunix_core.types import UpdateReport


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(tenant: str, version: int, age: int = 0) -> UpdateReport:
    figures = ("loss", "grad_norm", "learning_rate", "clip_fraction", "is_ess", "max_is_weight", "kl")
    counts = ("loss_tokens", "real_tokens", "executed_slots", "groups_no_signal", "invalid_rewards")
    return UpdateReport(
        update_id=0,
        tenant_id=tenant,
        version_before=version - 1,
        version_after=version,
        ordinals=(0,),
        t0_ns=0,
        t1_ns=1,
        published_ns=2,
        logprob_gap=0.0,
        entropy=0.0,
        staleness={age: 10},
        reward_mean=0.5,
        reward_mean_kept=0.5,
        **dict.fromkeys(figures, 0.0),
        **dict.fromkeys(counts, 1),
    )


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


def plain(watch: Watch, *sets: str, **more: Any) -> tuple[Progress, io.StringIO]:
    stream = io.StringIO()
    return Progress(small(*sets).config, stream=stream, env={}, clock=watch, **more), stream


def test_elsewhere_a_line_appears_every_tenth_and_not_for_every_update(watch: Watch) -> None:
    progress, stream = plain(watch, "updates=100")
    progress.begin("A1", 0)
    for k in range(1, 101):
        progress.update(report("math", k))
        progress.update(report("search", k))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "A1 seed 0: compiling"
    assert 9 <= len(lines) - 1 <= 11
    assert lines[-1].startswith("A1 seed 0: 100 %")


def test_elsewhere_a_slow_run_speaks_after_a_while(watch: Watch) -> None:
    progress, stream = plain(watch, "updates=1000")
    progress.begin("S1", 3)
    progress.update(report("math", 1))
    assert len(stream.getvalue().splitlines()) == 1
    watch.now = EVERY_S
    progress.update(report("math", 2, age=1))
    assert stream.getvalue().splitlines()[-1] == (
        # two updates of 2000; the pace since the first: one in 15 s
        "S1 seed 3: 0 %, staleness 0.50, 29970 s to go; math 2/1000 reward 0.50"
    )


def test_quiet_says_nothing(watch: Watch) -> None:
    progress, stream = plain(watch, enabled=False)
    with progress:
        progress.begin("S1", 0)
        progress.update(report("math", 1))
        progress.note("done")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("stream", "env", "live"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"CI": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_a_panel_is_for_people_at_a_terminal(stream: io.StringIO, env: dict[str, str], live: bool) -> None:
    assert is_live(stream, env) is live


def test_the_panel_is_taken_off_and_notes_stay(watch: Watch) -> None:
    stream = Terminal()
    with Progress(small().config, stream=stream, env={}, clock=watch) as progress:
        progress.begin("A1", 0)
        progress.update(report("math", 1))
        progress.note("A1 seed 0: success after 1.0 s")
    assert "A1 seed 0: success after 1.0 s" in stream.getvalue()
    progress.note("later")
    assert stream.getvalue().endswith("later\n")
