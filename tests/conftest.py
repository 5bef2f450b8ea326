"""What holds for every test."""

from __future__ import annotations

import os
from pathlib import Path

# Many tests start processes of their own, which would compile the same programs again: they share one cache.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "compiled")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
