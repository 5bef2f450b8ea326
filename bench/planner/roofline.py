"""Stage times and memory from peak figures: what a machine that was never measured is predicted to need.

Roofline (Williams, Waterman and Patterson, CACM 52(4), 2009): a kernel takes the longer of its arithmetic at a share
of peak and its bytes at a share of bandwidth. Counts of a decoder's arithmetic and bytes as in Pope et al. 2022, arXiv
2211.05102: 2 FLOPs a weight and token, weights read once a step, keys and values read once a step and sequence; two
all-reduces a layer under tensor parallelism. LoRA training: forward and the gradient by activations, 4 FLOPs a frozen
weight, one more forward where activations are recomputed, and 6 an adapter weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import UsageError
from bench.planner.hardware import Device, Model
from tunix_core.sampler.base import SamplerSpec
from tunix_core.types import Bucket

HBM_SHARE = 0.9
"""Of the memory that a plan may fill; compilers and allocators keep the rest."""
OPTIMIZER_BYTES = 16
"""Of one adapter weight in training: f32 value, gradient sum and two moments of Adam."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Shares of peak that kernels reach. ASSUMED, not measured: set them from runs of your own."""

    train_flops: float = 0.4
    prefill_flops: float = 0.4
    decode_bytes: float = 0.6
    host_s: float = 0.002
    """The loop's own time between two dispatches."""
    publish_bytes_per_s: float = 10e9
    recompute: bool = True
    """Activations are computed again in the backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineTimes:
    """Times of replicas of `chips` chips and of a learner of `learner_groups` such groups. Seconds."""

    model: Model
    device: Device
    chips: int
    learner_groups: int
    lora_rank: int
    decode_steps: int
    tenants: int
    efficiency: Efficiency

    def prefill_s(self, lanes: int, lengths: Sequence[int]) -> float:
        """One program after another."""
        return sum(self._forward_s(lanes, length) for length in lengths)

    def _forward_s(self, rows: int, length: int) -> float:
        """All rows at once; causal attention reads half of the square."""
        m = self.model
        tokens = rows * length
        flops = 2 * m.matrix_parameters * tokens + 2 * m.layers * m.heads * m.head_dim * length**2 * rows
        compute = flops / (self.device.flops * self.efficiency.prefill_flops)
        memory = 2 * m.parameters / (self.device.hbm_bytes_per_s * self.efficiency.decode_bytes)
        return max(compute, memory) / self.chips + self._all_reduce_s(tokens)

    def decode_s(self, active: int, context_tokens: float, executed_slots: int) -> float:
        """`decode_steps` steps for all running turns."""
        del executed_slots
        m = self.model
        flops = 2 * m.matrix_parameters * active + 4 * m.layers * m.heads * m.head_dim * context_tokens
        read = 2 * m.parameters + m.kv_bytes_per_token * context_tokens
        read += 2 * m.lora_parameters(self.lora_rank) * min(active, self.tenants)
        compute = flops / (self.device.flops * self.efficiency.prefill_flops)
        memory = read / (self.device.hbm_bytes_per_s * self.efficiency.decode_bytes)
        return self.decode_steps * (max(compute, memory) / self.chips + self._all_reduce_s(active))

    def train_s(self, batches: Sequence[Bucket], tenants: int) -> float:
        """Batches are spread over the groups; no group does less than one batch."""
        del tenants
        each = [self._train_flops(b) for b in batches]
        if not each:
            return 0.0
        flops = max(sum(each) / self.learner_groups, max(each))
        tokens = max(
            sum(b.rows * b.length for b in batches) / self.learner_groups,
            max(b.rows * b.length for b in batches),
        )
        passes = 4 if self.efficiency.recompute else 3
        compute = flops / (self.device.flops * self.efficiency.train_flops * self.chips)
        return compute + passes / 2 * self._all_reduce_s(tokens)

    def pack_s(self, batches: Sequence[Bucket]) -> float:
        """In the loop's own time."""
        del batches
        return self.efficiency.host_s

    def score_s(self, batches: Sequence[Bucket]) -> float:
        """A forward pass: the arithmetic of a prefill."""
        return sum(self._forward_s(b.rows, b.length) for b in batches) / self.learner_groups

    def publish_s(self) -> float:
        """An adapter in bf16 over the network."""
        return 2 * self.model.lora_parameters(self.lora_rank) / self.efficiency.publish_bytes_per_s

    def host_s(self, episodes: int, learnt: int) -> float:
        """Constant."""
        del episodes, learnt
        return self.efficiency.host_s

    def _train_flops(self, batch: Bucket) -> float:
        m, tokens = self.model, batch.rows * batch.length
        again = 2 if self.efficiency.recompute else 0
        attention = 2 * m.layers * m.heads * m.head_dim * batch.length * tokens * (3 + again / 2)
        linear = (4 + again) * m.matrix_parameters + 6 * m.lora_parameters(self.lora_rank)
        return linear * tokens + attention

    def _all_reduce_s(self, tokens: float) -> float:
        if self.chips == 1:
            return 0.0
        # a ring passes each byte twice, but for its own share
        moved = 2 * 2 * self.model.width * tokens * (self.chips - 1) / self.chips
        return 2 * self.model.layers * moved / self.device.link_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of one chip, by what holds them."""

    sampler: dict[str, float]
    learner: dict[str, float]
    limit: float
    shared: bool

    @property
    def worst(self) -> float:
        """Bytes of the fullest chip; where roles share chips, both at once, with one copy of the base."""
        sampler, learner = sum(self.sampler.values()), sum(self.learner.values())
        return sampler + learner - self.sampler["base"] if self.shared else max(sampler, learner)

    def as_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "sampler": self.sampler,
            "learner": self.learner,
            "worst_bytes": self.worst,
            "limit_bytes": self.limit,
        }


def memory(
    model: Model,
    device: Device,
    *,
    chips: int,
    learner_groups: int,
    tenants: int,
    lora_rank: int,
    sampler: SamplerSpec,
    buckets: Sequence[Bucket],
    shared: bool,
    recompute: bool = True,
) -> Memory:
    """What a replica's and a learner group's chips hold.

    Weights, caches and activations are split over a group's chips. Each learner group keeps the adapters and moments
    of its share of the tenants; a sampler keeps one adapter in bf16 for each turn that may be running.
    """
    base = 2 * model.parameters / chips
    adapter = model.lora_parameters(lora_rank)
    tokens = max(b.rows * b.length for b in buckets)
    per_token = model.width * (2 if recompute else 34) * model.layers + 2 * 8 * model.ffn
    logits = 4 * model.vocab * min(tokens, 4096)
    return Memory(
        sampler={
            "base": base,
            "kv_cache": sampler.slots * sampler.cache_length * model.kv_bytes_per_token / chips,
            "adapters": 2 * adapter * min(tenants, sampler.slots) / chips,
        },
        learner={
            "base": base,
            "adapters_and_optimizer": OPTIMIZER_BYTES * adapter * math.ceil(tenants / learner_groups) / chips,
            "activations": (tokens * per_token + logits) / chips,
        },
        limit=HBM_SHARE * device.hbm_bytes,
        shared=shared,
    )


def check(found: Memory, most_tenants: int, tenants: int, model: Model, device: Device, chips: int) -> None:
    """Refuses what does not fit. Raises UsageError with the largest number of tenants that does."""
    if found.worst <= found.limit:
        return
    what = (
        f"{tenants} tenants of {model.name} need {found.worst / 1e9:.1f} GB a chip; {device.name} has "
        f"{found.limit / 1e9:.1f} GB to fill, {chips} chips to a replica"
    )
    if most_tenants:
        raise UsageError(
            what, f"at most {most_tenants} tenants fit; or take more devices, or chips_per_replica"
        )
    raise UsageError(what, "raise chips_per_replica, or lower slots or the token limits")
