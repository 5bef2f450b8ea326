"""Continuous batching: requests join and leave slots between dispatches, tenants mixed in one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tunix_core.errors import SamplerError
from tunix_core.model.config import ModelConfig
from tunix_core.model.decoder import NewKV, empty_cache
from tunix_core.model.lora import Adapters, write_slot
from tunix_core.sampler import kernels
from tunix_core.sampler.base import Dispatch, SamplerSpec
from tunix_core.types import (
    AdapterVersion,
    Array,
    SampleRequest,
    SampleResult,
    SamplingSpec,
    Span,
    StopReason,
)
from tunix_core.workers import run

READS = 16
"""Most prefill programs of one dispatch: what else has to be done shall not wait for a long queue."""


@dataclass(slots=True)
class _Slot:
    """A turn being generated."""

    request: SampleRequest
    t_start_ns: int = 0
    token_ids: list[int] = field(default_factory=list)
    behavior_logprobs: list[float] = field(default_factory=list)
    policy_version: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Lane:
    """A context to be read: its ids, whose adapter reads it, and the slots it is read into."""

    ids: np.ndarray
    adapter_slot: int
    slots: list[int]


@dataclass(frozen=True, slots=True)
class _Read:
    """One prefill program: lanes of one compiled length."""

    length: int
    lanes: Sequence[_Lane]


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
        self._caches = [self._empty_cache() for _ in range(spec.parts)]
        self._slots: list[_Slot | None] = [None] * spec.slots
        self._queue: list[SampleRequest] = []
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
        return [s.request for s in self._slots if s is not None] + self._queue

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
        """Compiles every prefill length and the decode step, several at once; leaves no trace.

        `cuts`: some turns will be sampled with top_p or top_k; while none of them runs, nothing is sorted.
        """
        variants = (False, True) if cuts else (False,)

        def read(length: int) -> None:
            new, logits = self._prefill_program(_Read(length, []))
            for filtered in variants:
                jax.block_until_ready(self._begin_program(self._empty_cache(), new, logits, {}, {}, filtered))

        def decode(filtered: bool) -> None:
            jax.block_until_ready(self._decode_program(self._empty_cache(), {}, filtered))

        jobs: list[Callable[[], None]] = [partial(read, length) for length in self.spec.reread_lengths]
        jobs += [partial(decode, filtered) for filtered in variants]
        for _ in run(lambda job: job(), jobs, self.spec.workers):
            pass

    def begin(self) -> Dispatch | None:
        """Decides on the next dispatch; None where there is nothing to do.

        A prefill if a request waits and a slot is free; else a re-read if one is due; else decode.
        """
        turns = self._next_turns()
        if turns:
            return self._prefill(turns)
        if self._outdated:
            return self._reread()
        return self._decode() if any(self._slots) else None

    def end(self, dispatch: Dispatch) -> list[SampleResult]:
        """Books a dispatch that has been run; the turns that it finished."""
        return dispatch.book(dispatch)

    def drop(self, tenant_id: str) -> None:
        """Forgets a tenant's queued and running turns (it was stopped)."""
        self._queue = [r for r in self._queue if r.ticket.tenant_id != tenant_id]
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

    def _free_slots(self) -> list[int]:
        """Slots without a turn, those of the fullest part first: a part without any turn costs nothing."""
        by_part: dict[int, list[int]] = defaultdict(list)
        for i, s in enumerate(self._slots):
            if s is None:
                by_part[i // self.spec.rows].append(i)
        return [i for part in sorted(by_part, key=lambda p: len(by_part[p])) for i in by_part[part]]

    def _next_turns(self) -> dict[int, SampleRequest]:
        """Which waiting request goes into which free slot now.

        Who is behind goes first: the lowest ordinal, and of these the episode that is furthest. A tenant whose
        episodes take more turns than others' would else end long after them. Turns that wait for an adapter are
        passed over.
        """
        if not self._queue:
            return {}
        free = self._free_slots()
        ready = [r for r in self._queue if r.adapter_slot not in self._held]
        ready.sort(key=lambda r: (r.ticket.ordinal, -r.turn_index))
        lanes: set[tuple[int, bytes]] = set()
        taken: list[SampleRequest] = []
        for request in ready[: len(free)]:
            lanes.add(_prompt(request))
            if len(lanes) > READS * self.spec.prefill_lanes:
                break
            taken.append(request)
        gone = {id(request) for request in taken}
        self._queue = [r for r in self._queue if id(r) not in gone]
        return dict(zip(free, taken, strict=False))

    def _prefill(self, turns: Mapping[int, SampleRequest]) -> Dispatch:
        """Reads prompts and begins turns. Turns of one tenant with one prompt (a group's first) share its read."""
        lanes: dict[tuple[int, bytes], _Lane] = {}
        for slot, request in turns.items():
            self._slots[slot] = _Slot(request)
            lane = lanes.setdefault(_prompt(request), _Lane(request.context_ids, request.adapter_slot, []))
            lane.slots.append(slot)

        def book(done: Dispatch) -> list[SampleResult]:
            first, executed = done.found
            real = sum(len(lane.ids) for lane in lanes.values())
            self._span("prefill", done, turns.values(), executed, real)
            for i in turns:
                slot = self._slots[i]
                assert slot is not None
                slot.t_start_ns = done.t0_ns
                self._append(slot, *first[i])
            return self._finished(done.t1_ns)

        return Dispatch(self._clock_ns, lambda: self._read(list(lanes.values()), turns), book)

    def _reread(self) -> Dispatch:
        """Reads outdated turns again under the adapter of now; what is drawn after them is thrown away."""
        lanes, requests = [], []
        for i in sorted(self._outdated)[: READS * self.spec.prefill_lanes]:
            s = self._slots[i]
            assert s is not None
            # the last token is not in the cache yet: decode reads it
            known = np.concatenate([s.request.context_ids, np.asarray(s.token_ids[:-1], np.int32)])
            lanes.append(_Lane(known, s.request.adapter_slot, [i]))
            requests.append(s.request)

        def book(done: Dispatch) -> list[SampleResult]:
            _, executed = done.found
            self._outdated -= {i for lane in lanes for i in lane.slots}
            self._span("sync", done, requests, executed, 0)
            return []

        return Dispatch(self._clock_ns, lambda: self._read(lanes, {}), book)

    def _read(
        self, lanes: Sequence[_Lane], turns: Mapping[int, SampleRequest]
    ) -> tuple[dict[int, tuple[int, float]], int]:
        """Prefills lanes into their slots.

        Lanes of one program have one compiled length: padding to another changes the last bits of a
        log-probability, and a tenant's must not depend on whose prompts are in the queue.

        Returns:
          By slot the token drawn first for each of `turns` and its logprob; how many token slots were executed.
        """
        spec = self.spec
        by_length: dict[int, list[_Lane]] = defaultdict(list)
        for lane in lanes:
            by_length[next(n for n in spec.reread_lengths if n >= len(lane.ids))].append(lane)
        reads = [
            _Read(length, of_length[k : k + spec.prefill_lanes])
            for length, of_length in sorted(by_length.items(), reverse=True)
            for k in range(0, len(of_length), spec.prefill_lanes)
        ]
        found = list(run(self._prefill_program, reads, spec.workers))

        def put(part: int) -> dict[int, tuple[int, float]]:
            drawn: dict[int, tuple[int, float]] = {}
            for read, (new, logits) in zip(reads, found, strict=True):
                lane_of = {
                    slot: k
                    for k, lane in enumerate(read.lanes)
                    for slot in lane.slots
                    if slot // spec.rows == part
                }
                if not lane_of:
                    continue
                begun = {slot: turns[slot] for slot in lane_of if slot in turns}
                self._caches[part], token, logprob = self._begin_program(
                    self._caches[part], new, logits, lane_of, begun, _cuts(begun.values())
                )
                token, logprob = jax.device_get((token, logprob))
                drawn |= {i: (int(token[i % spec.rows]), float(logprob[i % spec.rows])) for i in begun}
            return drawn

        parts = sorted({slot // spec.rows for lane in lanes for slot in lane.slots})
        first: dict[int, tuple[int, float]] = {}
        for drawn in run(put, parts, spec.workers):
            first |= drawn
        return first, sum(spec.prefill_lanes * read.length for read in reads)

    def _prefill_program(self, read: _Read) -> tuple[NewKV, Array]:
        lanes = self.spec.prefill_lanes
        token_ids = np.zeros((lanes, read.length), np.int32)
        lengths, adapter_slot = np.zeros(lanes, np.int32), np.zeros(lanes, np.int32)
        for i, lane in enumerate(read.lanes):
            token_ids[i, : len(lane.ids)] = lane.ids
            lengths[i], adapter_slot[i] = len(lane.ids), lane.adapter_slot
        return jax.block_until_ready(
            kernels.prefill(self.params, self.adapters, token_ids, lengths, adapter_slot, config=self.config)
        )

    def _begin_program(
        self,
        cache: Any,
        new: NewKV,
        logits: Array,
        lane_of: Mapping[int, int],
        turns: Mapping[int, SampleRequest],
        filtered: bool,
    ) -> Any:
        """`kernels.begin` on one part; slots are told as the engine counts them."""
        rows = self.spec.rows
        lane, begins = np.zeros(rows, np.int32), np.zeros(rows, bool)
        for slot, k in lane_of.items():
            lane[slot % rows], begins[slot % rows] = k, True
        sampling = _rows({slot % rows: (request, 0) for slot, request in turns.items()}, rows)
        return kernels.begin(cache, new, logits, lane, begins, sampling, filtered=filtered)

    def _decode(self) -> Dispatch:
        spec = self.spec
        live: dict[int, dict[int, _Slot]] = defaultdict(dict)
        for i, s in enumerate(self._slots):
            if s is not None:
                live[i // spec.rows][i] = s

        def decode(part: int) -> kernels.Decoded:
            slots = live[part]
            filtered = _cuts(s.request for s in slots.values())
            self._caches[part], out = self._decode_program(self._caches[part], slots, filtered)
            return jax.device_get(out)

        def book(done: Dispatch) -> list[SampleResult]:
            decoded: dict[int, kernels.Decoded] = dict(zip(live, done.found, strict=True))
            self._span(
                "decode",
                done,
                [s.request for slots in live.values() for s in slots.values()],
                len(live) * spec.rows * spec.decode_steps,
                sum(int(out.emitted.sum()) for out in decoded.values()),
            )
            for part, slots in live.items():
                out = decoded[part]
                for i, s in slots.items():
                    row = i % spec.rows
                    for step in np.flatnonzero(out.emitted[:, row]):
                        self._append(
                            s, int(out.token_ids[step, row]), float(out.behavior_logprobs[step, row])
                        )
            return self._finished(done.t1_ns)

        return Dispatch(self._clock_ns, lambda: list(run(decode, live, spec.workers)), book)

    def _decode_program(self, cache: Any, slots: Mapping[int, _Slot], filtered: bool) -> Any:
        """`kernels.decode` on one part."""
        rows = self.spec.rows
        last, start, remaining = (np.zeros(rows, np.int32) for _ in range(3))
        for i, s in slots.items():
            n, row = len(s.token_ids), i % rows
            last[row] = s.token_ids[-1]
            start[row] = len(s.request.context_ids) + n - 1
            remaining[row] = s.request.sampling.max_new_tokens - n
        return kernels.decode(
            self.params,
            self.adapters,
            cache,
            last,
            start,
            remaining,
            _rows({i % rows: (s.request, len(s.token_ids)) for i, s in slots.items()}, rows),
            self._stops,
            config=self.config,
            steps=self.spec.decode_steps,
            filtered=filtered,
        )

    def _empty_cache(self) -> Any:
        return empty_cache(self.config, self.spec.rows, self.spec.cache_length)

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
        self, role: str, done: Dispatch, requests: Iterable[SampleRequest], executed: int, real: int
    ) -> None:
        self._on_span(
            Span(
                device=self._device,
                role=role,
                t0_ns=done.t0_ns,
                t1_ns=done.t1_ns,
                tenants=tuple(sorted({r.ticket.tenant_id for r in requests})),
                executed_slots=executed,
                real_tokens=real,
            )
        )


def _prompt(request: SampleRequest) -> tuple[int, bytes]:
    """What a prompt's keys and values depend on."""
    return request.adapter_slot, request.context_ids.tobytes()


def _rows(requests: Mapping[int, tuple[SampleRequest, int]], count: int) -> kernels.Rows:
    """Sampling state of `count` rows; by row, the request and how many tokens of it are sampled already."""
    adapter_slot, top_k, index = (np.zeros(count, np.int32) for _ in range(3))
    temperature, top_p = np.ones(count, np.float32), np.ones(count, np.float32)
    keys = np.zeros((count, 2), np.uint32)
    for row, (request, sampled) in requests.items():
        sampling: SamplingSpec = request.sampling
        adapter_slot[row], index[row], keys[row] = request.adapter_slot, sampled, request.stream_seed
        temperature[row], top_p[row], top_k[row] = sampling.temperature, sampling.top_p, sampling.top_k
    return kernels.Rows(adapter_slot, temperature, top_p, top_k, keys, index)


def _cuts(requests: Iterable[SampleRequest]) -> bool:
    """Whether any of them cuts its distribution: only then is the vocabulary sorted."""
    return any(
        r.sampling.temperature > 0 and (r.sampling.top_p < 1 or r.sampling.top_k > 0) for r in requests
    )
