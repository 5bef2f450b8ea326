"""The first screen: the verdict in one sentence, and four cards with interval and number of seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.report.figure import Table, columns
from bench.report.material import Material
from bench.report.numbers import Number, pointer
from bench.verdict import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One figure of the first screen; `more` are lines of words and numbers below it."""

    title: str
    value: tuple[str | Number, ...]
    more: tuple[tuple[str | Number, ...], ...] = ()
    tone: str = ""
    """`good`, `warn`, `grey` or nothing: what the figure means, beside what it says."""


FINDINGS: dict[Finding, tuple[str, str]] = {
    "faster": ("good", ""),
    "slower": ("warn", ""),
    "no difference": ("grey", "no detectable difference"),
    "withheld": ("grey", "measured, not claimed: see the verdict"),
    "observation": ("grey", "an observation, not a claim"),
}
"""How a finding of the comparison looks, and what has to be said beside it."""


def cards(material: Material) -> list[Card]:
    """Time saved, accuracy, utilization and the noise floor; none without a comparison."""
    if material.document["comparison"] is None:
        return []
    return [*_time(material), _accuracy(material), _utilization(material), _noise(material)]


def arms(material: Material) -> Table:
    """Every arm on a line; the same figures as the table at the end of `bench run`."""
    found = material.document["table"]
    says = {line["arm"]: line["says"] for line in (material.document["comparison"] or {}).get("lines", ())}
    rows = []
    for place, arm in enumerate(found["arms"]):

        def n(key: str, form: str, place: int = place) -> Number:
            return Number(key=pointer("table", "arms", place, key), form=form)

        base = arm["arm"] == found["baseline"]
        known = arm["speedup_low"] is not None
        interval = (" [", n("speedup_low", "times"), ", ", n("speedup_high", "times"), "]") if known else ()
        rows.append(
            [
                arm["arm"],
                says.get(arm["arm"], "–"),
                n("t_work_s", "seconds"),
                "1 (base)" if base else (n("speedup", "times"), *interval),
                n("util_busy", "percent"),
                n("util_useful", "percent"),
                (n("staleness_mean", "number"), " / ", n("staleness_max", "count")),
                n("padding_train", "percent"),
                n("recompiles", "count"),
            ]
        )
    return Table(
        caption="Every arm, means over seeds",
        columns=columns(
            "arm", "its ratio says", "time", "speed-up [95 %]", "busy", "useful", "staleness mean / max",
            "padding in training", "recompiles", text=2,
        ),
        rows=rows,
    )  # fmt: skip


def verdict(material: Material) -> str:
    """The comparison's own sentence, or why there is none."""
    comparison = material.document["comparison"]
    if comparison is None:
        return f"No comparison: {material.document['refused']}."
    return comparison["verdict"]


def _c(*parts: str, form: str) -> Number:
    return Number(key=pointer("comparison", *parts), form=form)


def _time(material: Material) -> Iterator[Card]:
    found = material.document["comparison"]
    base, product = found["baseline"], found["product"]
    known = found["low"] is not None
    # a difference that is not claimed, whatever its size, is shown in grey with its reason
    tone, said = FINDINGS[found["finding"]]
    reason = ((said,),) if said else ()

    def interval(low: Number, high: Number) -> tuple[str | Number, ...]:
        return ("95 % interval ", low, " to ", high) if known else ("one seed: no interval",)

    seeds = (_c("seeds", form="count"), " paired seed" + "s" * (found["seeds"] != 1))
    saved = [
        Number(key=pointer("headline", end), form="percent") for end in ("time_saved_low", "time_saved_high")
    ]
    yield Card(
        title=f"Time saved, {product} against {base}",
        value=(_c("time_reduction", form="percent"),),
        more=(
            interval(saved[0], saved[1]),
            (_c("time_s", base, form="seconds"), " → ", _c("time_s", product, form="seconds")),
            *reason,
        ),
        tone=tone,
    )
    yield Card(
        title="Speed-up",
        value=(_c("speedup", form="times"),),
        more=(interval(_c("low", form="times"), _c("high", form="times")), seeds, *reason),
        tone=tone,
    )


def _accuracy(material: Material) -> Card:
    parity = material.document["comparison"]["parity_details"]
    return Card(
        title="Accuracy",
        value=(_c("parity_details", "difference", form="points"),),
        more=(
            ("parity: ", _c("parity", form="word"), ", margin ", _c("margin", form="percent")),
            ("one-sided 95 % bound ", _c("parity_details", "low", form="points")),
            (_c("parity_details", "n", form="count"), f" {parity['unit']}"),
        ),
        tone={"pass": "good", "fail": "warn"}.get(parity["verdict"], ""),
    )


def _utilization(material: Material) -> Card:
    found = material.document["comparison"]

    def pair(which: str) -> tuple[Number, str, Number]:
        base, product = (
            _c("utilization", found[arm], which, form="percent") for arm in ("baseline", "product")
        )
        return base, " → ", product

    arms = f"{found['baseline']} → {found['product']}, mean over seeds"
    return Card(title="Device busy", value=pair("busy"), more=(("useful ", *pair("useful")), (arms,)))


def _noise(material: Material) -> Card:
    """The A/A pair: the baseline against itself."""
    floor = material.document["comparison"]["noise_floor"]
    if floor is None:
        what = "An A/A pair, the baseline run twice, would tell what this machine makes out of nothing."
        return Card(title="Noise floor", value=("not measured",), more=((what,),))
    low, high = (_c("noise_floor", end, form="times") for end in ("low", "high"))
    return Card(
        title="Noise floor (A/A)",
        value=(_c("noise_floor", "speedup", form="times"),),
        more=(
            ("95 % interval ", low, " to ", high) if floor["low"] is not None else ("one pair: no interval",),
            ("the baseline against itself; ", _c("noise_floor", "n", form="count"), " pairs"),
        ),
    )
