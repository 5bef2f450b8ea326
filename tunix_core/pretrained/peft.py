"""Adapters in PEFT's layout: adapter_config.json and adapter_model.safetensors.

PEFT stores A as [r, in] and B as [out, r] under the module's name in the Hugging Face model; here a layer's are
a [in, R] and b [R, out]. Its scale is alpha / r, or alpha / sqrt(r) with use_rslora, as ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tunix_core.errors import AssetError
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.pretrained.hf_config import read_json
from tunix_core.pretrained.names import hf_module
from tunix_core.types import LoraSpec

WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
HostFactors = dict[str, tuple[np.ndarray, np.ndarray]]
_REFUSED = (
    "use_dora",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "layers_to_transform",
    "lora_bias",
    "trainable_token_indices",
)
"""Settings that would change what an adapter computes here."""


def export_adapter(
    folder: Path,
    factors: Mapping[str, tuple[np.ndarray, np.ndarray]],
    lora: LoraSpec,
    base: Mapping[str, str],
) -> None:
    """Writes one tenant's adapter; columns past its rank are left out, since they are zero.

    Args:
      folder: new or empty; factors: per target a [layers, in, R], b [layers, R, out], unscaled.
      base: `name` and `sha256` of the model that the adapter belongs to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, np.ndarray] = {}
    for target, (a, b) in factors.items():
        if np.any(a[:, :, lora.rank :]) or np.any(b[:, lora.rank :]):
            raise AssetError(
                f"{target} has a column past rank {lora.rank}: these are another tenant's settings"
            )
        for layer in range(len(a)):
            tensors[_key(target, layer, "A")] = np.ascontiguousarray(a[layer, :, : lora.rank].T)
            tensors[_key(target, layer, "B")] = np.ascontiguousarray(b[layer, : lora.rank].T)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt", "base_sha256": base["sha256"]})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base["name"],
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "use_rslora": lora.rank_stabilised,
        "target_modules": sorted(factors),
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n")


def import_adapter(folder: Path, config: ModelConfig, lora: LoraSpec, base_sha256: str) -> HostFactors:
    """Reads an adapter for a tenant with settings `lora`: per target a [layers, in, r], b [layers, r, out].

    Targets that the adapter leaves out are not in the result. Raises AssetError, naming file and fault, for an
    adapter of another base, rank or scale, of another kind than plain LoRA, with a tensor that has no place, or
    without one that it should have.
    """
    settings = read_json(folder / SETTINGS)
    _check_settings(folder / SETTINGS, settings, lora)
    path = folder / WEIGHTS
    try:
        with safe_open(path, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 no mapping
    except (SafetensorError, OSError) as error:
        raise AssetError(f"{path} is missing, cut or altered ({error})") from error
    of = metadata.get("base_sha256")
    if of is not None and of != base_sha256:
        raise AssetError(
            f"{path} belongs to another base model (sha256 {of[:12]}…; this one is {base_sha256[:12]}…)"
        )
    targets = _targets(folder / SETTINGS, settings, config)
    expected = {
        _key(target, layer, part): shape
        for target in targets
        for layer in range(config.num_hidden_layers)
        for part, shape in _shapes(config, target, lora.rank)
    }
    matched = expected.keys() & tensors.keys()
    if matched != expected.keys() or matched != tensors.keys():
        missing, unknown = sorted(expected.keys() - matched), sorted(tensors.keys() - matched)
        raise AssetError(
            f"{path}: {len(matched)} of {len(expected)} expected tensors are there, {len(unknown)} have no place"
            + (f"; missing, e.g., {missing[0]}" if missing else "")
            + (f"; without a place, e.g., {unknown[0]}" if unknown else "")
        )
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise AssetError(
                f"{path}: {name} is {list(tensors[name].shape)}, this base and rank ask for {list(shape)}"
            )
        if not np.isfinite(np.asarray(tensors[name], np.float32)).all():
            raise AssetError(f"{path}: {name} is not finite")
    return {target: tuple(_stack(tensors, target, part, config) for part in "AB") for target in targets}  # pyright: ignore[reportReturnType]


def _check_settings(path: Path, settings: Mapping[str, Any], lora: LoraSpec) -> None:
    if settings.get("peft_type") != "LORA" or settings.get("bias", "none") != "none":
        kind, bias = settings.get("peft_type"), settings.get("bias")
        raise AssetError(f"{path}: peft_type {kind!r} with bias {bias!r}; only LoRA without bias is read")
    for key in _REFUSED:
        if settings.get(key):
            raise AssetError(f"{path}: {key} = {settings[key]!r} is not supported")
    if (rank := settings.get("r")) != lora.rank:
        raise AssetError(f"{path}: rank {rank}, the run has {lora.rank}; --set lora_rank={rank}")
    scale = (settings.get("lora_alpha"), bool(settings.get("use_rslora")))
    if scale != (lora.alpha, lora.rank_stabilised):
        raise AssetError(
            f"{path}: lora_alpha {scale[0]} with use_rslora {scale[1]}, the run has {lora.alpha} and "
            f"{lora.rank_stabilised}; --set lora_alpha={scale[0]}"
        )


def _targets(path: Path, settings: Mapping[str, Any], config: ModelConfig) -> list[str]:
    said = settings.get("target_modules")
    known = lora_targets(config)
    if said == "all-linear":
        return list(known)
    if not isinstance(said, list) or not said or set(said) - known.keys():
        raise AssetError(
            f"{path}: target_modules {said!r}; this model carries adapters on {', '.join(known)}"
        )
    return [target for target in known if target in said]


def _shapes(config: ModelConfig, target: str, rank: int) -> tuple[tuple[str, tuple[int, int]], ...]:
    d_in, d_out = lora_targets(config)[target]
    return ("A", (rank, d_in)), ("B", (d_out, rank))


def _stack(tensors: Mapping[str, np.ndarray], target: str, part: str, config: ModelConfig) -> np.ndarray:
    layers = range(config.num_hidden_layers)
    return np.stack([np.asarray(tensors[_key(target, i, part)], np.float32).T for i in layers])


def _key(target: str, layer: int, part: str) -> str:
    return f"base_model.model.model.layers.{layer}.{hf_module(target)}.lora_{part}.weight"
