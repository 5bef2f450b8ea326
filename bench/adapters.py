"""Adapters across the border: a run's final ones in PEFT's layout, verified by reading them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.errors import BenchError, UsageError
from leaderboard.records import RunRecord


def export_peft(directory: Path, out: Path | None, arm: str | None, tenant: str | None) -> dict[str, Any]:
    """Writes OUT/ARM.sSEED.TENANT for every final adapter of a run; returns what was written.

    Each is read back, with every check that an import has, and must be bit for bit what the run left.
    Raises UsageError where nothing fits, or a folder is there already.
    """
    import numpy as np
    from safetensors.numpy import load_file

    from bench import models
    from tunix_core.pretrained.peft import export_adapter, import_adapter
    from tunix_core.types import LoraSpec

    header = RunRecord.open(directory).header
    config = models.config(str(header.config["model"]))
    base = {"name": header.model.name, "sha256": header.model.sha256}
    specs = {t.tenant: LoraSpec(**t.settings["lora"]) for t in header.tenants}
    target = out or directory.with_name(f"{directory.name}-peft")
    written: list[str] = []
    for run in header.runs:
        for name, spec in specs.items():
            file = directory / "adapters" / f"{run.arm}.s{run.seed}.{name}.final.safetensors"
            if arm not in (None, run.arm) or tenant not in (None, name) or not file.is_file():
                continue
            folder = target / f"{run.arm}.s{run.seed}.{name}"
            if folder.exists():
                raise UsageError(f"{folder} is there already", "name another folder by --out")
            flat = load_file(file)
            names = sorted({key.rpartition(".lora_")[0] for key in flat})
            factors = {n: (flat[f"{n}.lora_a"], flat[f"{n}.lora_b"]) for n in names}
            export_adapter(folder, factors, spec, base)
            back = import_adapter(folder, config, spec, base["sha256"])
            for n, (a, b) in factors.items():
                same = np.array_equal(back[n][0], a[:, :, : spec.rank]) and np.array_equal(
                    back[n][1], b[:, : spec.rank]
                )
                if not same:
                    raise BenchError(f"{folder}: {n} read back differs from what was written")
            written.append(str(folder))
    if not written:
        raise UsageError(
            f"{directory} holds no final adapter of arm {arm or 'any'}, tenant {tenant or 'any'}",
            f"arms {sorted({r.arm for r in header.runs})}, tenants {sorted(specs)}",
        )
    return {"adapters": written, "base": base}
