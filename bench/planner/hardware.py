"""Accelerators and models a plan knows, each figure with its source. bf16, dense, one chip."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from bench.errors import UsageError

_TPU = "https://docs.cloud.google.com/tpu/docs/"
_NVIDIA = "https://www.nvidia.com/en-us/data-center/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Peak figures of one chip. FLOP/s in bf16 without sparsity; link: bytes/s one way to its neighbours, all links."""

    name: str
    flops: float
    hbm_bytes: float
    hbm_bytes_per_s: float
    link_bytes_per_s: float
    source: str


DEVICES = {
    d.name: d
    for d in (
        Device(name="v5e", flops=197e12, hbm_bytes=16e9, hbm_bytes_per_s=819e9, link_bytes_per_s=200e9,
               source=_TPU + "v5e"),
        Device(name="v5p", flops=459e12, hbm_bytes=95e9, hbm_bytes_per_s=2765e9, link_bytes_per_s=600e9,
               source=_TPU + "v5p"),
        Device(name="v6e", flops=918e12, hbm_bytes=32e9, hbm_bytes_per_s=1600e9, link_bytes_per_s=400e9,
               source=_TPU + "v6e"),
        # NVIDIA's tables print bf16 with sparsity; dense is half of it
        Device(name="h100", flops=989e12, hbm_bytes=80e9, hbm_bytes_per_s=3.35e12, link_bytes_per_s=450e9,
               source=_NVIDIA + "h100 (SXM)"),
        Device(name="h200", flops=989e12, hbm_bytes=141e9, hbm_bytes_per_s=4.8e12, link_bytes_per_s=450e9,
               source=_NVIDIA + "h200 (SXM)"),
        Device(name="b200", flops=2250e12, hbm_bytes=180e9, hbm_bytes_per_s=8.0e12, link_bytes_per_s=900e9,
               source=_NVIDIA + "dgx-b200 (an eighth of the system)"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Shape of a Llama-family decoder."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    source: str

    @property
    def matrix_parameters(self) -> int:
        """Weights of the linear layers of all blocks, and of the output head."""
        return self.layers * sum(n * m for n, m in self.targets) + self.width * self.vocab

    @property
    def parameters(self) -> int:
        """All weights; norms, a ten-thousandth, left out."""
        return self.matrix_parameters + (0 if self.tied else self.width * self.vocab)

    @property
    def targets(self) -> tuple[tuple[int, int], ...]:
        """(in, out) of every matrix of a block; all of them carry an adapter."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        d, f = self.width, self.ffn
        return ((d, q), (d, kv), (d, kv), (q, d), (d, f), (d, f), (f, d))

    def lora_parameters(self, rank: int) -> int:
        """Of one adapter on every matrix of every block."""
        return self.layers * rank * sum(n + m for n, m in self.targets)

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one position in bf16."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim


_LLAMA3 = "Llama 3, arXiv 2407.21783, table 3"
_QWEN25 = "Qwen2.5, arXiv 2412.15115, and its config.json"


def _model(name: str, shape: tuple[int, ...], tied: bool, source: str) -> Model:
    layers, width, heads, kv_heads, head_dim, ffn, vocab = shape
    return Model(name=name, layers=layers, width=width, heads=heads, kv_heads=kv_heads, head_dim=head_dim, ffn=ffn,
                 vocab=vocab, tied=tied, source=source)  # fmt: skip


MODELS = {
    m.name: m
    for m in (
        _model("qwen2.5-1.5b", (28, 1536, 12, 2, 128, 8960, 151936), True, _QWEN25),
        _model("qwen2.5-7b", (28, 3584, 28, 4, 128, 18944, 152064), False, _QWEN25),
        _model("qwen2.5-32b", (64, 5120, 40, 8, 128, 27648, 152064), False, _QWEN25),
        _model("llama3-8b", (32, 4096, 32, 8, 128, 14336, 128256), False, _LLAMA3),
        _model("llama3-70b", (80, 8192, 64, 8, 128, 28672, 128256), False, _LLAMA3),
        _model("llama3-405b", (126, 16384, 128, 8, 128, 53248, 128256), False, _LLAMA3),
    )
}

K = TypeVar("K", Device, Model)


def find(kind: str, name: str, known: Mapping[str, K]) -> K:
    """Looks a device or model up. Raises UsageError naming what there is."""
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"unknown {kind} {name!r}", f"{hint}there are {', '.join(known)}")
    return known[name]
