"""`bench doctor`: what a run would find on this machine, and what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors import BenchError, Exit, fault_of
from bench.run import software, system
from tasks import sandbox
from tunix_core.errors import AssetError
from tunix_core.model.load import check_asset

PYTHONS = ((3, 11), (3, 14))
BUSY_LOAD = 0.5
"""Load per core above which times measured now are worth little."""
ENOUGH_GB = 2.0
MATMUL = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at."""

    what: str
    status: str
    """ok, warn (a run works, its figures may not be worth much) or fail (a run can't work)."""
    found: str
    advice: str = ""


def doctor_command(deep: bool = False) -> tuple[dict[str, Any], str, int]:
    """All findings; exit 6 if a run can't work here, 1 if the trainer is wrong (looked at if `deep`)."""
    findings = [finding for check in CHECKS for finding in check()]
    ok = all(finding.status != "fail" for finding in findings)
    code, table = Exit.OK if ok else Exit.MISSING, ""
    if ok and deep:
        finding, table = _self_check()
        findings.append(finding)
        ok = finding.status != "fail"
        code = Exit.OK if ok else Exit.FAILED
    lines = [
        f"{f.status:<4}  {f.what:<8}  {f.found}" + (f" ({f.advice})" if f.advice else "") for f in findings
    ]
    value = {"ok": ok, "findings": [asdict(finding) for finding in findings]}
    if table:
        value["token_table"] = table.splitlines()
        lines += ["", table]
    return value, "\n".join(lines), code


def _python() -> Iterator[Finding]:
    low, high = PYTHONS
    fits = low <= sys.version_info[:2] < high
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        what="python",
        status="ok" if fits else "warn",
        found=version,
        advice="" if fits else "tested on 3.11, 3.12 and 3.13",
    )


def _packages() -> Iterator[Finding]:
    versions = software()
    versions.pop("python")
    yield Finding(what="packages", status="ok", found=", ".join(f"{k} {v}" for k, v in versions.items()))


def _devices() -> Iterator[Finding]:
    from bench.compose import devices

    try:
        found, device_class = devices()
        speed = f"{_gflops():.0f} GFLOP/s in a {MATMUL} x {MATMUL} product"
    except (ImportError, RuntimeError) as error:
        yield Finding(what="devices", status="fail", found=fault_of(error).message, advice="reinstall jax")
        return
    names = ", ".join(f"{device['id']} {device['kind']}" for device in found)
    advice = "ratios do not transfer to accelerators" if device_class == "cpu-sim" else ""
    yield Finding(what="devices", status="ok", found=f"{names} ({device_class}), {speed}", advice=advice)


def _load() -> Iterator[Finding]:
    machine = system()
    cores, load = machine["cores"], machine["load_average"][0]
    busy = load > BUSY_LOAD * cores
    yield Finding(
        what="load",
        status="warn" if busy else "ok",
        found=f"{load:.1f} on {cores} cores, {machine['memory_bytes'] / 1e9:.0f} GB memory",
        advice="times measured now are not worth much; wait, or stop what else runs" if busy else "",
    )


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    short = free < ENOUGH_GB
    advice = "a long run may not fit; name an --out elsewhere" if short else ""
    yield Finding(
        what="disk", status="warn" if short else "ok", found=f"{free:.1f} GB free here", advice=advice
    )


def _model() -> Iterator[Finding]:
    try:
        card = check_asset()
    except AssetError as error:
        yield Finding(what="model", status="fail", found=str(error))
        return
    found = f"{card['name']}, {card['parameters']} weights, sha256 {card['sha256'][:12]} as expected"
    yield Finding(what="model", status="ok", found=found)


def _sandbox() -> Iterator[Finding]:
    try:
        found = sandbox.capability()
    except sandbox.SandboxError as error:
        yield Finding(what="sandbox", status="warn", found="none", advice=str(error))
        return
    status = "warn" if found.level is sandbox.Level.L0 else "ok"
    yield Finding(what="sandbox", status=status, found=str(found), advice="; ".join(found.why_not))


def _tracker() -> Iterator[Finding]:
    from bench.trackers import check, chosen

    mode, key = os.environ.get("WANDB_MODE"), bool(os.environ.get("WANDB_API_KEY"))
    if chosen("auto", os.environ) == "none":
        yield Finding(what="tracker", status="ok", found="none (no WANDB_API_KEY, no WANDB_MODE)")
        return
    try:
        check("auto")
    except BenchError as error:
        yield Finding(what="tracker", status="fail", found=str(error), advice=error.hint)
        return
    yield Finding(what="tracker", status="ok", found=f"wandb, {mode or ('online' if key else 'offline')}")


def _self_check() -> tuple[Finding, str]:
    """The first update of a small job on the embedded model, and a table of one of its sequences."""
    from bench.selfcheck import deep_check

    deep = deep_check()
    failure = deep.check.failure
    return Finding(
        what="trainer",
        status="ok" if failure is None else "fail",
        found=deep.summary if failure is None else failure,
        advice="" if failure is None else "training here would learn the wrong thing",
    ), deep.table


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _devices,
    _load,
    _disk,
    _model,
    _sandbox,
    _tracker,
)


def _gflops(products: int = 10) -> float:
    import jax
    import jax.numpy as jnp

    x = jnp.ones((MATMUL, MATMUL)) / MATMUL
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(x))
    started = time.perf_counter()
    for _ in range(products):
        x = product(x)
    jax.block_until_ready(x)
    return products * 2 * MATMUL**3 / (time.perf_counter() - started) / 1e9
