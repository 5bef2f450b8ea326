"""What the trainer and evaluation need of a sampler; anything that keeps this may stand in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tunix_core.types import AdapterVersion, SampleRequest, SampleResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSpec:
    """Fixed shapes of the sampler. prefill_lengths ascend; the last is the longest context it takes."""

    slots: int = 32
    part_slots: int = 0
    """Slots of one decode program; 0 = all. Small parts stay in a CPU's cache and run side by side, and one without
    a turn isn't run; an accelerator wants one large part."""
    prefill_lanes: int = 16
    """Prompts of one prefill program."""
    prefill_lengths: tuple[int, ...] = (32, 96)
    max_new_tokens: int = 24
    decode_steps: int = 4
    workers: int = 1
    """Programs that run at once."""

    @property
    def rows(self) -> int:
        """Slots of a part."""
        return min(self.part_slots or self.slots, self.slots)

    @property
    def parts(self) -> int:
        """Parts that hold all slots; the last may have rows to spare."""
        return -(-self.slots // self.rows)

    @property
    def max_context(self) -> int:
        """Longest prompt in tokens."""
        return self.prefill_lengths[-1]

    @property
    def reread_lengths(self) -> tuple[int, ...]:
        """Lengths at which a running turn is read again: those of prompts, and a full prompt with a turn."""
        return (*self.prefill_lengths, self.max_context + self.max_new_tokens)

    @property
    def cache_length(self) -> int:
        """Positions per slot: a full prompt, a full turn, and one dispatch beyond."""
        return self.max_context + self.max_new_tokens + self.decode_steps


@dataclass(slots=True)
class Dispatch:
    """One piece of device work, decided and not yet done: `run` does it, in any thread; `Sampler.end` books it."""

    clock_ns: Callable[[], int]
    work: Callable[[], Any]
    """What the device does; nothing else may be asked of the sampler meanwhile but `submit`."""
    book: Callable[[Dispatch], list[SampleResult]]
    found: Any = None
    """What `work` returned."""
    t0_ns: int = 0
    t1_ns: int = 0

    def run(self) -> None:
        """Does the work and notes when."""
        self.t0_ns = self.clock_ns()
        self.found = self.work()
        self.t1_ns = self.clock_ns()


class Sampler(Protocol):
    """Takes turns to be generated, works in dispatches, and swaps adapters between two of them.

    While a dispatch is under way, between `begin` and `end`, only `submit` may be called.
    """

    @property
    def spec(self) -> SamplerSpec:
        """Its limits: slots, the longest context, the longest turn."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a request is queued or under way."""
        ...

    @property
    def waiting(self) -> list[SampleRequest]:
        """The requests queued or under way, for the message of a run that doesn't move."""
        ...

    @property
    def tokens_sampled(self) -> int:
        """Tokens since it was built; while busy, a count that stands still is no progress."""
        ...

    def submit(self, request: SampleRequest) -> None:
        """Queues one turn. Raises SamplerError for what it can't hold."""
        ...

    def begin(self) -> Dispatch | None:
        """Decides on the next dispatch; None where there is nothing to do."""
        ...

    def end(self, dispatch: Dispatch) -> list[SampleResult]:
        """Books a dispatch that has been run; the turns that it finished."""
        ...

    def publish(self, adapter: AdapterVersion, slot: int, *, in_flight: bool = True) -> None:
        """A tenant's next adapter: for the very next token, or, with in_flight off, for its next turns."""
        ...

    def install(self, adapter: AdapterVersion, slot: int, scale: float) -> None:
        """Gives a slot to a tenant that joins, with its alpha / r."""
        ...

    def drop(self, tenant_id: str) -> None:
        """Forgets a tenant's requests."""
        ...

    def warm_up(self, *, cuts: bool = False) -> None:
        """Compiles what a run will need, top_p and top_k only with `cuts`; leaves no trace."""
        ...


def turn(sampler: Sampler) -> list[SampleResult]:
    """Begins a dispatch, waits for it and ends it, for who has nothing else to do meanwhile."""
    dispatch = sampler.begin()
    if dispatch is None:
        return []
    dispatch.run()
    return sampler.end(dispatch)


class SamplerFactory(Protocol):
    """Builds a sampler from what `SamplerEngine` is built from; the engine's class is one."""

    def __call__(
        self,
        spec: SamplerSpec,
        config: Any,
        params: Any,
        adapters: Any,
        *,
        stop_ids: Any,
        clock_ns: Any,
        on_span: Any,
        device: str,
    ) -> Sampler:
        """The sampler of one trainer."""
        ...
