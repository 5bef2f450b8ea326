"""`bench reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.commands.run import config_from, start
from bench.compare import Comparison, compare
from bench.compose import devices
from bench.config import Resolved
from bench.errors import Exit, RejectedError, UsageError
from bench.output import note
from bench.places import unpacked
from bench.reproduce import accuracies, judge
from leaderboard.records import RunRecord
from leaderboard.rounds import Round
from leaderboard.verify import verify


def reproduce_command(
    run: Path, nonce: str, seeds: int, out: Path | None, data: str | None, *, quiet: bool
) -> tuple[dict[str, Any], str, int]:
    """Runs a record's configuration again, with seeds that follow from a nonce; exit 3 unless it is reproduced.

    Raises:
      RejectedError: the record is refused, or its arms can't be compared: it claims nothing.
      UsageError: it can't be run again here, or the nonce gives seeds that it has.
    """
    with unpacked(run) as directory:
        report = verify(directory, data=data)
        if not report.ok:
            raise RejectedError(
                f"{run} is refused: {report.errors[0]}", f"'bench verify {run}' lists everything"
            )
        published = compare(directory, sealed=True)
        resolved = _with_own_seeds(directory, nonce, seeds, out, data)
    if published.low is None:
        raise UsageError(
            f"{run} has one seed: it claims nothing that could be reproduced", "name one with more"
        )
    value, text, code = start(resolved, quiet=quiet)
    if code != Exit.OK:
        return value, text, code
    own = compare(Path(value["run"]), baseline=published.baseline, product=published.product, sealed=True)
    return _judged(run, nonce, published, own, value["run"], text)


def _judged(
    run: Path, nonce: str, published: Comparison, own: Comparison, place: str, text: str
) -> tuple[dict[str, Any], str, int]:
    found = judge(published.ratio, own.ratio)
    # a flag says that the machine or the record is odd: such a run neither holds nor refutes
    verdict = "undecided" if own.flags else found.verdict
    scores = accuracies(published, own)
    lines = [text, "", f"{run}: {found.sentence}"]
    lines += [f"flagged, so undecided: {flag.code} {flag.reason}" for flag in own.flags]
    lines += [
        f"accuracy {tenant}: {_percent(pair['own'])} here, published {_percent(pair['published'])}"
        for tenant, pair in scores.items()
    ]
    value = {
        "ok": verdict == "reproduced",
        "tier": "T3" if verdict == "reproduced" else None,
        "verdict": verdict,
        "nonce": nonce,
        "run": str(run),
        "own_run": place,
        "ratio": found.as_dict(),
        "accuracy": scores,
        "flags": [f"{flag.code} {flag.reason}" for flag in own.flags],
    }
    return value, "\n".join(lines), Exit.OK if value["ok"] else Exit.REJECTED


def _with_own_seeds(directory: Path, nonce: str, seeds: int, out: Path | None, data: str | None) -> Resolved:
    """The configuration of a record with other seeds, checked to be of this hardware."""
    header = RunRecord.open(directory).header
    _, here = devices()
    if here != header.device_class:
        what = f"the record is of device class {header.device_class}, this machine is {here}"
        raise UsageError(what, "reproduce it on hardware of its class")
    first = Round(name="nonce", nonce=nonce).seed
    theirs = int(header.config["seed"])
    if first < theirs + len(header.seeds) and theirs < first + seeds:
        raise UsageError(f"nonce {nonce!r} gives seeds that the record has", "take another")
    changes = {"seed": first, "seeds": seeds, "out": None if out is None else str(out), "tracker": "none",
               "require_tracker": False, "max_time": None, "data": data}  # fmt: skip
    raw = header.model_dump(mode="json", by_alias=True)
    note(f"seeds {first} to {first + seeds - 1}, of nonce {nonce!r}")
    return Resolved(config=config_from(raw, changes), set_by=dict(raw["set_by"]))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
