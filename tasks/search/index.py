"""A BM25 index over short passages, stemmed, with reproducible order and no invented hits."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import Stemmer

from tasks.search.bm25 import bm25s

_LOCAL = threading.local()


class Bm25Index:
    """Searches passages. Ties keep the order of the passages; a score of zero is no hit."""

    def __init__(self, passages: Sequence[str]) -> None:
        self.passages = tuple(passages)
        tokens = bm25s.tokenize(list(self.passages), stopwords="en", stemmer=stemmer(), show_progress=False)
        assert isinstance(tokens, bm25s.tokenization.Tokenized)
        self._vocabulary = tokens.vocab
        self._bm25 = bm25s.BM25()
        self._bm25.index(tokens, show_progress=False)

    def search(self, query: str, k: int) -> tuple[str, ...]:
        """Returns up to `k` passages, best first; empty where no word of the query is known."""
        terms = bm25s.tokenize(
            query, stopwords="en", stemmer=stemmer(), return_ids=False, show_progress=False
        )[0]
        known = [term for term in dict.fromkeys(terms) if term in self._vocabulary]
        if not known:
            return ()
        scores = self._bm25.get_scores(known)
        order = np.argsort(-scores, kind="stable")[:k]
        return tuple(self.passages[i] for i in order if scores[i] > 0)


def stemmer() -> Stemmer.Stemmer:
    """Returns this thread's English stemmer: PyStemmer objects must not be shared between threads."""
    if not hasattr(_LOCAL, "english"):
        _LOCAL.english = Stemmer.Stemmer("english")
    return _LOCAL.english
