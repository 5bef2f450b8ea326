"""All tasks by id and by short name, their cards, and their registration with Gymnasium."""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium

from tasks import cards
from tasks.adapters import reasoning_gym
from tasks.code.expr import Expr
from tasks.code.function import Function
from tasks.code.predict import Predict
from tasks.code.repair import Repair
from tasks.code.stdin import Stdin
from tasks.code.suites import CRUXEVAL, HUMANEVAL, MBPP
from tasks.data.task import DataTask
from tasks.env import TextEnv
from tasks.game.guess import GuessNumber
from tasks.latency import LatencyEnv, LatencyProfile, parse
from tasks.math.add import Add
from tasks.math.compare import Compare
from tasks.math.countdown import Countdown
from tasks.math.gsm8k import GSM8K, SVAMP
from tasks.math.lineq import LinEq
from tasks.math.modchain import ModChain
from tasks.math.symbolic import SymbolicEq
from tasks.math.wordproblem import WordProblem
from tasks.qa.facts import Facts
from tasks.qa.lookup import Lookup
from tasks.qa.multihop import MultiHop
from tasks.spec import TaskSpec

ENTRY_POINT_GROUP = "bench.tasks"
"""A third-party pack names here a function that returns its `TaskSpec` objects."""
FILES_VARIABLE = "BENCH_TASKS"
"""Paths of Python files, separated as in PATH; each has its `TaskSpec` objects in a variable ``TASKS``."""

ALIASES: dict[str, str] = {
    "math": "Math/Add-v0",
    "code": "Code/Predict-v0",
    "search": "Search/Lookup-v0",
    "add": "Math/Add-v0",
    "modchain": "Math/ModChain-v0",
    "predict": "Code/Predict-v0",
    "expr": "Code/Expr-v0",
    "function": "Code/Function-v0",
    "repair": "Code/Repair-v0",
    "stdin": "Code/Stdin-v0",
    "mbpp": "Code/MBPP-v0",
    "humaneval": "Code/HumanEval-v0",
    "cruxeval": "Code/CRUXEval-v0",
    "lookup": "Search/Lookup-v0",
    "facts": "Search/Facts-v0",
    "multihop": "Search/MultiHop-v0",
    "gsm8k": "Math/GSM8K-v0",
    "svamp": "Math/SVAMP-v0",
    "compare": "Math/Compare-v0",
    "lineq": "Math/LinEq-v0",
    "wordproblem": "Math/WordProblem-v0",
    "countdown": "Math/Countdown-v0",
    "symbolic": "Math/SymbolicEq-v0",
    "guess": "Game/GuessNumber-v0",
}
DEFAULT_TRIO = ("math", "code", "search")


class UnknownTaskError(LookupError):
    """No task has this id or short name; the message offers the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class TaskFileError(ValueError):
    """A file of tasks that can't be used; says which and why."""


@functools.cache
def specs() -> dict[str, TaskSpec]:
    """Returns every task by id: the built-in ones and those of installed packs."""
    found: dict[str, TaskSpec] = {spec.id: spec for spec in _built_in()}
    for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        for spec in entry.load()():
            if spec.id in found:
                raise ValueError(f"Task pack '{entry.name}' defines '{spec.id}', which exists already.")
            found[spec.id] = spec
    for file in filter(None, os.environ.get(FILES_VARIABLE, "").split(os.pathsep)):
        for spec in _from_file(Path(file)):
            if spec.id in found:
                raise TaskFileError(f"{file} defines '{spec.id}', which exists already; give it another id.")
            found[spec.id] = spec
    return found


def use_file(file: str) -> TaskSpec:
    """Adds the tasks of a Python file for this process and its children; returns the first.

    Raises:
      TaskFileError: the file can't be used; says why.
    """
    path = str(Path(file).resolve())
    files = [one for one in os.environ.get(FILES_VARIABLE, "").split(os.pathsep) if one]
    spec = _from_file(Path(path))[0]
    if path not in files:
        os.environ[FILES_VARIABLE] = os.pathsep.join([*files, path])
        specs.cache_clear()
        register_all()
    return specs()[spec.id]


