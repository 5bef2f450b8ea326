"""Imports bm25s without JAX.

bm25s imports `jax.lax` where it can and runs a top-k on the default device at import. A task must neither
load JAX into an environment worker nor touch the accelerator the trainer owns, so JAX is hidden while bm25s
loads. This module is imported with `tasks`, on the main thread, before any thread could import JAX itself.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def _hidden(*names: str) -> Iterator[None]:
    """Makes importing these modules raise ImportError inside the block."""
    kept = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # None means: refuse the import
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


with _hidden("jax", "jax.lax"):
    import bm25s

# it sets its own level to DEBUG, and would speak up as soon as anything gives the root logger a handler
logging.getLogger("bm25s").setLevel(logging.WARNING)

__all__ = ["bm25s"]
