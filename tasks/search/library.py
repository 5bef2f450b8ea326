"""A library: documents with titles, searched by passage and opened by title."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tasks.search.index import Bm25Index
from tasks.verify.qa import normalise

MAX_PASSAGE_CHARS = 512

_T = TypeVar("_T")


def built_once(build: Callable[[], _T]) -> Callable[[], _T]:
    """Caches a costly function without arguments; threads that come meanwhile wait, and do not build too."""
    lock, built = threading.Lock(), []

    @functools.wraps(build)
    def get() -> _T:
        with lock:
            if not built:
                built.append(build())
            return built[0]

    return get


@dataclass(frozen=True, slots=True)
class Document:
    """A title, and fields of it: (name, text) in their order."""

    title: str
    fields: tuple[tuple[str, str], ...]


class Library:
    """Documents behind two tools. Read-only once built, so all threads may share one."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = tuple(documents)
        self._by_title = {normalise(document.title): document for document in self.documents}
        passages = [
            f"{document.title} | {name}: {part}"
            for document in self.documents
            for name, text in document.fields
            for part in _chunks(text, MAX_PASSAGE_CHARS - len(document.title) - len(name) - 5)
        ]
        self._index = Bm25Index(passages)

    @property
    def passages(self) -> tuple[str, ...]:
        """Everything that can be found, each at most `MAX_PASSAGE_CHARS` long and headed by its title."""
        return self._index.passages

    def search(self, query: str, k: int) -> tuple[str, ...]:
        """Returns up to `k` passages, best first; none where no word of the query is known."""
        return self._index.search(query, k)

    def open(self, name: str) -> str | None:
        """Returns a document's text, or one field's of it: ``Iceland`` or ``Iceland | Capital``."""
        title, _, field = name.partition("|")
        document = self._by_title.get(normalise(title))
        if document is None:
            return None
        wanted = normalise(field)
        lines = [
            f"{name}: {text}" for name, text in document.fields if not wanted or normalise(name) == wanted
        ]
        return f"{document.title} | " + "; ".join(lines) if lines else None


def _chunks(text: str, size: int) -> list[str]:
    """Cuts a text between words into parts of at most `size` characters."""
    parts: list[str] = []
    rest = text
    while len(rest) > size:
        cut = rest.rfind(" ", size // 2, size + 1)
        cut = size if cut < 0 else cut
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*parts, rest] if rest else parts
