"""Tasks: items, graders and Gymnasium text environments. Knows nothing of trainers, models or benchmarks.

Importing this package registers every task with Gymnasium: ``gymnasium.make("Math/Add-v0")``.
"""

from tasks.env import TextEnv
from tasks.registry import UnknownTaskError, card, get, make, register_all, resolve, specs
from tasks.spec import Grade, GradeStatus, TaskItem, TaskSpec

register_all()

__all__ = [
    "Grade",
    "GradeStatus",
    "TaskItem",
    "TaskSpec",
    "TextEnv",
    "UnknownTaskError",
    "card",
    "get",
    "make",
    "resolve",
    "specs",
]
