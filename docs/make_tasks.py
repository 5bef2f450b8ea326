"""Writes docs/tasks.md from the cards: `python docs/make_tasks.py [--measure [ID…]]`.

With ``--measure`` the figures in tasks/data/cards.json are taken anew first: of the named tasks, or of all
(then with the data sets in BENCH_DATA_DIR and every optional package). Half an hour's work, for a quarter of it
is the sandbox's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tasks
from tasks import cards
from tasks.spec import TIERS

TARGET = Path(__file__).with_name("tasks.md")
HEAD = """# Tasks

Made from the tasks' cards by `python docs/make_tasks.py`; `bench tasks show ID` prints one, with an example.

Every task is a `gymnasium.Env` of text, has the splits train, dev and test (by a hash of an item's content, so
that no content is in two), and pays 1 for a right answer and 0 for anything else, unless its card says otherwise.
A grader that fails pays nothing and is counted. Any task can be given the simulated latency of remote tools:
`tasks.make(ID, latency="remote-tools")`.

Tiers say for what kind of model a level is made:

{tiers}

The baselines are what policies without skill earn on {items} items of the train split ({sandboxed} where answers are
run): *constant*, the answer that is right most often on other items; *random*, another item's right answer; *closed
book*, all of the real world known and nothing searched: where that earns 1, a model that remembers needs no search,
and Facts level 3 and MultiHop level 5 ask the same of worlds with permuted names. The oracle earns 1. *Step* is the
median time of a step of the oracle's, graders, tools and sandbox included, on one of two cores of a virtual machine
without an accelerator.
"""


def page() -> str:
    """The page's text."""
    tiers = "\n".join(f"- {tier}: {words}" for tier, words in TIERS.items())
    head = HEAD.format(tiers=tiers, items=f"{cards.ITEMS:,}", sandboxed=cards.SANDBOXED_ITEMS)
    shown = [tasks.card(task_id) for task_id in tasks.specs()]
    rows = [
        f"| [`{c['id']}`](#{anchor(c['id'])}) | {', '.join(f'`{a}`' for a in c['aliases'])} "
        f"| {c['description'].split('; ')[0]} | {' '.join(dict.fromkeys(c['tiers']))} "
        f"| {c['max_turns']} | {', '.join(c['tools']) or '–'} |"
        for c in shown
    ]
    table = ["| Task | Short | What | Tiers | Turns | Tools |", "|---|---|---|---|---|---|", *rows]
    return "\n".join([head, *table, "", *(section(c) for c in shown)]) + ADAPTED


ADAPTED = """
## Other projects' tasks

`RG/<dataset>-v0` is a dataset of [reasoning-gym](https://github.com/open-thought/reasoning-gym) (`pip install
'async-rl-bench[reasoning-gym]'`) with our seeding, splits and grading: `bench run --tasks RG/chain_sum-v0`, or with a
configuration of its own `tasks.TextEnv(ReasoningGym("chain_sum", min_digits=3))`. Upstream, neighbouring seeds share
their items, and scorers pay for part of an answer; here neither is so. Datasets without a gold answer, and those whose
scorer evaluates the text of an answer, are refused and say why (`tasks/adapters/reasoning_gym.py`).

`tasks.adapters.gem.GemEnv(make_env)` makes a Gymnasium environment of a [GEM](https://github.com/axon-rl/gem)-style
one, for rolling out; since its reward is no function of an item and a text, it is no task of a recorded run.

A task of your own is one file: `bench env new CountVowels`.
"""


def section(card: dict[str, Any]) -> str:
    """One task."""
    facts = [
        f"Short name {', '.join(f'`{a}`' for a in card['aliases'])}",
        f"version {card['version']}",
        f"licence {card['licence']}",
        f"source {card['source']}",
        f"at most {card['max_turns']} turns" if card["max_turns"] > 1 else "one turn",
        f"tools {', '.join(f'`{t}`' for t in card['tools'])}" if card["tools"] else "no tools",
        "answers are run in the sandbox" if card["sandboxed"] else "answers are not run",
        f"a constant may earn at most {card['best_constant_cap']:g}",
    ]
    head = ["", f"## {card['id']}", "", f"{card['description']}.", "", f"{'; '.join(facts)}.", ""]
    columns = ["Level", "Tier", "Constant", "Random", "Closed book", "Step, ms"]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    tiers = dict(zip(map(str, card["levels"]), card["tiers"], strict=True))
    for level, f in card["measured"].items():
        name = f"{level} (default)" if level == str(card["default_level"]) and len(tiers) > 1 else level
        book = "–" if f["closed_book"] is None else f"{f['closed_book']:.3f}"
        earns = [f"{f[key]:.3f}" for key in ("best_constant", "random_format")]
        cells = [name, tiers[level], *earns, book, f"{f['step_ms']:g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*head, *lines])


def anchor(heading: str) -> str:
    """The heading's anchor, as GitHub makes it."""
    return "".join(c for c in heading.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")


def measure(names: list[str]) -> None:
    """Takes figures anew and keeps the others."""
    found = json.loads(cards.FILE.read_text()) if cards.FILE.exists() else {}
    for task_id in names:
        spec = tasks.get(task_id)
        levels = {str(level): cards.measure(spec, level) for level in spec.levels}
        found[spec.id] = {"version": spec.version, "levels": levels}
        sys.stdout.write(f"{spec.id}\n")
        sys.stdout.flush()
    ordered = {task_id: found[task_id] for task_id in tasks.specs() if task_id in found}
    cards.FILE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2:] or list(tasks.specs()))
    TARGET.write_text(page())
    sys.stdout.write(f"{TARGET}\n")
