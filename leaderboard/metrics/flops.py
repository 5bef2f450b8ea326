"""Arithmetic done and achievable: model FLOPs of LoRA training and generation, and their share of the device's peak."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaderboard.metrics.utilization import SAMPLING
from leaderboard.metrics.work import NS, work_window
from leaderboard.records import ArmView
from leaderboard.schema import RunHeader

PEAKS = {
    "H200": {"bfloat16": 989.4e12, "float32": 494.7e12},
    "H100": {"bfloat16": 989.4e12, "float32": 494.7e12},
    "A100": {"bfloat16": 312.0e12, "float32": 156.0e12},
}
"""Dense peak in FLOP/s by a word of the device's kind and the model's dtype; SXM parts.

A float32 product runs on tensor cores as TF32 unless JAX is told otherwise, so that is its ceiling. Source: NVIDIA's
data sheets of H200, H100 and A100, without sparsity.
"""


def model_flops(view: ArmView, base: int, lora: Mapping[str, int]) -> float:
    """FLOPs that the model's parameters need for the tokens that were processed by the last commit.

    Args:
      base: parameters of the frozen model.
      lora: parameters of each tenant's adapter.

    A trained token takes 4 base + 6 lora (forward, and backward without the gradients of frozen weights), a prefilled
    or decoded one 2 (base + lora). Attention's own products, rematerialisation, padding and evaluation are left out.
    """
    low, high = work_window(view)
    trained = math.fsum(u.real_tokens * (4 * base + 6 * lora[u.tenant]) for u in view.updates)
    sampled = 0.0
    for span in view.spans:
        if span.role in SAMPLING and low <= span.t0_ns < high and span.tenants:
            own = sum(lora[tenant] for tenant in span.tenants) / len(span.tenants)
            sampled += span.real_tokens * 2 * (base + own)
    return trained + sampled


def mfu(view: ArmView, header: RunHeader, directory: Path) -> dict[str, Any]:
    """Returns {value, flops_per_s, reason}: value None where no peak is known, both where no adapter is readable."""
    tenants = {tenant.tenant for tenant in header.tenants} | set(view.tenants)
    lora = {name: lora_parameters(directory, view.arm, view.seed, name) for name in tenants}
    known = {name: count for name, count in lora.items() if count is not None}
    low, high = work_window(view)
    seconds = (high - low) / NS
    if len(known) < len(tenants) or not seconds:
        return {"value": None, "flops_per_s": None, "reason": "an adapter, or any update, is missing"}
    rate = model_flops(view, header.model.parameters, known) / seconds
    peaks = [peak(device.kind, header.model.dtype) for device in header.devices]
    total = math.fsum(p for p in peaks if p is not None)
    if not peaks or None in peaks:
        kinds = ", ".join(sorted({device.kind for device in header.devices}))
        reason = f"no peak is known of {kinds[:60]} at {header.model.dtype[:20]}"
        return {"value": None, "flops_per_s": rate, "reason": reason}
    return {"value": rate / total, "flops_per_s": rate, "reason": None}


def peak(kind: str, dtype: str) -> float | None:
    """FLOP/s of a device's kind at a dtype; None where it isn't known."""
    return next((by_dtype.get(dtype) for word, by_dtype in PEAKS.items() if word in kind.upper()), None)


def lora_parameters(directory: Path, arm: str, seed: int, tenant: str) -> int | None:
    """Parameters of a tenant's recorded adapter; None where there is none to read."""
    from safetensors import SafetensorError, safe_open

    path = directory / "adapters" / f"{arm}.s{seed}.{tenant}.initial.safetensors"
    try:
        with safe_open(path, framework="numpy") as tensors:
            return sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
