"""A Hugging Face `config.json` as a ModelConfig: every key that changes the computation is read or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tunix_core.errors import AssetError, ConfigError
from tunix_core.model.config import ModelConfig, RopeScaling

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text")
"""Values of `model_type`; SmolLM2 is a llama."""
_THETA = {"gemma3_text": 1e6, "qwen2": 10_000.0, "qwen3": 10_000.0}
_LOCAL_PATTERN = {"gemma2": 2, "gemma3_text": 6}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; AssetError names the file that is missing or isn't one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AssetError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise AssetError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise AssetError(f"{path} is not a JSON object")
    return value


def config_of(values: Mapping[str, Any], path: Path) -> ModelConfig:
    """Raises ConfigError for a family or a setting that the decoder can't do, AssetError for a missing key."""
    family = values.get("model_type")
    if family not in FAMILIES:
        raise ConfigError(
            f"{path}: model_type {family!r} is not supported; supported are {', '.join(FAMILIES)}"
        )

    def of(key: str) -> Any:
        if values.get(key) is None:
            raise AssetError(f"{path}: {key} is missing")
        return values[key]

    gemma = family.startswith("gemma")
    width, heads, layers = of("hidden_size"), of("num_attention_heads"), of("num_hidden_layers")
    head_dim = values.get("head_dim") or width // heads
    _refuse(values, family, path)
    window, local = _locality(values, family, layers)
    theta, scaling, local_theta = _rope(values, family, path)
    scalar = values.get("query_pre_attn_scalar") if gemma else None
    return ModelConfig(
        vocab_size=of("vocab_size"),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=values.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        intermediate_size=of("intermediate_size"),
        max_position_embeddings=values.get("max_position_embeddings", 2048),
        rope_theta=theta,
        rms_norm_eps=values.get("rms_norm_eps", 1e-6),
        tie_word_embeddings=values["tie_word_embeddings"],
        hidden_act="gelu_pytorch_tanh" if gemma else "silu",
        attention_bias=family == "qwen2",
        qk_norm=family in ("qwen3", "gemma3_text"),
        post_norms=gemma,
        embed_scale=float(np.sqrt(width)) if gemma else 1.0,
        query_scale=None if scalar is None else float(scalar) ** -0.5,
        attn_logit_softcap=values.get("attn_logit_softcapping") if gemma else None,
        final_logit_softcap=values.get("final_logit_softcapping") if gemma else None,
        rope_scaling=scaling,
        sliding_window=window,
        local_layers=local,
        local_rope_theta=local_theta,
    )


def _refuse(values: Mapping[str, Any], family: str, path: Path) -> None:
    act = values.get("hidden_activation") or values.get("hidden_act")
    right = ("gelu_pytorch_tanh",) if family.startswith("gemma") else ("silu",)
    wrong = {
        "hidden_act": act is not None and act not in right,
        "attention_bias": family != "qwen2" and values.get("attention_bias"),
        "mlp_bias": values.get("mlp_bias"),
        "partial_rotary_factor": values.get("partial_rotary_factor", 1.0) != 1.0,
        "use_bidirectional_attention": values.get("use_bidirectional_attention"),
        "quantization_config": values.get("quantization_config"),
    }
    for key, is_wrong in wrong.items():
        if is_wrong:
            raise ConfigError(f"{path}: {key} = {values.get(key, act)!r} is not supported for {family}")


def _locality(values: Mapping[str, Any], family: str, layers: int) -> tuple[int | None, tuple[bool, ...]]:
    """(window, which layers are local); (None, ()) where all see everything."""
    window, kinds = values.get("sliding_window"), values.get("layer_types")
    if (
        family == "llama"
        or not window
        or (family.startswith("qwen") and not values.get("use_sliding_window"))
    ):
        return None, ()
    if kinds is not None:
        local = tuple(kind == "sliding_attention" for kind in kinds)
    elif family in _LOCAL_PATTERN:
        every = values.get("sliding_window_pattern") or _LOCAL_PATTERN[family]
        local = tuple((i + 1) % every != 0 for i in range(layers))
    else:
        first = values.get("max_window_layers", 0) if family.startswith("qwen") else 0
        local = tuple(i >= first for i in range(layers))
    return (window, local) if any(local) else (None, ())


def _rope(
    values: Mapping[str, Any], family: str, path: Path
) -> tuple[float, RopeScaling | None, float | None]:
    """(theta, scaling, theta of local layers) from the older keys or from `rope_parameters`."""
    said = values.get("rope_parameters") or {}
    by_layer = said.get("full_attention") if "full_attention" in said else None
    glob = by_layer or said or (values.get("rope_scaling") or {})
    default = _THETA.get(family, 10_000.0)
    theta = float(glob.get("rope_theta") or values.get("rope_theta") or default)
    local: float | None = None
    if family == "gemma3_text":
        nearby = said.get("sliding_attention") or {}
        if nearby.get("rope_type", "default") != "default":
            raise ConfigError(f"{path}: rope scaling of local layers is not supported")
        local = float(nearby.get("rope_theta") or values.get("rope_local_base_freq") or 10_000.0)
    return theta, _scaling(glob, values, path), local


def _scaling(said: Mapping[str, Any], values: Mapping[str, Any], path: Path) -> RopeScaling | None:
    kind = said.get("rope_type") or said.get("type") or "default"
    if kind == "default":
        return None
    if kind not in ("linear", "llama3", "yarn"):
        raise ConfigError(
            f"{path}: rope scaling {kind!r} is not supported; supported are linear, llama3, yarn"
        )
    if kind == "yarn" and (said.get("mscale") or said.get("truncate") is False):
        raise ConfigError(f"{path}: yarn with mscale, or without truncation, is not supported")
    original = said.get("original_max_position_embeddings") or values.get("max_position_embeddings") or 0
    return RopeScaling(
        kind=kind,
        factor=float(said["factor"]),
        original_max_position_embeddings=int(original),
        low_freq_factor=float(said.get("low_freq_factor", 1.0)),
        high_freq_factor=float(said.get("high_freq_factor", 4.0)),
        beta_fast=float(said.get("beta_fast") or 32.0),
        beta_slow=float(said.get("beta_slow") or 1.0),
        attention_factor=said.get("attention_factor"),
    )
