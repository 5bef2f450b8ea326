"""Golden logits of every supported architecture, computed by Hugging Face transformers on random tiny weights.

    python -m tests.tunix_core.pretrained.make_golden     (needs torch and transformers; about a minute)

Weights are not stored: they follow from a seed and the tensors' names, here and in the test. What is stored is each
architecture's config.json as transformers writes it, the names and shapes of its tensors, token ids, and logits.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden.npz"
LENGTH = 24
SIZES: dict[str, Any] = {
    "vocab_size": 48,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 16}
_LINEAR = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0}
_GEMMA = {"query_pre_attn_scalar": 16, "sliding_window": 8, "tie_word_embeddings": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"tie_word_embeddings": False}),
    "llama-tied-linear": ("LlamaConfig", {"tie_word_embeddings": True, "rope_parameters": _LINEAR}),
    "llama3": ("LlamaConfig", {"tie_word_embeddings": False, "rope_parameters": _LLAMA3}),
    "mistral": ("MistralConfig", {"sliding_window": 8, "tie_word_embeddings": False}),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen2-yarn": ("Qwen2Config", {"tie_word_embeddings": True, "rope_parameters": _YARN}),
    "qwen3": ("Qwen3Config", {"tie_word_embeddings": False}),
    "gemma2": (
        "Gemma2Config",
        {**_GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {
            **_GEMMA,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            },
        },
    ),
}


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor that follows from its name: gains near what trained models have, matrices of unit gain."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return drawn / np.sqrt(np.float32(shape[-1])) if len(shape) > 1 else 1 + drawn / 4


def token_ids(case: str) -> np.ndarray:
    """int32 [LENGTH]."""
    seed = int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).integers(0, SIZES["vocab_size"], LENGTH).astype(np.int32)


def reference(case: str) -> tuple[dict[str, Any], dict[str, tuple[int, ...]], np.ndarray, Any]:
    """(config.json, shapes of the tensors, logits float32 [LENGTH, V], the model) by transformers."""
    import torch
    import transformers

    kind, changes = CASES[case]
    config = getattr(transformers, kind)(**{**SIZES, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    shapes = {name: tuple(x.shape) for name, x in model.named_parameters()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weight(name, tuple(parameter.shape))))
        logits = model(torch.from_numpy(token_ids(case).astype(np.int64))[None]).logits[0].numpy()
    return json.loads(config.to_json_string(use_diff=False)), shapes, logits, model


def main() -> None:
    """Writes golden.npz."""
    out: dict[str, Any] = {}
    for case in CASES:
        config, shapes, logits, _ = reference(case)
        out[f"{case}/logits"] = logits
        out[f"{case}/told"] = np.frombuffer(
            json.dumps({"config": config, "shapes": {n: list(s) for n, s in shapes.items()}}).encode(),
            np.uint8,
        )
    np.savez_compressed(GOLDEN, **out)


if __name__ == "__main__":
    main()
