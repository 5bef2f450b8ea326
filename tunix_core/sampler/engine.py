"""Continuous batching: requests join and leave slots between dispatches, tenants mixed in one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core.errors import SamplerError
from tunix_core.model.config import ModelConfig
from tunix_core.model.decoder import empty_cache
from tunix_core.model.lora import Adapters, write_slot
from tunix_core.sampler import kernels
from tunix_core.sampler.base import SamplerSpec
from tunix_core.types import AdapterVersion, SampleRequest, SampleResult, SamplingSpec, Span, StopReason


@dataclass(slots=True)
class _Slot:
    """A turn being generated."""

    request: SampleRequest
    t_start_ns: int
    token_ids: list[int] = field(default_factory=list)
    behavior_logprobs: list[float] = field(default_factory=list)
    policy_version: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Lane:
    """A context to be read: its ids, the slot it is read into, and whose adapter reads it."""

    ids: np.ndarray
    slot: int
    adapter_slot: int


class SamplerEngine:
    """Owns the cache, the live adapters and the slots. Not thread-safe: one owner drives it."""

    def __init__(
        self,
        spec: SamplerSpec,
        config: ModelConfig,
        params: Any,
        adapters: Adapters,
        *,
        stop_ids: Sequence[int],
        clock_ns: Callable[[], int],
        on_span: Callable[[Span], None],
        device: str = "cpu:0",
    ) -> None:
        self.spec, self.config, self.params = spec, config, params
        self.adapters = adapters
        self.versions = [0] * adapters.scale.shape[0]
        self._stop_ids = tuple(stop_ids)
        self._stops = jnp.asarray(self._stop_ids, jnp.int32)
        self._clock_ns, self._on_span, self._device = clock_ns, on_span, device
        self._cache = empty_cache(config, spec.slots, spec.cache_length)
        self._slots: list[_Slot | None] = [None] * spec.slots
        self._queue: deque[SampleRequest] = deque()
        # slots whose keys and values were computed by an adapter that has been replaced since
        self._outdated: set[int] = set()
        # by adapter slot: adapters that wait for their tenant's running turns
        self._held: dict[int, AdapterVersion] = {}
        self.tokens_sampled = 0

    @property
    def busy(self) -> bool:
        """Whether there is anything to prefill or decode."""
        return bool(self._queue) or any(self._slots)

    @property
    def waiting(self) -> list[SampleRequest]:
        """Requests in a slot, then those queued."""
        return [s.request for s in self._slots if s is not None] + list(self._queue)

    def submit(self, request: SampleRequest) -> None:
        """Queues one turn. Raises SamplerError for a context or limit the compiled shapes cannot hold."""
        n = len(request.context_ids)
        if not 1 <= n <= self.spec.max_context:
            raise SamplerError(
                f"context of {n} tokens for {request.ticket.key} is outside 1..{self.spec.max_context} "
                "(the longest prefill length)"
            )
        if not 1 <= request.sampling.max_new_tokens <= self.spec.max_new_tokens:
            raise SamplerError(
                f"max_new_tokens {request.sampling.max_new_tokens} is outside 1..{self.spec.max_new_tokens}"
            )
        self._queue.append(request)

    def install(self, adapter: AdapterVersion, slot: int, scale: float) -> None:
        """Gives a slot to a tenant that joins; its last owner's turns have been dropped."""
        self.adapters = self.adapters._replace(scale=self.adapters.scale.at[slot].set(scale))
        self.publish(adapter, slot)

    def publish(self, adapter: AdapterVersion, slot: int, *, in_flight: bool = True) -> None:
        """Swaps one tenant's adapter in; tokens sampled from now on carry its version.

        What running turns have in the cache is read again before they go on: a log-probability under the new
        adapter over keys and values of the old one would belong to no policy at all. With `in_flight` off
        running turns end on the adapter they began with; the tenant's queued ones wait for the new one.
        """
        if not in_flight and self._running(slot):
            self._held[slot] = adapter
            return
        self._held.pop(slot, None)
        factors = write_slot(self.adapters.factors, slot, adapter.factors)
        self.adapters = self.adapters._replace(factors=jax.block_until_ready(factors))
        self.versions[slot] = adapter.version
        self._outdated |= set(self._running(slot))

    def warm_up(self, *, cuts: bool = False) -> None:
        """Compiles every prefill length and the decode step on an idle engine; leaves no trace.

        `cuts`: some turns will be sampled with top_p or top_k; while none of them runs, nothing is sorted.
        """
        for filtered in (False, True) if cuts else (False,):
            self._warm_up(filtered)

    def _warm_up(self, filtered: bool) -> None:
        spec = self.spec
        for length in spec.reread_lengths:
            self._read(length, [], [], [], filtered)
        nowhere = np.full(spec.prefill_turns, spec.slots, np.int32)
        self._cache = kernels.fork(self._cache, np.zeros_like(nowhere), nowhere)
        idle = np.zeros(spec.slots, np.int32)
        rows = _rows([], spec.slots)
        self._cache, out = kernels.decode(
            self.params,
            self.adapters,
            self._cache,
            idle,
            idle,
            idle,
            rows,
            self._stops,
            config=self.config,
            steps=spec.decode_steps,
            filtered=filtered,
        )
        jax.block_until_ready(out)

    def turn(self) -> list[SampleResult]:
        """Does one dispatch and returns the turns that it finished.

        A prefill if a request waits and a slot is free; else a re-read if one is due; else decode.
        """
        free = [i for i, s in enumerate(self._slots) if s is None]
        # a prefill costs the same for one lane as for all, so a few stragglers wait for the batch to thin out
        ready = sum(r.adapter_slot not in self._held for r in self._queue)
        enough = min(ready, self.spec.prefill_lanes)
        active = self.spec.slots - len(free)
        if ready and free and (len(free) >= enough or not active):
            return self._prefill(free)
        if self._outdated:
            self._reread()
            return []
        return self._decode() if active else []

    def drop(self, tenant_id: str) -> None:
        """Forgets a tenant's queued and running turns (it was stopped)."""
        self._queue = deque(r for r in self._queue if r.ticket.tenant_id != tenant_id)
        for i, s in enumerate(self._slots):
            if s is not None and s.request.ticket.tenant_id == tenant_id:
                self._free(i)

    def _running(self, adapter_slot: int) -> list[int]:
        return [i for i, s in enumerate(self._slots) if s and s.request.adapter_slot == adapter_slot]

    def _free(self, slot: int) -> None:
        ended = self._slots[slot]
        self._slots[slot] = None
        self._outdated.discard(slot)
        if ended is not None and not self._running(ended.request.adapter_slot):
            held = self._held.get(ended.request.adapter_slot)
            if held is not None:
                self.publish(held, ended.request.adapter_slot)

    def _prefill(self, free: list[int]) -> list[SampleResult]:
        spec = self.spec
        length, prompts = self._next_prompts(min(spec.prefill_turns, len(free)))
        t0 = self._clock_ns()
        lanes: list[_Lane] = []
        turns: list[tuple[SampleRequest, int]] = []
        copies: list[tuple[int, int]] = []
        for lane, requests in enumerate(prompts):
            first, *others = free[len(turns) : len(turns) + len(requests)]
            lanes.append(_Lane(requests[0].context_ids, first, requests[0].adapter_slot))
            copies += [(first, slot) for slot in others]
            turns += [(request, lane) for request in requests]
        token, logprob = self._read(
            length, lanes, [lane for _, lane in turns], [(r, 0) for r, _ in turns], _cuts(r for r, _ in turns)
        )
        if copies:
            source, target = (
                np.zeros(spec.prefill_turns, np.int32),
                np.full(spec.prefill_turns, spec.slots, np.int32),
            )
            source[: len(copies)], target[: len(copies)] = np.transpose(copies)
            self._cache = jax.block_until_ready(kernels.fork(self._cache, source, target))
        t1 = self._clock_ns()
        real = sum(len(requests[0].context_ids) for requests in prompts)
        self._span("prefill", t0, t1, [r for r, _ in turns], spec.prefill_lanes * length, real)
        for i, (request, _) in enumerate(turns):
            slot = _Slot(request, t0)
            self._slots[free[i]] = slot
            self._append(slot, int(token[i]), float(logprob[i]))
        return self._finished(t1)

    def _reread(self) -> None:
        """Reads outdated turns again under the adapter of now; what the prefill draws is thrown away."""
        spec = self.spec
        known: dict[int, np.ndarray] = {}
        for i in sorted(self._outdated):
            s = self._slots[i]
            assert s is not None
            # the last token is not in the cache yet: decode reads it
            known[i] = np.concatenate([s.request.context_ids, np.asarray(s.token_ids[:-1], np.int32)])
        fitting = {i: next(n for n in spec.reread_lengths if n >= len(ids)) for i, ids in known.items()}
        length = fitting[min(fitting)]
        slots = [i for i in known if fitting[i] == length][: spec.prefill_lanes]
        requests = [s.request for i in slots if (s := self._slots[i]) is not None]
        t0 = self._clock_ns()
        lanes = [_Lane(known[i], i, r.adapter_slot) for i, r in zip(slots, requests, strict=True)]
        self._read(length, lanes, [], [], False)
        self._outdated -= set(slots)
        self._span("sync", t0, self._clock_ns(), requests, spec.prefill_lanes * length, 0)

    def _read(
        self,
        length: int,
        lanes: Sequence[_Lane],
        lane_of: Sequence[int],
        turns: Sequence[tuple[SampleRequest, int]],
        filtered: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Prefills lanes; of each turn that begins with one, the token drawn after it and its logprob."""
        spec = self.spec
        token_ids = np.zeros((spec.prefill_lanes, length), np.int32)
        lengths, adapter_slot = np.zeros(spec.prefill_lanes, np.int32), np.zeros(spec.prefill_lanes, np.int32)
        cache_rows = np.full(spec.prefill_lanes, spec.slots, np.int32)
        for i, lane in enumerate(lanes):
            token_ids[i, : len(lane.ids)] = lane.ids
            lengths[i], cache_rows[i], adapter_slot[i] = len(lane.ids), lane.slot, lane.adapter_slot
        place = np.zeros(spec.prefill_turns, np.int32)
        place[: len(lane_of)] = lane_of
        self._cache, token, logprob = kernels.prefill(
            self.params,
            self.adapters,
            self._cache,
            token_ids,
            lengths,
            cache_rows,
            adapter_slot,
            place,
            _rows(turns, spec.prefill_turns),
            config=self.config,
            filtered=filtered,
        )
        return jax.device_get((token, logprob))

    def _next_prompts(self, most: int) -> tuple[int, list[list[SampleRequest]]]:
        """The oldest prompt decides the length; those behind it of the same length come along, in order.

        Turns of one tenant that begin with the same ids (a group's first ones) share a lane: it is read once.
        Prompts that wait for an adapter are passed over. Shorter ones don't come along, although they would
        fit: padding to another length changes the last bits of a log-probability, and a tenant's must not
        depend on whose prompts are in the queue.

        Returns:
          The length, and the turns of each lane; at most `most` turns in all.
        """

        def fitting(request: SampleRequest) -> int:
            return next(n for n in self.spec.prefill_lengths if n >= len(request.context_ids))

        length = fitting(next(r for r in self._queue if r.adapter_slot not in self._held))
        lanes: dict[tuple[int, bytes], list[SampleRequest]] = {}
        left: deque[SampleRequest] = deque()
        taken = 0
        for request in self._queue:
            prompt = (request.adapter_slot, request.context_ids.tobytes())
            room = taken < most and (prompt in lanes or len(lanes) < self.spec.prefill_lanes)
            if room and fitting(request) == length and request.adapter_slot not in self._held:
                lanes.setdefault(prompt, []).append(request)
                taken += 1
            else:
                left.append(request)
        self._queue = left
        return length, list(lanes.values())

    def _decode(self) -> list[SampleResult]:
        spec = self.spec
        live = [(i, s) for i, s in enumerate(self._slots) if s is not None]
        last, start, remaining = (np.zeros(spec.slots, np.int32) for _ in range(3))
        requests: list[tuple[SampleRequest, int] | None] = [None] * spec.slots
        for i, s in live:
            n = len(s.token_ids)
            last[i] = s.token_ids[-1]
            start[i] = len(s.request.context_ids) + n - 1
            remaining[i] = s.request.sampling.max_new_tokens - n
            requests[i] = (s.request, n)
        t0 = self._clock_ns()
        rows = _rows(requests, spec.slots)
        self._cache, out = kernels.decode(
            self.params,
            self.adapters,
            self._cache,
            last,
            start,
            remaining,
            rows,
            self._stops,
            config=self.config,
            steps=spec.decode_steps,
            filtered=_cuts(s.request for _, s in live),
        )
        out = jax.device_get(out)
        t1 = self._clock_ns()
        self._span(
            "decode",
            t0,
            t1,
            [s.request for _, s in live],
            spec.slots * spec.decode_steps,
            int(out.emitted.sum()),
        )
        for i, s in live:
            for step in np.flatnonzero(out.emitted[:, i]):
                self._append(s, int(out.token_ids[step, i]), float(out.behavior_logprobs[step, i]))
        return self._finished(t1)

    def _append(self, slot: _Slot, token: int, logprob: float) -> None:
        self.tokens_sampled += 1
        slot.token_ids.append(token)
        slot.behavior_logprobs.append(logprob)
        slot.policy_version.append(self.versions[slot.request.adapter_slot])

    def _finished(self, now_ns: int) -> list[SampleResult]:
        done = []
        for i, s in enumerate(self._slots):
            if s is None:
                continue
            at_stop = s.token_ids[-1] in self._stop_ids
            if at_stop or len(s.token_ids) >= s.request.sampling.max_new_tokens:
                self._free(i)
                done.append(
                    SampleResult(
                        ticket=s.request.ticket,
                        turn_index=s.request.turn_index,
                        token_ids=np.asarray(s.token_ids, np.int32),
                        behavior_logprobs=np.asarray(s.behavior_logprobs, np.float32),
                        policy_version=np.asarray(s.policy_version, np.int32),
                        stop=StopReason.EOS if at_stop else StopReason.MAX_TOKENS,
                        t_start_ns=s.t_start_ns,
                        t_end_ns=now_ns,
                    )
                )
        return done

    def _span(
        self, role: str, t0: int, t1: int, requests: Sequence[SampleRequest], executed: int, real: int
    ) -> None:
        tenants = tuple(sorted({r.ticket.tenant_id for r in requests}))
        self._on_span(
            Span(
                device=self._device,
                role=role,
                t0_ns=t0,
                t1_ns=t1,
                tenants=tenants,
                executed_slots=executed,
                real_tokens=real,
            )
        )


def _rows(requests: Sequence[tuple[SampleRequest, int] | None], lanes: int) -> kernels.Rows:
    """Sampling state of the lanes; (request, tokens sampled already) of each, None or missing where there is none."""
    adapter_slot, top_k, index = (np.zeros(lanes, np.int32) for _ in range(3))
    temperature, top_p = np.ones(lanes, np.float32), np.ones(lanes, np.float32)
    keys = np.zeros((lanes, 2), np.uint32)
    for i, entry in enumerate(requests):
        if entry is None:
            continue
        request, sampled = entry
        sampling: SamplingSpec = request.sampling
        adapter_slot[i], index[i], keys[i] = request.adapter_slot, sampled, request.stream_seed
        temperature[i], top_p[i], top_k[i] = sampling.temperature, sampling.top_p, sampling.top_k
    return kernels.Rows(adapter_slot, temperature, top_p, top_k, keys, index)


def _cuts(requests: Iterable[SampleRequest]) -> bool:
    """Whether any of them cuts its distribution: only then is the vocabulary sorted."""
    return any(
        r.sampling.temperature > 0 and (r.sampling.top_p < 1 or r.sampling.top_k > 0) for r in requests
    )
