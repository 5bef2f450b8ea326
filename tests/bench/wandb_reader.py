"""Reads W&B's `.wandb` file, since its wheel no longer has a reader.

Layout: a header of 7 bytes (':W&B', u16 0xBEE1, u8 version 0, little endian), then blocks of 32 KiB with chunks
of u32 crc, u16 length, u8 type (1 whole, 2 first, 3 middle, 4 last) and payload; crc is zlib's over type and
payload. The end of a block too short for a chunk's head is padding. A payload is one protobuf Record.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = 32 * 1024
HEAD = struct.Struct("<IHB")


@dataclass
class Stored:
    run_id: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    """step metric by the name or prefix drawn over it; "" for an axis itself"""
    rows: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    stats: int = 0
    exit_code: int | None = None


def read(path: Path) -> Stored:
    from wandb.proto.wandb_internal_pb2 import Record

    stored = Stored()
    names: dict[int, str] = {}
    for payload in payloads(path.read_bytes()):
        record = Record()
        record.ParseFromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
            stored.run_id, stored.project = run.run_id, run.project
            stored.group, stored.job_type = run.run_group, run.job_type
            stored.name, stored.tags = run.display_name, list(run.tags)
            stored.config |= {u.key: json.loads(u.value_json) for u in run.config.update if u.key}
        elif kind == "metric":
            name = record.metric.name or record.metric.glob_name
            names[len(names) + 1] = name
            number = record.metric.step_metric_index
            stored.axes[name] = record.metric.step_metric or names.get(number, "")
        elif kind == "history":
            items = {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            stored.rows.append({key: value for key, value in items.items() if not key.startswith("_")})
        elif kind == "summary":
            for item in record.summary.update:
                stored.summary[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
        elif kind == "stats":
            stored.stats += 1
        elif kind == "exit":
            stored.exit_code = record.exit.exit_code
    return stored


def payloads(data: bytes) -> Iterator[bytes]:
    assert struct.unpack("<4sHB", data[:7]) == (b":W&B", 0xBEE1, 0)
    at, parts = 7, b""
    while at < len(data):
        if BLOCK - at % BLOCK < HEAD.size:
            at += BLOCK - at % BLOCK
            continue
        crc, length, kind = HEAD.unpack_from(data, at)
        payload = data[at + HEAD.size : at + HEAD.size + length]
        assert zlib.crc32(bytes([kind]) + payload) == crc, f"crc at byte {at}"
        at += HEAD.size + length
        parts = payload if kind in (1, 2) else parts + payload
        if kind in (1, 4):
            yield parts
