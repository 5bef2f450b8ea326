"""Simulated latency of remote tools: seeded, labelled, and never part of a reward.

A profile is a pure function from an episode's coordinates to seconds, so the same step waits equally long
in every arm of a comparison. What is simulated says so: `LatencyProfile.describe()` goes into the record.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import gymnasium

from tasks.env import StepTiming

NAMED = {"remote-tools": "lognormal:median=0.4,p95=1.5"}
FORMS = (
    "none",
    "const:0.2",
    "lognormal:median=0.3,p95=1.2",
    "heavy:median=0.2,p95=1.5,tail=0.02,tail_s=6",
    *NAMED,
)
MAX_S = 600.0
"""Nothing waits longer: a mistyped profile must not hang a run."""

_Z95 = NormalDist().inv_cdf(0.95)
_PARAMETERS = {"lognormal": ("median", "p95"), "heavy": ("median", "p95", "tail", "tail_s")}


class LatencyError(ValueError):
    """A latency profile that cannot be read; the message names the fault and shows the forms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyProfile:
    """Seconds added to each environment step.

    `heavy` is a lognormal of which a share `tail` is stuck for `tail_s`, as calls to a tool that run into
    their time limit are.
    """

    text: str
    kind: str = "none"
    median_s: float = 0.0
    p95_s: float = 0.0
    tail: float = 0.0
    tail_s: float = 0.0
    seed: int = 0

    @property
    def simulated(self) -> bool:
        """True where the profile adds any delay."""
        return self.kind != "none"

    def delay_s(self, key: tuple[Any, ...]) -> float:
        """Returns the delay for (env id, env seed, index, sample index, turn): a pure function."""
        if self.kind in ("none", "const"):
            return self.median_s
        digest = hashlib.sha256("\0".join(map(str, (self.seed, *key))).encode()).digest()
        rng = random.Random(int.from_bytes(digest[:16], "big"))
        # both draws are made always, so that the share of stuck calls does not shift the others
        stuck, quantile = rng.random(), min(max(rng.random(), 1e-9), 1 - 1e-9)
        if stuck < self.tail:
            return self.tail_s
        sigma = math.log(self.p95_s / self.median_s) / _Z95
        return min(self.median_s * math.exp(sigma * NormalDist().inv_cdf(quantile)), MAX_S)

    def describe(self) -> dict[str, Any]:
        """Returns what a record says about this profile."""
        return {
            "profile": self.text,
            "form": NAMED.get(self.text, self.text),
            "simulated": self.simulated,
            "seed": self.seed,
            "unit": "s per step",
        }


def parse(text: str, *, seed: int = 0) -> LatencyProfile:
    """Reads a profile.

    Raises:
      LatencyError: naming the fault.
    """
    stripped = text.strip()
    kind, _, rest = NAMED.get(stripped, stripped).partition(":")
    if kind == "none" and not rest:
        return LatencyProfile(text=stripped, seed=seed)
    if kind == "const":
        return LatencyProfile(text=stripped, kind=kind, median_s=_seconds(text, "const", rest), seed=seed)
    if kind not in _PARAMETERS:
        raise _fault(text, f"unknown kind {kind!r}")
    values = _parameters(text, kind, rest)
    median, p95 = (_seconds(text, name, values[name]) for name in ("median", "p95"))
    if not 0 < median <= p95:
        raise _fault(text, f"needs 0 < median <= p95, got median={median:g} and p95={p95:g}")
    tail, tail_s = 0.0, 0.0
    if kind == "heavy":
        tail, tail_s = _number(text, "tail", values["tail"]), _seconds(text, "tail_s", values["tail_s"])
        if not 0 <= tail <= 1:
            raise _fault(text, f"tail is a share between 0 and 1, got {tail:g}")
    return LatencyProfile(
        text=stripped, kind=kind, median_s=median, p95_s=p95, tail=tail, tail_s=tail_s, seed=seed
    )


class LatencyEnv(gymnasium.Wrapper[str, str, str, str]):
    """Waits after each inner step; the inner result is untouched."""

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        profile: LatencyProfile,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(env)
        self.profile = profile
        self._sleep = sleep

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        """Steps the inner environment, then waits as long as the profile says."""
        result, delay_s = self.step_at_once(action)
        if delay_s > 0:
            self._sleep(delay_s)
        return result

    def step_at_once(self, action: str) -> tuple[tuple[str, float, bool, bool, dict[str, Any]], float]:
        """Steps the inner environment; returns its result and the seconds that are still to be waited."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        delay_s = self.profile.delay_s(self.env.get_wrapper_attr("coordinates"))
        timings: list[StepTiming] = self.env.get_wrapper_attr("timings")
        timings[-1] = timings[-1]._replace(simulated_s=delay_s)
        return (observation, float(reward), terminated, truncated, info), delay_s

    @property
    def timings(self) -> list[StepTiming]:
        """The inner environment's timings, simulated seconds filled in."""
        return self.env.get_wrapper_attr("timings")

    def transcript(self) -> Any:
        """The inner environment's transcript."""
        return self.env.get_wrapper_attr("transcript")()


def _parameters(text: str, kind: str, rest: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise _fault(text, f"{part!r} is not of the form name=number")
        if name not in _PARAMETERS[kind]:
            raise _fault(text, f"{kind} has no parameter {name!r}")
        if name in values:
            raise _fault(text, f"parameter {name!r} comes twice")
        values[name] = value
    missing = [name for name in _PARAMETERS[kind] if name not in values]
    if missing:
        raise _fault(text, f"{kind} lacks {', '.join(missing)}")
    return values


def _seconds(text: str, name: str, value: str) -> float:
    number = _number(text, name, value)
    if not 0 <= number <= MAX_S:
        raise _fault(text, f"{name} must be between 0 and {MAX_S:g} seconds, got {value!r}")
    return number


def _number(text: str, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise _fault(text, f"{name} is not a number: {value!r}") from None
    if not math.isfinite(number):
        raise _fault(text, f"{name} is not finite: {value!r}")
    return number


def _fault(text: str, what: str) -> LatencyError:
    return LatencyError(f"Latency profile {text!r}: {what}. Forms: {'; '.join(FORMS)}.")
