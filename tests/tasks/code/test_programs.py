"""Function, Repair and Stdin: items that only the described program solves."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

import tasks
from tasks import splits
from tasks.code import pipelines
from tasks.code.pipelines import Pipeline
from tasks.code.programs import changed_lines
from tasks.code.stdin import PROBLEMS
from tasks.protocol import answer_turn
from tasks.spec import GradeStatus, TaskItem, ToolCall

GENERATED = ("function", "repair", "stdin")


def items(task_id: str, level: int, count: int) -> list[TaskItem]:
    return [splits.item(tasks.get(task_id), "train", 3, i, level) for i in range(count)]


@pytest.mark.parametrize("task_id", GENERATED)
def test_the_reference_is_paid_and_a_plausible_fault_is_not(task_id: str):
    spec = tasks.get(task_id)
    for level in spec.levels:
        for item in items(task_id, level, 8):
            assert spec.grade(item, spec.oracle(item)[-1]).reward == 1.0
            assert spec.grade(item, spec.careless(item, random.Random(0))[-1]).status is GradeStatus.WRONG


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_words_source_and_run_of_a_pipeline_agree(level: int):
    """The source is run by an interpreter of its own: an oracle that shares nothing with `run`."""
    rng = random.Random(level)
    drawn = [pipelines.draw(rng, level) for _ in range(40)]
    inputs = [pipelines.draw_list(rng) for _ in range(12)]
    code = "".join(
        f"{p.source(f'f{i}')}\nprint([f{i}(list(xs)) for xs in {inputs}])\n" for i, p in enumerate(drawn)
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == [repr([p.run(list(xs)) for xs in inputs]) for p in drawn]
    assert all(len(p.describe().split("; ")) == level + 1 for p in drawn)


@pytest.mark.parametrize("task_id", ["function", "repair"])
def test_hidden_tests_are_not_the_shown_ones_and_no_constant_passes(task_id: str):
    """Case code-016: hidden inputs were the visible ones."""
    for level in tasks.get(task_id).levels:
        for item in items(task_id, level, 40):
            shown = [item.meta["shown"]] if task_id == "function" else item.meta["public"]
            assert not [xs for xs in item.meta["inputs"] if xs in shown]
            assert len({repr(value) for value in item.meta["expected"]}) >= 2


def test_a_table_of_the_public_tests_is_not_paid():
    spec = tasks.get("repair")
    for item in items("repair", 1, 5):
        turn = spec.careless(item, random.Random(0))[-1]
        source = turn.removeprefix("<answer>").removesuffix("</answer>")
        assert "3 of 3 pass" in spec.tool_reply(item, ToolCall(name="run_tests", argument=source))
        assert spec.grade(item, turn).reward == 0.0


def test_the_tool_tells_of_the_public_tests_only():
    spec = tasks.get("repair")
    item = items("repair", 2, 1)[0]
    reply = spec.tool_reply(item, ToolCall(name="run_tests", argument=item.meta["faulty"]))
    assert "of 3 pass; test " in reply
    assert "8" not in reply.split("pass")[0]
    assert (
        spec.tool_reply(item, ToolCall(name="run_tests", argument=item.gold))
        == "<result>3 of 3 pass</result>"
    )
    assert "SyntaxError" in spec.tool_reply(item, ToolCall(name="run_tests", argument="def f(:"))


def test_a_repair_is_an_episode_of_several_turns():
    env = tasks.make("repair")
    env.reset(seed=0)
    item = env.get_wrapper_attr("item")
    observation, _, terminated, *_ = env.step(f"<run_tests>{item.meta['faulty']}</run_tests>")
    assert (terminated, "of 3 pass" in observation) == (False, True)
    _, reward, terminated, _, info = env.step(answer_turn(item.gold))
    assert (reward, terminated, info["grade_status"]) == (1.0, True, "correct")
    assert info["sandbox"] in ("L2", "L1")
    assert info["grade_detail"].endswith("lines changed")


def test_the_size_of_a_change_is_counted_in_lines():
    assert changed_lines("a\nb\nc", "a\nB\nc") == 1
    assert changed_lines("a\nb", "a\nb") == 0
    assert changed_lines("a", "x\ny\nz") == 3


@pytest.mark.parametrize("level", PROBLEMS)
def test_reference_programs_and_brute_force_agree(level: int):
    for item in items("stdin", level, 15):
        problem, parameters = PROBLEMS[level], item.meta["parameters"]
        for given in item.meta["inputs"]:
            child = subprocess.run(
                [sys.executable, "-I", "-S", "-c", item.gold],
                input=given,
                capture_output=True,
                text=True,
                check=True,
            )
            assert problem.check(parameters, given, child.stdout)
            right = problem.answer(parameters, given)
            assert problem.check(parameters, given, parameters["absent"] if right is None else right)


@pytest.mark.parametrize(
    ("level", "parameters", "given", "outputs"),
    [
        (
            2,
            {"relation": "sum is {k}", "k": 5, "first": 1, "absent": "-1"},
            "4\n1 4 2 3\n",
            {
                "1 2": True,
                "2 1": True,
                "3 4\n": True,
                "1 3": False,
                "-1": False,
                "1": False,
                "+1 2": False,
                "": False,
            },
        ),
        (
            2,
            {"relation": "sum is {k}", "k": 50, "first": 0, "absent": "none"},
            "2\n1 4\n",
            {"none": True, "none\n": True, "0 1": False, "": False},
        ),
        (
            3,
            {"rule": 0, "first": 1, "rules first": False, "absent": "never", "separator": "on one line"},
            "3 1\n2 1\n",
            {
                "2 1 3": True,
                "3 2 1": True,
                "2 3 1\n": True,
                "1 2 3": False,
                "2 1": False,
                "2 2 1 3": False,
                "never": False,
            },
        ),
        (
            3,
            {
                "rule": 1,
                "first": 1,
                "rules first": True,
                "absent": "never",
                "separator": "each on its own line",
            },
            "2 2\n1 2\n2 1\n",
            {"never": True, "1\n2": False, "": False},
        ),
    ],
)
def test_checkers_take_every_right_output_and_no_other(
    level: int, parameters: dict[str, Any], given: str, outputs: dict[str, bool]
):
    assert {out: PROBLEMS[level].check(parameters, given, out) for out in outputs} == outputs


def test_a_mutant_differs_in_its_source():
    rng = random.Random(1)
    for _ in range(200):
        pipeline = pipelines.draw(rng, 3)
        assert pipelines.mutate(rng, pipeline).source() != pipeline.source()
    assert Pipeline((), ("sum", 0)).run([1, 2]) == 3
