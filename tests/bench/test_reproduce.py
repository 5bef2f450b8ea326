"""T3: a record's claim held to a run with other seeds."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import compose
from bench.reproduce import judge
from leaderboard.records import RunRecord
from leaderboard.rounds import Round
from leaderboard.stats import Ratio, paired_ratio
from tests.bench.conftest import Invoke
from tests.bench.fakes import ScriptedArms
from tests.bench.test_cli import RUN


def ratio(mean: float, *, noise: float = 0.02, n: int = 5) -> Ratio:
    """Of n seeds whose log ratios are spread evenly around the mean."""
    spread = [noise * (2 * i / (n - 1) - 1) for i in range(n)]
    found = paired_ratio(dict.fromkeys(range(n), 1.0), {i: math.exp(-x) / mean for i, x in enumerate(spread)})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        (ratio(2.0), "reproduced"),
        (ratio(2.03), "reproduced"),
        (ratio(1.0), "not reproduced"),
        (ratio(3.0), "not reproduced"),  # faster than claimed is another claim
        (ratio(2.2, noise=0.5), "undecided"),
        (Ratio(ratio=2.2, low=None, high=None, n=1, p_value=None), "undecided"),
    ],
)
def test_a_claim_is_held_to_its_interval_and_refuted_only_beyond_noise(own: Ratio, verdict: str) -> None:
    found = judge(ratio(2.0), own)
    assert found.verdict == verdict and found.sentence.startswith(f"{verdict}: ")
    assert found.change == pytest.approx(own.ratio / 2.0)


def test_what_claims_nothing_is_not_judged() -> None:
    alone = Ratio(ratio=2.0, low=None, high=None, n=1, p_value=None)
    with pytest.raises(ValueError, match="no interval"):
        judge(alone, ratio(2.0))
    with pytest.raises(ValueError, match="never came to its end"):
        judge(ratio(2.0), Ratio(ratio=0.0, low=None, high=None, n=3, p_value=None, lost=1))


def test_of_equal_machines_one_in_twenty_is_called_not_reproduced_at_most() -> None:
    """Both sides drawn from one distribution: the refutation's false rate is that of its interval, or below."""
    rng, refuted, trials = random.Random(0), 0, 2000

    def drawn(n: int) -> Ratio:
        logs = [rng.gauss(0.7, 0.08) for _ in range(n)]
        found = paired_ratio(dict.fromkeys(range(n), 1.0), {i: math.exp(-x) for i, x in enumerate(logs)})
        assert found is not None
        return found

    for _ in range(trials):
        refuted += judge(drawn(5), drawn(5)).verdict == "not reproduced"
    assert refuted / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


@given(mean=st.floats(0.2, 20), factor=st.floats(0.2, 5), n=st.integers(2, 8))
def test_the_change_lies_in_its_interval_and_scales_out(mean: float, factor: float, n: int) -> None:
    one, two = judge(ratio(mean), ratio(mean * factor, n=n)), judge(ratio(1.0), ratio(factor, n=n))
    assert one.low is not None and one.high is not None and one.low <= one.change <= one.high
    assert one.change == pytest.approx(two.change) and one.low == pytest.approx(two.low)


def jitter(monkeypatch: pytest.MonkeyPatch, **round_ms: int) -> None:
    """Arms whose rounds take a little longer or shorter by seed."""

    class Jittery(ScriptedArms):
        def __call__(self, prepared, arm, seed, *rest, **more):
            rng = random.Random(f"{arm} {seed}")
            self.round_ms = {a: ms + rng.randrange(3) for a, ms in self.round_ms.items()}
            return super().__call__(prepared, arm, seed, *rest, **more)

    script = Jittery()
    script.round_ms |= round_ms
    monkeypatch.setattr(compose, "run_arm", script)


def test_a_record_is_run_again_with_the_seeds_of_the_nonce(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jitter(monkeypatch)
    invoke(*RUN, "--out", "r", "--seeds", "4", "--no-aa")
    jitter(monkeypatch)
    code, out, err = invoke("reproduce", "r", "--nonce", "a-nonce-nobody-knew", "--out", "own", "--json")
    value = json.loads(out)
    own = RunRecord.open(tmp_path / "own").header
    first = Round(name="nonce", nonce="a-nonce-nobody-knew").seed
    assert (own.config["seed"], own.config["seeds"]) == (first, 5)
    assert f"seeds {first} to {first + 4}" in err
    theirs = RunRecord.open(tmp_path / "r").header
    assert {k: v for k, v in own.config.items() if k not in ("seed", "seeds", "out", "data")} == {
        k: v for k, v in theirs.config.items() if k not in ("seed", "seeds", "out", "data")
    }
    assert (code, value["tier"]) == ((0, "T3") if value["verdict"] == "reproduced" else (3, None))
    assert value["verdict"] in ("reproduced", "undecided")


def test_a_slower_product_does_not_reproduce_the_claim(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    jitter(monkeypatch)
    invoke(*RUN, "--out", "r", "--seeds", "4", "--no-aa")
    jitter(monkeypatch, A1=38)
    code, out, _ = invoke("reproduce", "r", "--nonce", "a-nonce-nobody-knew", "--seeds", "4")
    assert code == 3 and "r: not reproduced: 1." in out and "by more than the noise of both" in out


def test_what_cannot_be_reproduced_is_said_before_anything_is_run(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke(*RUN, "--out", "one")
    code, _, err = invoke("reproduce", "one", "--nonce", "a-nonce-nobody-knew", "--out", "own")
    assert code == 2 and "one has one seed: it claims nothing" in err
    invoke(*RUN, "--out", "two", "--seeds", "2")
    monkeypatch.setattr(Round, "seed", 1)
    code, _, err = invoke("reproduce", "two", "--nonce", "a-nonce-nobody-knew", "--out", "own")
    assert code == 2 and "gives seeds that the record has" in err
    (tmp_path / "two" / "metrics.jsonl").write_text("")
    code, _, err = invoke("reproduce", "two", "--nonce", "a-nonce-nobody-knew", "--out", "own")
    assert code == 3 and "two is refused: E1" in err
    assert not (tmp_path / "own").exists()
