from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.search.library import MAX_PASSAGE_CHARS, Document, Library, _chunks, built_once

LIBRARY = Library(
    [
        Document("Iceland", (("Capital", "Reykjavik"), ("Climate", "temperate; " + "windy winters; " * 80))),
        Document("Chad", (("Capital", "N'Djamena"), ("Climate", "tropical in south, desert in north"))),
        Document("Zwillinge", (("Text", "same words here"),)),
        Document("Zwilling", (("Text", "same words here"),)),
    ]
)


def test_passages_bear_their_title_and_are_short():
    assert "Chad | Capital: N'Djamena" in LIBRARY.passages
    assert max(map(len, LIBRARY.passages)) <= MAX_PASSAGE_CHARS
    assert sum(passage.startswith("Iceland | Climate: ") for passage in LIBRARY.passages) == 3


def test_the_best_passage_comes_first_and_ties_keep_their_order():
    assert LIBRARY.search("capital of Chad", 1) == ("Chad | Capital: N'Djamena",)
    assert [hit.split(" |")[0] for hit in LIBRARY.search("same words", 2)] == ["Zwillinge", "Zwilling"]


@pytest.mark.parametrize("query", ["zzzqqq", "", "the of and", "!!!", "\x00"])
def test_a_query_of_unknown_words_finds_nothing(query: str):
    """Case qa-011: arbitrary passages came back with a score of zero."""
    assert LIBRARY.search(query, 3) == ()


@given(st.text(max_size=60))
def test_any_query_gives_passages_or_none(query: str):
    assert set(LIBRARY.search(query, 3)) <= set(LIBRARY.passages)
    opened = LIBRARY.open(query)
    assert opened is None or opened.split(" | ")[0] in ("Iceland", "Chad", "Zwillinge", "Zwilling")


def test_a_document_opens_by_its_title_and_a_field_by_its_name():
    assert LIBRARY.open("chad") == "Chad | Capital: N'Djamena; Climate: tropical in south, desert in north"
    assert LIBRARY.open("Chad | capital") == "Chad | Capital: N'Djamena"
    assert LIBRARY.open("Chad | anthem") is None
    assert LIBRARY.open("Atlantis") is None


@given(st.text(alphabet="ab ", max_size=200), st.integers(5, 40))
def test_cutting_loses_only_blanks(text: str, size: int):
    parts = _chunks(text, size)
    assert all(len(part) <= size for part in parts)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")


def test_what_is_built_once_is_built_once_by_many_threads():
    calls: list[int] = []
    barrier = threading.Barrier(8)

    @built_once
    def build() -> object:
        calls.append(1)
        return object()

    found: list[object] = []

    def get() -> None:
        barrier.wait()
        found.append(build())

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), len(set(map(id, found)))) == (1, 1)
