"""`bench doctor`."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

from bench.compose import devices
from bench.run import software, system
from tunix_core.model.load import check_asset


def doctor_command() -> tuple[dict[str, Any], str]:
    """What a run would find here."""
    import jax
    import jax.numpy as jnp

    found, device_class = devices()
    x = jnp.ones((512, 512))
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(x))
    t0 = time.perf_counter()
    for _ in range(10):
        x = product(x)
    jax.block_until_ready(x)
    gflops = 10 * 2 * 512**3 / (time.perf_counter() - t0) / 1e9
    card = check_asset()
    wandb = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "off (no key)")
    value = {
        **software(),
        **system(),
        "devices": found,
        "device_class": device_class,
        "matmul_gflops": round(gflops, 1),
        "disk_free_gb": round(shutil.disk_usage(".").free / 1e9, 1),
        "model": f"{card['name']} sha256 {card['sha256'][:12]} verified",
        "wandb": wandb,
    }
    lines = [f"{k}: {v}" for k, v in value.items()]
    cores, load = value["cores"], value["load_average"][0]
    if load > 0.5 * cores:
        lines.append(f"warning: load {load:.1f} on {cores} cores; times measured now are not worth much")
    return value, "\n".join(lines)
