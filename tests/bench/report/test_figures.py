"""The fifteen figures: what they show is what the metrics say, and what a record lacks is said in a sentence."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.report import across, headline, render
from bench.report.figure import Figure
from bench.report.figures import all_figures
from bench.report.figures.device import over_time, representative
from bench.report.material import Material, gather, mean_of_trees
from bench.report.numbers import Number, written
from bench.report.targets import targets
from leaderboard import metrics
from leaderboard.metrics.work import NS, work_window
from leaderboard.records import ArmView
from tests.leaderboard import golden

KEYS = [
    "accuracy", "ratios", "seeds", "timeline", "breakdown", "utilization", "staleness", "ledger", "padding",
    "fairness", "frontier", "scaling", "profile", "environment",
]  # fmt: skip


@pytest.fixture(scope="session")
def figures(material: Material) -> dict[str, Figure]:
    return {figure.key: figure for figure in all_figures(material)}


def test_there_are_fourteen_below_the_headline_each_with_data_or_a_sentence(
    figures: dict[str, Figure],
) -> None:
    assert sorted(figures) == sorted(KEYS)
    for figure in figures.values():
        assert bool(figure.absent) != bool(figure.drawings or figure.tables), figure.key
    assert {key for key, figure in figures.items() if figure.absent} == {"fairness", "frontier", "scaling"}


def test_what_is_absent_names_the_command_that_makes_it(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert not figure.absent or re.search(
            r"`bench (run|study) --?\w", figure.absent.replace("tenants ", "")
        )


def test_every_drawing_has_a_title_and_says_in_words_what_it_shows(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        for drawing in figure.drawings:
            assert drawing.title and len(drawing.about) > 8, figure.key


def test_every_number_of_every_table_is_in_the_document(
    material: Material, figures: dict[str, Figure]
) -> None:
    for figure in figures.values():
        for table in figure.tables:
            for row in table.rows:
                assert len(row) == len(table.columns), table.caption
                numbers = [part for part in row if isinstance(part, Number)]
                assert all(written(material.document, number) for number in numbers)


def test_shares_of_the_utilization_figure_average_to_the_metrics(material: Material) -> None:
    for view in material.views:
        found = metrics.compute(view)
        shares = over_time(view, view.devices[0])
        assert sum(busy for busy, _ in shares) / len(shares) == pytest.approx(found["util_busy"], abs=1e-6)
        assert sum(useful for _, useful in shares) / len(shares) == pytest.approx(
            found["util_useful"], abs=1e-6
        )


def test_the_representative_stretch_is_as_busy_as_the_whole(material: Material) -> None:
    view = material.views[0]
    start, stop = work_window(view)
    assert representative(view) == (start, stop)  # the made-up run takes less than a minute
    low, high = representative(view, (stop - start) // 4)
    assert start <= low < high <= stop and high - low == (stop - start) // 4
    whole = metrics.compute(view)["util_busy"]
    busy = sum(max(0, min(s.t1_ns, high) - max(s.t0_ns, low)) for s in view.spans) / (high - low)
    assert busy == pytest.approx(whole, abs=0.15)


def test_means_are_taken_where_all_have_a_number() -> None:
    assert mean_of_trees([{"a": 1, "b": {"c": 2.0}}, {"a": 3, "b": {"c": None}}]) == {
        "a": 2,
        "b": {"c": None},
    }


def test_slowdown_and_jain_by_hand(material: Material) -> None:
    """Alone 2 s and 4 s one after another; together both end at 6 s: slowed 3 and 1.5 times."""
    first = material.views[0]
    tenants = first.tenants[:2]

    def view(arm: str, starts: tuple[int, int], ends: tuple[int, int]) -> ArmView:
        rollouts = tuple(
            next(r for r in first.rollouts if r.tenant == tenant).model_copy(update={"t_start_ns": at * NS})
            for tenant, at in zip(tenants, starts, strict=True)
        )
        updates = tuple(
            next(u for u in first.updates if u.tenant == tenant).model_copy(update={"t1_ns": at * NS})
            for tenant, at in zip(tenants, ends, strict=True)
        )
        about: dict[str, Any] = {
            "arm": arm,
            "seed": 0,
            "devices": ("cpu:0",),
            "start_ns": 0,
            "stop_ns": 9 * NS,
        }
        return ArmView(**about, events=(), spans=(), rollouts=rollouts, updates=updates, evals=())

    found = across.fairness([view("S0", (0, 2), (2, 6)), view("A1", (0, 0), (6, 6))])
    assert found == {
        "A1": {
            "slowdown": {tenants[0]: 3.0, tenants[1]: 1.5},
            "worst": 3.0,
            "mean": 2.25,
            "jain": pytest.approx((1 / 3 + 2 / 3) ** 2 / (2 * (1 / 9 + 4 / 9))),
        }
    }


def test_the_frontier_takes_runs_that_differ_in_the_staleness_limit_alone(tmp_path: Path) -> None:
    places = []
    first = golden.build(tmp_path / "k1", seeds=(1, 2))
    for limit, rate in ((1, 0.003), (2, 0.003), (4, 0.003), (8, 0.5)):
        place = tmp_path / f"k{limit}"
        if place != first:
            shutil.copytree(first, place)
        golden.edit_header(
            place, lambda h, n=limit, r=rate: h["config"].update(max_staleness=n, learning_rate=r)
        )
        golden.recompute(place)
        places.append(place)
    material = gather(*places)
    frontier = next(figure for figure in all_figures(material) if figure.key == "frontier")
    assert [row["same_work"] for row in material.document["beside"]] == [True, True, True, False]
    assert len(frontier.drawings) == 3 and [row[0] for row in frontier.tables[0].rows] == ["k1", "k2", "k4"]
    # one page of all that the formats must agree on
    page, text = (render(places, form).decode() for form in ("html", "md"))
    document = json.loads(page.split('id="document">', 1)[1].split("</script>", 1)[0])
    assert document["beside"] == json.loads(json.dumps(material.document["beside"]))
    speed = f"{document['beside'][1]['speedup']:.2f}×"
    assert f">{speed}</span>" in page and f"| {speed} |" in text


def curve(*accuracies: float) -> dict[str, Any]:
    points = [{"t_s": 10.0 * k, "accuracy": a, "n": 100, "eval_id": k} for k, a in enumerate(accuracies)]
    return {"accuracy": {"t": {"curve": points}}}


def test_when_the_baselines_level_was_reached_is_an_interval_between_evaluations() -> None:
    """S1 ends at 0.80, less 0.02: 0.78. A1 passes at 20 s, falls back, and holds from 40 s on."""
    runs = [
        {"arm": "S1", "seed": 0, "metrics": curve(0.2, 0.5, 0.7, 0.75, 0.79, 0.80)},
        {"arm": "A1", "seed": 0, "metrics": curve(0.2, 0.5, 0.79, 0.70, 0.80, 0.82)},
        {"arm": "A0", "seed": 0, "metrics": curve(0.2, 0.3, 0.4, 0.5, 0.6, 0.7)},
    ]
    found = targets(runs, "S1", 0.02)["t"]
    assert found["target"] == pytest.approx(0.78)
    assert found["arms"]["A1"]["crossings"] == [{"seed": 0, "low_s": 30.0, "high_s": 40.0}]
    assert found["arms"]["A0"]["reached"] == 0
    assert found["arms"]["A0"]["crossings"] == [{"seed": 0, "low_s": None, "high_s": None}]


def test_a_tenant_that_hardly_learns_or_is_scored_once_has_no_level_to_reach() -> None:
    for hardly in (curve(0.30, 0.31, 0.32), curve(0.2, 0.9)):
        assert targets([{"arm": "S1", "seed": 0, "metrics": hardly}], "S1", 0.02) == {}


def test_all_that_the_headline_says_of_an_arm_stands_in_one_line(material: Material) -> None:
    table = headline.arms(material)
    assert [row[0] for row in table.rows] == ["S1", "A1"]
    assert table.rows[0][3] == "1 (base)"
    speed = material.document["comparison"]["speedup"]
    shown = "".join(p if isinstance(p, str) else written(material.document, p) for p in table.rows[1][3])
    assert shown.startswith(f"{speed:.2f}× [")
