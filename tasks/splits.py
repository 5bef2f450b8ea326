"""Item streams: (task, split, seed, index, level) -> TaskItem, a pure function.

An item's random source is a hash of its full coordinates, so neighbouring seeds share nothing. Which split
an item belongs to is decided by a hash of its *content*: a draw that falls elsewhere is drawn again, so no
content can be in two splits whatever the seeds.
"""

from __future__ import annotations

import hashlib
import random

from tasks.spec import Draw, TaskItem, TaskSpec, content_uid

SPLITS = ("train", "dev", "test")
_DEV_FROM, _TEST_FROM = 80, 90  # per cent of content: 80 train, 10 dev, 10 test
_MAX_DRAWS = 10_000  # a split that is still empty after so many draws has no content at this level


def split_of(task_id: str, key: str) -> str:
    """Returns the split that content with this key belongs to."""
    digest = hashlib.sha256(f"{task_id}\0{key}".encode("utf-8", "surrogatepass")).digest()
    # 64 bits mod 100: the bias is below 1e-17
    per_cent = int.from_bytes(digest[:8], "big") % 100
    if per_cent < _DEV_FROM:
        return "train"
    return "dev" if per_cent < _TEST_FROM else "test"


def item(spec: TaskSpec, split: str, seed: int, index: int, level: int | None = None) -> TaskItem:
    """Returns item `index` of the stream of `seed`.

    Raises:
      ValueError: unknown split or level, or a negative index.
    """
    level = spec.default_level if level is None else level
    check(spec, split, index, level)
    rows = spec.rows(split)
    if rows is not None:
        draw = rows[_row_of(spec, split, seed, index, len(rows))]
        return _as_item(spec, split, index, level, draw)
    rng = _rng(spec, split, seed, index, level)
    for _ in range(_MAX_DRAWS):
        draw = spec.generate(rng, level)
        if split_of(spec.id, spec.split_key(draw)) == split:
            return _as_item(spec, split, index, level, draw)
    raise ValueError(
        f"Task '{spec.id}' level {level} has no content in split '{split}' after {_MAX_DRAWS} draws; "
        "its generator makes too few distinct items."
    )


def check(spec: TaskSpec, split: str, index: int, level: int) -> None:
    """Raises ValueError where these coordinates name no item; draws nothing."""
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r} for task '{spec.id}'; choose one of {', '.join(SPLITS)}.")
    if level not in spec.levels:
        levels = ", ".join(map(str, spec.levels))
        raise ValueError(f"Task '{spec.id}' has no level {level!r}; choose one of {levels}.")
    if index < 0:
        raise ValueError(f"Item index {index} of task '{spec.id}' is negative; indices count from 0.")


def _rng(spec: TaskSpec, split: str, seed: int, index: int, level: int) -> random.Random:
    coordinates = f"{spec.id}\0{spec.version}\0{level}\0{split}\0{seed}\0{index}"
    return random.Random(int.from_bytes(hashlib.sha256(coordinates.encode()).digest(), "big"))


def _row_of(spec: TaskSpec, split: str, seed: int, index: int, count: int) -> int:
    """Each pass over the rows is another permutation, so every row comes once per pass."""
    epoch, place = divmod(index, count)
    # a keyed bijection (affine step over the row count) needs no list of `count` entries per call
    rng = _rng(spec, split, seed, epoch, -1)
    return _permuted(place, count, rng)


def _permuted(place: int, count: int, rng: random.Random) -> int:
    """A seeded permutation of range(count) evaluated at one place: a four-round Feistel walk."""
    half = max(1, (max(count - 1, 1).bit_length() + 1) // 2)
    key = rng.getrandbits(64)
    mask = (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for turn in range(4):
            # a hash, since a multiplication mixes halves of a few bits so badly that some rows come far too often
            mixed = hashlib.blake2b(f"{key}\0{turn}\0{right}".encode(), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(mixed, "big") & mask)
        place = (left << half) | right
        if place < count:
            return place


def _as_item(spec: TaskSpec, split: str, index: int, level: int, draw: Draw) -> TaskItem:
    return TaskItem(
        uid=content_uid(spec.id, spec.version, draw.prompt, draw.gold, draw.meta),
        task_id=spec.id,
        split=split,
        index=index,
        level=level,
        prompt=draw.prompt,
        gold=draw.gold,
        meta=draw.meta,
        licence=spec.licence,
        source=spec.source,
    )
