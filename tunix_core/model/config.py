"""Shape of a decoder of the Llama, Qwen, Gemma and Mistral families: all the code needs to know of a checkpoint."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tunix_core.errors import ConfigError

RopeKind = Literal["linear", "llama3", "yarn", "factors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched past the context that a model was first trained on."""

    kind: RopeKind
    factor: float = 1.0
    original_max_position_embeddings: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    """llama3: wavelengths between original / high and original / low are blended."""
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    """yarn: rotations that bound the blend, and what scores grow by (None: 0.1 ln factor + 1, squared)."""
    factors: tuple[float, ...] = ()
    """factors: what each of the head_dim / 2 frequencies is divided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and constants of a decoder with RMSNorm, rotary positions, grouped-query attention and a gated MLP.

    Field names follow the `config.json` of Hugging Face's Llama family where it has one; the defaults are Llama's.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    max_position_embeddings: int = 2048
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    hidden_act: Literal["silu", "gelu_pytorch_tanh"] = "silu"
    attention_bias: bool = False
    """Of q, k and v (Qwen 2)."""
    qk_norm: bool = False
    """Queries and keys of every head are normed before they are rotated (Qwen 3, Gemma 3)."""
    post_norms: bool = False
    """What attention and MLP give is normed once more before it is added (Gemma)."""
    embed_scale: float = 1.0
    query_scale: float | None = None
    """Of scores; None: head_dim ** -0.5."""
    attn_logit_softcap: float | None = None
    final_logit_softcap: float | None = None
    rope_scaling: RopeScaling | None = None
    sliding_window: int | None = None
    """In a local layer a token sees itself and the sliding_window - 1 tokens before it."""
    local_layers: tuple[bool, ...] = ()
    """Which layers are local; empty: none."""
    local_rope_theta: float | None = None
    """Of local layers, without scaling; None: as the other layers (Gemma 3 has two)."""

    def __post_init__(self) -> None:
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"model config: num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        if self.head_dim % 2:
            raise ConfigError(f"model config: head_dim {self.head_dim} must be even for rotary positions")
        if self.local_layers and (
            len(self.local_layers) != self.num_hidden_layers or (self.sliding_window or 0) < 1
        ):
            raise ConfigError(
                f"model config: {len(self.local_layers)} local_layers and sliding_window {self.sliding_window} "
                f"for {self.num_hidden_layers} layers; local layers need one entry a layer and a window"
            )
        if self.hidden_act not in ("silu", "gelu_pytorch_tanh"):
            raise ConfigError(
                f"model config: hidden_act {self.hidden_act!r}; known are 'silu', 'gelu_pytorch_tanh'"
            )
        if (scaling := self.rope_scaling) is not None:
            if scaling.kind == "factors" and len(scaling.factors) != self.head_dim // 2:
                raise ConfigError(
                    f"model config: {len(scaling.factors)} rope factors for head_dim {self.head_dim}"
                )
            if scaling.kind in ("llama3", "yarn") and scaling.original_max_position_embeddings < 1:
                raise ConfigError(
                    f"model config: {scaling.kind} rope scaling needs original_max_position_embeddings"
                )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ModelConfig:
        """Builds a config from parsed JSON; an unknown or missing key is a ConfigError."""
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(f"model config: unknown keys {unknown}; known are {sorted(known)}")
        values = dict(values)
        try:
            if (scaling := values.get("rope_scaling")) is not None:
                scaling = {**scaling, "factors": tuple(scaling.get("factors", ()))}
                values["rope_scaling"] = RopeScaling(**scaling)
            values["local_layers"] = tuple(values.get("local_layers", ()))
            return cls(**values)
        except TypeError as e:
            raise ConfigError(f"model config: {e}") from e

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def lora_targets(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """(in, out) features of every matrix that carries an adapter: all linear layers of a block.

    Source for "all linear": Schulman et al., "LoRA Without Regret", 2025.
    """
    d, f = config.hidden_size, config.intermediate_size
    q, kv = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    return {
        "q_proj": (d, q),
        "k_proj": (d, kv),
        "v_proj": (d, kv),
        "o_proj": (q, d),
        "gate_proj": (d, f),
        "up_proj": (d, f),
        "down_proj": (f, d),
    }


def parameter_count(config: ModelConfig) -> int:
    """Number of weights."""
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Shape of every weight by its dotted name in the decoder's own layout; those of layers are stacked."""
    c, layers = config, config.num_hidden_layers
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens": (c.vocab_size, c.hidden_size)}
    if not c.tie_word_embeddings:
        shapes["lm_head"] = (c.hidden_size, c.vocab_size)
    shapes["norm.scale"] = (c.hidden_size,)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if c.post_norms:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    shapes |= {f"layers.{name}.scale": (layers, c.hidden_size) for name in norms}
    if c.qk_norm:
        shapes |= {f"layers.{name}.scale": (layers, c.head_dim) for name in ("q_norm", "k_norm")}
    for name, (d_in, d_out) in lora_targets(c).items():
        shapes[f"layers.{name}.kernel"] = (layers, d_in, d_out)
        if c.attention_bias and name in ("q_proj", "k_proj", "v_proj"):
            shapes[f"layers.{name}.bias"] = (layers, d_out)
    return shapes
