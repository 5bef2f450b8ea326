"""Tasks: items, graders and Gymnasium text environments. Knows nothing of trainers, models or benchmarks.

Importing this package registers every task with Gymnasium: ``gymnasium.make("Math/Add-v0")``.
"""

from tasks.aio import AsyncTextEnv
from tasks.env import CutTurn, TextEnv
from tasks.registry import UnknownTaskError, card, get, make, register_all, resolve, specs
from tasks.spec import Grade, GradeStatus, TaskItem, TaskSpec
from tasks.vector import TextVectorEnv, make_vec

register_all()

__all__ = [
    "AsyncTextEnv",
    "CutTurn",
    "Grade",
    "GradeStatus",
    "TaskItem",
    "TaskSpec",
    "TextEnv",
    "TextVectorEnv",
    "UnknownTaskError",
    "card",
    "get",
    "make",
    "make_vec",
    "resolve",
    "specs",
]
