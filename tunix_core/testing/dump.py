"""Writes what each update is about to learn from to a folder, for eyes and for tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tunix_core.learner.stage import PackedUpdate
from tunix_core.types import PackedBatch


class BatchDump:
    """`Trainer(..., on_packed=BatchDump(folder))`: two files an update, `update-00000.npz` and `.json`.

    The npz holds the fields of each PackedBatch b under '<b>/<field>', [B, L] (tenant_slot [B]), and
    '<b>/policy_version' int32 [B, L], -1 off the loss. The JSON names tenants, their learner versions and
    trained ordinals, and for each sequence its batch, row and segment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, packed: PackedUpdate) -> None:
        """Writes one update."""
        stem = self.folder / f"update-{packed.update_id:05d}"
        arrays = {}
        for b, batch in enumerate(packed.batches):
            arrays |= {f"{b}/{name}": np.asarray(value) for name, value in batch._asdict().items()}
            arrays[f"{b}/policy_version"] = _versions(packed, b)
        with open(f"{stem}.npz", "wb") as file:
            np.savez(file, **arrays)
        Path(f"{stem}.json").write_text(json.dumps(_sidecar(packed), indent=1) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedUpdate:
    """One dumped update, read back."""

    batches: tuple[PackedBatch, ...]
    policy_version: tuple[np.ndarray, ...]
    """Int32 [B, L] a batch."""
    about: dict[str, Any]
    """The JSON."""

    def sequence(self, tenant_id: str, ordinal: int, sample_index: int) -> dict[str, np.ndarray]:
        """The fields [n] of one sequence, by the names of PackedBatch, and its policy_version."""
        key = {"tenant_id": tenant_id, "ordinal": ordinal, "sample_index": sample_index}
        place = next((s for s in self.about["sequences"] if key.items() <= s.items()), None)
        if place is None:
            raise KeyError(f"no sequence {tuple(key.values())} in update {self.about['update_id']}")
        b, row = int(place["batch"]), int(place["row"])
        fields = {k: v for k, v in self.batches[b]._asdict().items() if k != "tenant_slot"}
        fields["policy_version"] = self.policy_version[b]
        at = fields["segment_ids"][row] == place["segment"]
        return {name: value[row][at] for name, value in fields.items()}


def read_dump(folder: Path, update_id: int) -> DumpedUpdate:
    """Reads what `BatchDump` wrote of one update."""
    stem = folder / f"update-{update_id:05d}"
    about = json.loads(Path(f"{stem}.json").read_text())
    with np.load(f"{stem}.npz") as arrays:
        count = about["batches"]
        batches = tuple(
            PackedBatch(**{name: arrays[f"{b}/{name}"] for name in PackedBatch._fields}) for b in range(count)
        )
        versions = tuple(arrays[f"{b}/policy_version"] for b in range(count))
    return DumpedUpdate(batches=batches, policy_version=versions, about=about)


def _versions(packed: PackedUpdate, b: int) -> np.ndarray:
    batch = packed.batches[b]
    rows = packed.plan.batches[b].rows
    learner = np.zeros((len(np.asarray(batch.tenant_slot)), 1), np.int32)
    learner[: len(rows), 0] = [packed.versions[row.tenant] for row in rows]
    return np.where(batch.loss_mask, learner - batch.token_age, -1).astype(np.int32)


def _sidecar(packed: PackedUpdate) -> dict[str, Any]:
    sequences = [
        {
            "tenant_id": s.tenant_id,
            "ordinal": s.ordinal,
            "sample_index": s.sample_index,
            "advantage": s.advantage,
            "batch": b,
            "row": r,
            "segment": segment,
        }
        for b, batch in enumerate(packed.plan.batches)
        for r, row in enumerate(batch.rows)
        for segment, i in enumerate(row.sequences, start=1)
        for s in (packed.sequences[i],)
    ]
    return {
        "update_id": packed.update_id,
        "batches": len(packed.batches),
        "tenants": {
            name: {"version": packed.versions[name], "ordinals": [g.ordinal for g in groups]}
            for name, groups in packed.groups.items()
        },
        "sequences": sequences,
    }
