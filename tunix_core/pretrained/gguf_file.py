"""GGUF files: metadata to config, quantised tensors to float32, vocabulary to a tokenizer.

The format and the meaning of its keys: the GGUF specification of the ggml project; dequantisation is its own
`gguf` package's. Two things differ from a Hugging Face checkpoint of the same model: rows of q and k of the
`llama` architecture are permuted for rotations of neighbouring pairs, and Gemma's gains hold the 1 they add.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tunix_core.errors import AssetError, ConfigError
from tunix_core.model.config import ModelConfig, RopeKind, RopeScaling
from tunix_core.pretrained.gguf_tokenizer import tokenizer_of
from tunix_core.pretrained.names import gguf_name, is_matrix
from tunix_core.pretrained.tokenizer import PretrainedTokenizer

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3")
_LOCAL_PATTERN = {"gemma2": 2, "gemma3": 6}
"""Every n-th layer is global; a file that says otherwise is believed."""
_KINDS: dict[str, RopeKind | None] = {"none": None, "linear": "linear", "yarn": "yarn"}


class GGUFCheckpoint:
    """One file. Needs the `gguf` package."""

    def __init__(self, path: Path) -> None:
        """Reads the metadata.

        Raises AssetError for a file that is cut or no GGUF, ConfigError for what the decoder can't do.
        """
        import gguf  # pyright: ignore[reportMissingImports]

        try:
            self._reader = gguf.GGUFReader(str(path))
        except (ValueError, IndexError, KeyError, OSError, OverflowError) as error:
            raise AssetError(f"{path} is not a whole GGUF file ({error}); fetch it again") from error
        self.files = (path,)
        self._tensors = {t.name: t for t in self._reader.tensors}
        self.architecture = str(self.field("general.architecture", ""))
        self.licence = str(self.field("general.license", ""))
        self.config = self._config()

    def field(self, key: str, default: Any = None) -> Any:
        """A value of the metadata."""
        found = self._reader.get_field(key)
        return default if found is None else found.contents()

    def _config(self) -> ModelConfig:
        name = self.architecture
        if name not in ARCHITECTURES:
            raise ConfigError(
                f"{self.files[0]}: architecture {name!r} is not supported; supported are {', '.join(ARCHITECTURES)}"
            )

        def of(key: str, default: Any = None) -> Any:
            value = self.field(f"{name}.{key}", default)
            if value is None:
                raise AssetError(f"{self.files[0]}: {name}.{key} is missing")
            return value

        def number(key: str) -> float | None:
            value = self.field(f"{name}.{key}")
            return None if value is None else short(value)

        width, heads, layers = of("embedding_length"), of("attention.head_count"), of("block_count")
        head_dim = of("attention.key_length", width // heads)
        gemma = name.startswith("gemma")
        window = self.field(f"{name}.attention.sliding_window") if gemma else None
        return ModelConfig(
            vocab_size=int(self._tensors["token_embd.weight"].shape[1]),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=of("attention.head_count_kv", heads),
            head_dim=head_dim,
            intermediate_size=of("feed_forward_length"),
            max_position_embeddings=of("context_length"),
            rope_theta=short(of("rope.freq_base", 1e6 if name == "gemma3" else 10_000.0)),
            rms_norm_eps=short(of("attention.layer_norm_rms_epsilon")),
            tie_word_embeddings="output.weight" not in self._tensors,
            hidden_act="gelu_pytorch_tanh" if gemma else "silu",
            attention_bias="blk.0.attn_q.bias" in self._tensors,
            qk_norm="blk.0.attn_q_norm.weight" in self._tensors,
            post_norms=gemma,
            embed_scale=float(np.sqrt(width)) if gemma else 1.0,
            # 27B of both generations scores by width / heads; their key length differs from it
            query_scale=(width / heads) ** -0.5 if gemma and layers in (46, 62) else None,
            attn_logit_softcap=number("attn_logit_softcapping"),
            final_logit_softcap=number("final_logit_softcapping"),
            rope_scaling=self._scaling(of, head_dim),
            sliding_window=window,
            local_layers=self._local_layers(layers) if window else (),
            local_rope_theta=short(self.field("gemma3.rope.freq_base_swa", 10_000.0))
            if name == "gemma3"
            else None,
        )

    def _local_layers(self, layers: int) -> tuple[bool, ...]:
        said = self.field(f"{self.architecture}.attention.sliding_window_pattern")
        if isinstance(said, list):
            return tuple(map(bool, said))
        every = said or _LOCAL_PATTERN[self.architecture]
        return tuple((i + 1) % every != 0 for i in range(layers))

    def _scaling(self, of: Any, head_dim: int) -> RopeScaling | None:
        if (factors := self._tensors.get("rope_freqs.weight")) is not None:
            return RopeScaling(
                kind="factors", factors=tuple(np.asarray(factors.data, float).ravel().tolist())
            )
        kind = of("rope.scaling.type", "none")
        if kind not in _KINDS:
            raise ConfigError(f"{self.files[0]}: rope scaling {kind!r} is not supported")
        if (known := _KINDS[kind]) is None:
            return None
        return RopeScaling(
            kind=known,
            factor=short(of("rope.scaling.factor")),
            original_max_position_embeddings=of("rope.scaling.original_context_length", 0),
        )

    def stored_name(self, leaf: str, layer: int | None) -> str:
        """Its name in the file."""
        return gguf_name(leaf, self.config, layer)

    def tensor(self, leaf: str, layer: int | None) -> np.ndarray:
        """One weight, dequantised."""
        import gguf  # pyright: ignore[reportMissingImports]

        name = self.stored_name(leaf, layer)
        stored = self._tensors.get(name)
        if stored is None:
            raise AssetError(f"{self.files[0]}: {name} is missing")
        try:
            value = gguf.dequantize(stored.data, stored.tensor_type)
        except NotImplementedError as error:
            raise AssetError(
                f"{self.files[0]}: {name} is {stored.tensor_type.name}, which can't be read"
            ) from error
        if self.architecture == "llama" and leaf in ("layers.q_proj.kernel", "layers.k_proj.kernel"):
            value = halves(value, self.config.head_dim)
        return np.ascontiguousarray(value.T) if is_matrix(leaf) else value

    def unused(self, read: set[str]) -> list[str]:
        """Weights that nobody asked for."""
        return sorted(self._tensors.keys() - read - {"rope_freqs.weight"})

    def tokenizer(self) -> PretrainedTokenizer:
        """Rebuilt from the metadata."""
        return tokenizer_of(self.field, self.config.vocab_size, self.files[0])


def halves(rows: np.ndarray, head_dim: int) -> np.ndarray:
    """Rows [heads * d, in] from neighbouring pairs (2i, 2i + 1) to the halves (i, i + d/2) that `rotate` turns."""
    out, width = rows.shape
    return rows.reshape(out // head_dim, head_dim // 2, 2, width).swapaxes(1, 2).reshape(out, width)


def short(value: float) -> float:
    """The shortest decimal that is this float32: 1e-05, where the file has 9.999999747378752e-06."""
    return float(str(np.float32(value)))
