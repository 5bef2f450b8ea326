"""What each of the decoder's weights is called in a Hugging Face checkpoint and in a GGUF file."""

from __future__ import annotations

from tunix_core.model.config import ModelConfig

_TOP = {
    "embed_tokens": ("model.embed_tokens.weight", "token_embd.weight"),
    "lm_head": ("lm_head.weight", "output.weight"),
    "norm.scale": ("model.norm.weight", "output_norm.weight"),
}
_MODULES = {
    "q_proj": ("self_attn.q_proj", "attn_q"),
    "k_proj": ("self_attn.k_proj", "attn_k"),
    "v_proj": ("self_attn.v_proj", "attn_v"),
    "o_proj": ("self_attn.o_proj", "attn_output"),
    "q_norm": ("self_attn.q_norm", "attn_q_norm"),
    "k_norm": ("self_attn.k_norm", "attn_k_norm"),
    "gate_proj": ("mlp.gate_proj", "ffn_gate"),
    "up_proj": ("mlp.up_proj", "ffn_up"),
    "down_proj": ("mlp.down_proj", "ffn_down"),
    "input_layernorm": ("input_layernorm", "attn_norm"),
    "pre_feedforward_layernorm": ("pre_feedforward_layernorm", "ffn_norm"),
    "post_feedforward_layernorm": ("post_feedforward_layernorm", "post_ffw_norm"),
}


def hf_name(leaf: str, layer: int | None = None) -> str:
    """A weight's name in a Hugging Face checkpoint; `layer` for a leaf of the stack."""
    if layer is None:
        return _TOP[leaf][0]
    module, part = _module(leaf)
    inside = "post_attention_layernorm" if module == "post_attention_layernorm" else _MODULES[module][0]
    return f"model.layers.{layer}.{inside}.{'bias' if part == 'bias' else 'weight'}"


def gguf_name(leaf: str, config: ModelConfig, layer: int | None = None) -> str:
    """A weight's name in a GGUF file; `layer` for a leaf of the stack."""
    if layer is None:
        return _TOP[leaf][1]
    module, part = _module(leaf)
    if module == "post_attention_layernorm":  # GGUF names norms by their place, Hugging Face by their history
        inside = "post_attention_norm" if config.post_norms else "ffn_norm"
    else:
        inside = _MODULES[module][1]
    return f"blk.{layer}.{inside}.{'bias' if part == 'bias' else 'weight'}"


def hf_module(target: str) -> str:
    """Where a layer holds one of the matrices that carry adapters, e.g. `self_attn.q_proj`."""
    return _MODULES[target][0]


def is_matrix(leaf: str) -> bool:
    """Whether both formats store the leaf as [out, in], transposed to the decoder's [in, out]."""
    return leaf.endswith(".kernel") or leaf == "lm_head"


def _module(leaf: str) -> tuple[str, str]:
    _, module, part = leaf.split(".")
    return module, part
