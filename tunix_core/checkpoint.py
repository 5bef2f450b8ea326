"""A run on disk: trained state and books together, whole or not at all.

A checkpoint is taken between two updates. What was in flight then (groups admitted and not learnt) is not in
it: their draws are functions of their ordinals, so a resumed run draws the same groups again, and each is
learnt exactly once. Where nothing is in flight between updates (the synchronous arms), or what is in flight
would be sampled again by the very same adapters (staleness 0), a resumed run ends on the same bits.

Files are Orbax's: written beside their final place, and renamed when complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from tunix_core.errors import CheckpointError

SCHEMA = "tunix_core.checkpoint/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint holds. `arrays` and `snapshots` are trees of host arrays, `books` plain JSON."""

    step: int
    arrays: Any
    snapshots: Mapping[str, Any]
    books: Mapping[str, Any]


class Checkpoints:
    """The checkpoints of one run, newest `keep` of them; writing goes on behind the caller's back."""

    def __init__(self, directory: Path, *, keep: int = 2) -> None:
        self.directory = directory.resolve()
        self._manager = ocp.CheckpointManager(
            self.directory, options=ocp.CheckpointManagerOptions(max_to_keep=keep, create=True)
        )

    @property
    def latest(self) -> int | None:
        """Step of the newest complete checkpoint; half-written ones don't count."""
        return self._manager.latest_step()

    def save(self, saved: Saved) -> None:
        """Copies everything and returns; files appear later, and only when complete.

        Raises CheckpointError where a step is there already: a run that goes on from an older checkpoint
        would mix two histories.
        """
        if self.latest is not None and saved.step <= self.latest:
            raise CheckpointError(
                f"{self.directory}: step {saved.step} comes after step {self.latest}, which is there already. "
                "Resume from the newest checkpoint, or use a new folder."
            )
        # copies: what the next step donates must not change under the writer
        arrays = jax.tree.map(np.array, saved.arrays)
        books = {"schema": SCHEMA, **saved.books, "arrays_sha256": tree_sha256(arrays)}
        items: dict[str, Any] = {
            "arrays": ocp.args.StandardSave(arrays),
            "books": ocp.args.JsonSave(books),
        }
        if saved.snapshots:
            items["snapshots"] = ocp.args.StandardSave(dict(saved.snapshots))
        self._manager.save(saved.step, args=ocp.args.Composite(**items))

    def restore(self, like: Any) -> Saved:
        """The newest complete checkpoint; `like` is a tree of arrays with the expected shapes.

        Raises CheckpointError where there is none, where shapes differ, or where the arrays are not those
        that were saved.
        """
        step = self.latest
        if step is None:
            raise CheckpointError(f"{self.directory} holds no complete checkpoint; start a new run instead.")
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)
        items: dict[str, Any] = {
            "arrays": ocp.args.StandardRestore(shapes),
            "books": ocp.args.JsonRestore(),
        }
        if (self.directory / str(step) / "snapshots").exists():
            items["snapshots"] = ocp.args.StandardRestore()
        try:
            found = self._manager.restore(step, args=ocp.args.Composite(**items))
        except (ValueError, KeyError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            raise CheckpointError(f"{self.directory}: checkpoint {step} can't be read: {reason}") from error
        arrays = jax.tree.map(np.asarray, found["arrays"])
        books = found["books"]
        if books.get("schema") != SCHEMA:
            raise CheckpointError(
                f"{self.directory}: checkpoint {step} is of schema {books.get('schema')!r}; this is {SCHEMA!r}."
            )
        if tree_sha256(arrays) != books["arrays_sha256"]:
            raise CheckpointError(
                f"{self.directory}: the arrays of checkpoint {step} are not those that were saved. Delete "
                f"{self.directory / str(step)} to go on from the one before."
            )
        return Saved(step=step, arrays=arrays, snapshots=found.get("snapshots") or {}, books=books)

    def wait(self) -> None:
        """Returns when everything saved is on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits, and lets go of the writer's threads."""
        self._manager.close()


def tree_sha256(tree: Any) -> str:
    """Hash of a tree of arrays: paths, shapes, dtypes and bytes, in the tree's order."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        leaf = np.ascontiguousarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)}:{leaf.shape}:{leaf.dtype}".encode())
        digest.update(leaf.tobytes())
    return digest.hexdigest()
