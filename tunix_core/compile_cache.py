"""Compiled programs kept on disk, so that the next process of the same shapes begins at once.

The clock of a run starts after compilation, so the cache changes no figure but the time before the start; how
many programs came from it is recorded beside that.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax

MIN_COMPILE_S = 0.0
"""Everything is kept: some forty small programs, compiled anew, cost a second of every start."""


def default_folder() -> Path:
    """The user's cache folder, by the conventions of the platform."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "async-rl-bench" / "compiled"


def use(folder: Path | None) -> Path | None:
    """Keeps compiled programs in `folder` from now on; None leaves it to JAX's own settings.

    A folder that the user gave JAX (JAX_COMPILATION_CACHE_DIR) stays. Call it before anything is compiled.

    Returns:
      The folder in use; None where nothing is kept.
    """
    given = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if given:
        return Path(given)
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_S)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
