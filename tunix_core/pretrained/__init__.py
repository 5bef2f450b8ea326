"""Checkpoints that others trained: configs, weights, tokenizers, chat templates, and adapters in PEFT's layout.

Nothing here imports jax. `open_model` reads a Hugging Face folder or a GGUF file; a checkpoint gives its config,
its weights leaf by leaf in the decoder's own layout, and its tokenizer.
"""

from tunix_core.pretrained.checkpoint import Checkpoint, load_weights, open_model

__all__ = ["Checkpoint", "load_weights", "open_model"]
