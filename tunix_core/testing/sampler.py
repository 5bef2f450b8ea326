"""A sampler that follows a script: ids, log-probabilities, versions, latencies and failures, without a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunix_core.sampler.base import Dispatch, SamplerSpec
from tunix_core.testing.tiny import TINY_SAMPLER
from tunix_core.types import AdapterVersion, SampleRequest, SampleResult, StopReason


class VirtualClock:
    """A clock that stands still until it is moved: `clock()` in nanoseconds, for any `clock_ns`."""

    def __init__(self) -> None:
        self._now_ns = 0

    def __call__(self) -> int:
        """Nanoseconds since the start."""
        return self._now_ns

    def advance(self, seconds: float) -> None:
        """Moves time on."""
        self._now_ns += round(seconds * 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A scripted turn."""

    token_ids: Sequence[int]
    behavior_logprobs: Sequence[float] | None = None
    """-1 each where not given."""
    policy_version: Sequence[int] | int | None = None
    """One for all or one each; where not given, that of the adapter published last when the turn begins."""
    after_dispatches: int = 1
    """How many dispatches it takes."""
    hold: threading.Event | None = None
    """Not answered before this is set; a sampler that hangs is an event that never is."""
    error: Exception | None = None
    """Raised instead, when the dispatch is ended."""


@dataclass(slots=True)
class _Running:
    request: SampleRequest
    answer: Answer
    left: int
    version: int
    t_start_ns: int

    @property
    def due(self) -> bool:
        return self.left <= 0 and (self.answer.hold is None or self.answer.hold.is_set())


class ScriptedSampler:
    """Stands in for `SamplerEngine`, under a Trainer as under an Actor.

    As a trainer's sampler: `Trainer(..., sampler=scripted)`; an instance serves one trainer. Its
    log-probabilities are made up, so that trainer needs `TrainerSpec(self_check=False)`, or a script that
    gives those of the model. Every dispatch moves a virtual clock by `dispatch_s`.
    """

    def __init__(
        self,
        answer: Callable[[SampleRequest], Answer],
        *,
        stop_ids: Sequence[int] = (3, 7),
        spec: SamplerSpec = TINY_SAMPLER,
        clock: VirtualClock | None = None,
        dispatch_s: float = 0.0,
    ) -> None:
        self.spec, self.requests = spec, list[SampleRequest]()
        self.published: list[AdapterVersion] = []
        self.tokens_sampled = 0
        self._answer, self._stop_ids = answer, tuple(stop_ids)
        self._clock, self._dispatch_s = clock or VirtualClock(), dispatch_s
        self._versions: dict[int, int] = {}
        self._running: list[_Running] = []

    def __call__(
        self,
        spec: SamplerSpec,
        config: Any,
        params: Any,
        adapters: Any,
        *,
        stop_ids: Sequence[int],
        clock_ns: Any,
        on_span: Any,
        device: str,
    ) -> ScriptedSampler:
        """Takes the place of the engine's class: the trainer's shapes and stop ids, nothing else of it."""
        del config, params, adapters, clock_ns, on_span, device
        self.spec, self._stop_ids = spec, tuple(stop_ids)
        return self

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._running)

    @property
    def waiting(self) -> list[SampleRequest]:
        """Requests whose answer is still to come."""
        return [r.request for r in self._running]

    def submit(self, request: SampleRequest) -> None:
        """Takes a request; its answer comes after as many turns as scripted."""
        self.requests.append(request)
        answer = self._answer(request)
        version = self._versions.get(request.adapter_slot, 0)
        self._running.append(_Running(request, answer, answer.after_dispatches, version, self._clock()))

    def publish(self, adapter: AdapterVersion, slot: int, *, in_flight: bool = True) -> None:
        """Turns that begin from now on carry its version; running ones keep theirs, whatever `in_flight`."""
        del in_flight
        self.published.append(adapter)
        self._versions[slot] = adapter.version

    def install(self, adapter: AdapterVersion, slot: int, scale: float) -> None:
        """As `publish`; what an adapter holds is nothing to a script."""
        del scale
        self.publish(adapter, slot)

    def drop(self, tenant_id: str) -> None:
        """Forgets a tenant's requests."""
        self._running = [r for r in self._running if r.request.ticket.tenant_id != tenant_id]

    def warm_up(self, *, cuts: bool = False) -> None:
        """Nothing to compile."""

    def begin(self) -> Dispatch:
        """A dispatch moves the clock; the answers that are due come when it is ended."""
        return Dispatch(self._clock, lambda: self._clock.advance(self._dispatch_s), lambda _: self._due())

    def end(self, dispatch: Dispatch) -> list[SampleResult]:
        """The answers that are due."""
        return dispatch.book(dispatch)

    def _due(self) -> list[SampleResult]:
        for running in self._running:
            running.left -= 1
        due = [r for r in self._running if r.due]
        self._running = [r for r in self._running if not r.due]
        return [self._result(r) for r in due]

    def _result(self, running: _Running) -> SampleResult:
        answer, request = running.answer, running.request
        if answer.error is not None:
            raise answer.error
        ids = np.asarray(answer.token_ids, np.int32)
        logprobs = np.full(len(ids), -1.0) if answer.behavior_logprobs is None else answer.behavior_logprobs
        versions = running.version if answer.policy_version is None else answer.policy_version
        self.tokens_sampled += len(ids)
        return SampleResult(
            ticket=request.ticket,
            turn_index=request.turn_index,
            token_ids=ids,
            behavior_logprobs=np.asarray(logprobs, np.float32),
            policy_version=np.full(len(ids), versions) if isinstance(versions, int) else np.asarray(versions),
            stop=StopReason.EOS if ids[-1] in self._stop_ids else StopReason.MAX_TOKENS,
            t_start_ns=running.t_start_ns,
            t_end_ns=self._clock(),
        )