@functools.cache
def _from_file(file: Path) -> tuple[TaskSpec, ...]:
    if not file.is_file():
        raise TaskFileError(f"{file} is not there; a task that ends in .py is a file of tasks.")
    name = f"bench_tasks_{file.stem}"
    loader = importlib.util.spec_from_file_location(name, file)
    assert loader is not None and loader.loader is not None
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        loader.loader.exec_module(module)
    except Exception as error:
        raise TaskFileError(f"{file} can't be imported: {type(error).__name__}: {error}") from error
    found: tuple[TaskSpec, ...] = tuple(getattr(module, "TASKS", ()))
    if not found or any(not isinstance(spec, TaskSpec) for spec in found):
        raise TaskFileError(f"{file} has no TASKS = (MyTask(), …) of TaskSpec objects.")
    return found


def resolve(task_id: str) -> str:
    """Returns the full id for an id, a short name, or a Python file of tasks.

    Raises:
      UnknownTaskError: with the nearest names, or why a dataset of reasoning-gym is no task.
      TaskFileError: the file can't be used.
      DataMissingError: it is a dataset of reasoning-gym, which is not installed.
    """
    return _find(task_id).id


def get(task_id: str, *, data: str | None = None) -> TaskSpec:
    """Returns a task by id or short name; `data` says where a data-set task reads from."""
    spec = _find(task_id)
    if data is None:
        return spec
    if not isinstance(spec, DataTask):
        raise ValueError(f"Task '{spec.id}' generates its items; it reads no data from {data!r}.")
    return spec.reading_from(data)


def make(
    task_id: str, latency: str | LatencyProfile | None = None, *, data: str | None = None, **options: Any
) -> gymnasium.Env[str, str]:
    """Builds the environment of a task; options are those of `TextEnv`."""
    env = TextEnv(get(task_id, data=data), **options)
    profile = parse(latency) if isinstance(latency, str) else latency
    return LatencyEnv(env, profile) if profile is not None and profile.simulated else env


def card(task_id: str) -> dict[str, Any]:
    """Returns what there is to know about a task, as plain values."""
    spec = get(task_id)
    aliases = [alias for alias, full in ALIASES.items() if full == spec.id]
    return cards.declared(spec) | {"aliases": aliases, "measured": cards.measured(spec)}


def register_all() -> None:
    """Registers every id with Gymnasium; called once by ``import tasks``."""
    for spec in specs().values():
        _register(spec.id)


def _register(task_id: str) -> None:
    if task_id not in gymnasium.registry:
        gymnasium.register(
            task_id,
            entry_point="tasks.registry:make",
            vector_entry_point="tasks.vector:make_vec",
            kwargs={"task_id": task_id},
        )


def _find(task_id: str) -> TaskSpec:
    if task_id.endswith(".py"):
        return use_file(task_id)
    if task_id.startswith(reasoning_gym.PREFIX):
        return _adapted(task_id)
    full = ALIASES.get(task_id, task_id)
    if full in specs():
        return specs()[full]
    names = [*specs(), *ALIASES]
    by_folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(task_id.casefold(), by_folded, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(by_folded[n]) for n in near)}?" if near else ""
    raise UnknownTaskError(f"Task {task_id!r} not found.{hint} 'bench tasks list' shows all.")


def _adapted(task_id: str) -> TaskSpec:
    """A dataset of reasoning-gym: there are a hundred, so each is opened and registered when it is first named."""
    try:
        spec = reasoning_gym.spec(task_id)
    except ValueError as error:
        raise UnknownTaskError(str(error)) from error
    _register(spec.id)
    return spec


def _built_in() -> tuple[TaskSpec, ...]:
    return (
        Add(),
        ModChain(),
        Compare(),
        LinEq(),
        WordProblem(),
        Countdown(),
        SymbolicEq(),
        GSM8K,
        SVAMP,
        Predict(),
        Expr(),
        Function(),
        Repair(),
        Stdin(),
        MBPP,
        HUMANEVAL,
        CRUXEVAL,
        Lookup(),
        Facts(),
        MultiHop(),
        GuessNumber(),
    )
