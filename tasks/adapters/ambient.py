"""Global random state, lent to code that knows no other and given back as it was."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

_LENT = threading.RLock()


@contextlib.contextmanager
def ambient_random(seed: int) -> Iterator[None]:
    """Inside, the global state of `random` and `numpy.random` is that of `seed`; after it, what it was."""
    lent = AmbientState(seed)
    with lent.lent():
        yield


class AmbientState:
    """A global random state of one's own, that goes on from one loan to the next."""

    def __init__(self, seed: int) -> None:
        python = random.Random(seed)
        self._python: Any = python.getstate()
        self._numpy: Any = np.random.RandomState(seed % (1 << 32)).get_state()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Swaps the state in, and out again; one loan at a time in this process."""
        with _LENT:
            outer = random.getstate(), np.random.get_state()
            random.setstate(self._python)
            np.random.set_state(self._numpy)
            try:
                yield
            finally:
                self._python, self._numpy = random.getstate(), np.random.get_state()
                random.setstate(outer[0])
                np.random.set_state(outer[1])
