r"""The strict verifier of mathematical answers, by the faults that other verifiers were reported for."""

from __future__ import annotations

import threading
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.spec import GradeStatus
from tasks.verify import answers
from tasks.verify.answers import AnswerRule, GoldError, grade_math, read_gold, verify
from tasks.verify.worker import WorkerFailure, WorkerPool, WorkerTimeout

CORRECT, WRONG, MALFORMED = GradeStatus.CORRECT, GradeStatus.WRONG, GradeStatus.MALFORMED


def paid(gold: str, text: str, **options: Any) -> bool:
    return grade_math(text, gold, **options).reward == 1.0


def box(text: str) -> str:
    return rf"\boxed{{{text}}}"


@pytest.mark.parametrize(
    ("case", "gold", "text", "correct"),
    [
        ("math-001", r"\frac{1}{2004!}", r"\boxed{\frac{1}{2006!}}", False),
        ("math-002", r"\frac{1}{2^{99}}", r"\boxed{\frac{1}{2^{98}}}", False),
        ("math-004", "1:2:3:4", r"$1:4:9:\ldots$", False),
        ("math-004 boxed", "1:2:3:4", r"\boxed{1:2:3:\ldots}", False),
        ("math-006", r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", r"\boxed{\frac{1}{3 \cdot 2^{2006}}}", False),
        ("math-006 yes", r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", r"\boxed{\frac{2^{2006}+2}{3 \cdot 2^{2007}}}", True),
        ("math-008", "4", r"$4\sqrt(2)$", False),
        ("math-008 boxed", "4", r"\boxed{4\sqrt(2)}", False),
        ("math-011", "34x+45y-20z+100=0", r"\boxed{-34x-45y+20z-100=0}", True),
        ("math-014", "5", r"\boxed{} final 5", False),
        ("math-015", "72", "Natalia sold 48 clips in April, 24 in May, 72 altogether I guess", False),
        ("math-016", "18", r"\boxed{17 = 18}", False),
        ("math-016 chain", "3", r"\boxed{1 = 2 = 3}", False),
        ("math-017", "5050", r"\boxed{\sum_{k=1}^{100} k}", False),
        ("math-017 sum", "7", r"\boxed{3+4}", False),
        ("math-019", "3", r"\boxed{1,2,3,4,5}", False),
        ("math-020", r"\{1,2\}", r"\boxed{1} \boxed{2}", False),
        ("math-020 set", r"\{1,2\}", r"\boxed{\{2,1\}}", True),
        ("math-023", "12", r"\boxed{１２}", True),
        ("math-023 half", r"\frac12", r"\boxed{½}", True),
        ("math-027", "4", r"Mark your solution with \boxed . The answer is 4.", False),
        ("math-028", "12", r"\fbox{12}", True),
        ("dollars", "18", r"\boxed{18 dollars}", True),
        ("dollar sign", "29", r"\boxed{\$29.00}", True),
        ("dollar sign first", "-10", r"\boxed{\$-10}", True),
        ("two signs", "10", r"\boxed{-\$-10}", False),
        ("mixed number", r"\frac{7}{2}", r"\boxed{3 1/2}", True),
        ("thin thousands", "1000", r"\boxed{1 000}", True),
        ("thousands", "70000", r"\boxed{70,000}", True),
        ("minus sign", "-3", r"\boxed{−3}", True),
        ("last of two", "42", r"\boxed{41} and \boxed{42}", True),
        ("truncated", "42", r"\boxed{42", False),
        ("empty last", "42", r"\boxed{42} \boxed{}", False),
    ],
)  # fmt: skip
def test_reported_cases(case: str, gold: str, text: str, correct: bool):
    assert paid(gold, text) is correct


def test_what_was_counted_may_follow_as_text_unless_it_changes_the_worth():
    for right in (r"100\text{ apples}", r"100 \text{students}.", r"1,250 \mathrm{eggs}"):
        assert paid(right.split("\\")[0].strip().replace(",", ""), box(right))
    for wrong in (
        r"100\text{ millions}",
        r"100\text{ tenths}",
        r"100\text{ or less}",
        r"100\text{ apples}+1",
        r"100\text{ apples} 7",
        r"100 apples",
    ):
        assert not paid("100", box(wrong)), wrong
    assert not paid("100x", box(r"100x\text{ apples}"))


def test_percent_has_one_worth():
    """Case math-018."""
    assert not paid("50", box(r"50\%"))
    assert paid("0.5", box(r"50\%"))
    points = AnswerRule(percent="points")
    assert paid("50", box(r"50\%"), rule=points)
    assert not paid("0.5", box(r"50\%"), rule=points)


def test_grading_works_off_the_main_thread():
    """Case math-024."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(paid("1", box("1"))))
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.parametrize(
    "text",
    [
        "999999999!/999999999!",
        "9^9^9^9",
        "(1+x)^{99999}",
        "((((((2^{64})^{64})^{64})^{64})^{64})^{64})",
        "1/0",
    ],
)
def test_costly_answers_are_refused_and_never_paid(text: str):
    """Case math-025: the right bound is on work, so every machine refuses the same answers."""
    started = time.monotonic()
    grade = grade_math(box(text), "1")
    assert grade.reward == 0.0
    assert grade.status in (GradeStatus.GRADER_TIMEOUT, MALFORMED)
    assert time.monotonic() - started < 30  # a hang, not a speed


@pytest.mark.parametrize(
    ("style", "text", "status"),
    [
        ("line", "The answer is 72, in total", GradeStatus.NO_ANSWER),
        (
            "line",
            "... #### 18\n\nQuestion: A farmer has 5 hens...\nAnswer: 5 - 2 = 3\n#### 3",
            CORRECT,
        ),  # gsm-006
        ("line", "#### 18.", CORRECT),  # gsm-007
        ("line", "#### 18.00", CORRECT),
        ("line", "#### $18", CORRECT),
        ("line", "####18", CORRECT),
        ("answer", "<answer>18</answer>", CORRECT),
        ("answer", "<answer>18</answer><answer>18</answer>", GradeStatus.MULTIPLE),
        ("answer", "18", GradeStatus.NO_ANSWER),
        ("boxed", "<think>\\boxed{18}</think>", GradeStatus.NO_ANSWER),
        ("boxed", "<think>\\boxed{17}</think> \\boxed{18}", CORRECT),
        ("boxed", "<think>\\boxed{18}", GradeStatus.NO_ANSWER),
    ],
)
def test_every_protocol_reads_one_answer_or_says_why_not(style: Any, text: str, status: GradeStatus):
    assert grade_math(text, "18", style=style).status is status


@pytest.mark.parametrize(
    ("gold", "answer", "status"),
    [
        ("0.5", "1/2", CORRECT),
        ("1/3", "0.333", WRONG),
        ("0.1", "0.10", CORRECT),
        ("(1,2)", "(2,1)", WRONG),
        ("(1,2)", "(1, 2)", CORRECT),
        ("(1,2)", "[1,2]", WRONG),
        ("[0,1)", "[0, 1)", CORRECT),
        ("[0,1)", "[0,1]", WRONG),
        ("1,2", "2, 1", CORRECT),
        ("1,2", "1,2,3", WRONG),
        ("1,2", "1", WRONG),
        ("x=5", "5", CORRECT),
        ("5", "x=5", CORRECT),
        ("x=5", "y=5", WRONG),
        ("x=5", "2x=10", WRONG),
        ("x^2-1", "(x-1)(x+1)", CORRECT),
        ("x^2-1", "(x-1)(x+2)", WRONG),
        ("\\frac{x}{2}", "0.5x", CORRECT),
        ("\\sqrt{8}", "2\\sqrt{2}", CORRECT),
        ("\\sqrt{8}", "2.828427", WRONG),
        ("\\sin^2 x + \\cos^2 x", "1", CORRECT),
        ("2\\sin x\\cos x", "\\sin(2x)", CORRECT),
        ("\\pi", "3.14159", WRONG),
        ("x<3", "3>x", CORRECT),
        ("x<3", "x>3", WRONG),
        ("5 km", "5 m", WRONG),
        ("5 km", "5", CORRECT),
        ("5", "five", MALFORMED),
        ("5", "5 or 6", WRONG),
        ("5", "5!", MALFORMED),
        ("5", "", MALFORMED),
    ],
)
def test_values_are_compared_by_type(gold: str, answer: str, status: GradeStatus):
    verdict = verify(answer, gold)
    assert verdict.status is status, verdict


def test_a_tolerance_is_relative_and_declared():
    assert verify("3.1416", "3.14159", AnswerRule(rel_tol=Fraction(1, 1000))).status is CORRECT
    assert verify("3.2", "3.14159", AnswerRule(rel_tol=Fraction(1, 1000))).status is WRONG
    assert verify("1e-300", "0", AnswerRule(rel_tol=Fraction(1, 1000))).status is not CORRECT


def test_an_asked_shape_is_held():
    expanded, factored = AnswerRule(shape="expanded"), AnswerRule(shape="factored")
    assert verify("x^2+3x+2", "x^2+3x+2", expanded).status is CORRECT
    assert verify("(x+1)(x+2)", "x^2+3x+2", expanded).status is WRONG
    assert verify("(x+2)(x+1)", "(x+1)(x+2)", factored).status is CORRECT
    assert verify("x^2+3x+2", "(x+1)(x+2)", factored).status is WRONG


def test_an_antiderivative_may_have_any_constant():
    rule = AnswerRule(constant_apart="x")
    for answer in ("x^2", "x^2+7", "x^2+C", "C+x^2"):
        assert verify(answer, "x^2", rule).status is CORRECT, answer
    assert verify("x^2+x", "x^2", rule).status is WRONG
    assert verify("2x", "x^2", rule).status is WRONG


def test_a_gold_that_is_no_answer_is_the_datas_fault():
    with pytest.raises(GoldError, match="unusable"):
        read_gold("1:2:\\ldots")
    grade = grade_math(box("1"), "1:2:\\ldots")
    assert (grade.reward, grade.status) == (0.0, GradeStatus.GRADER_ERROR)


NUMBERS = st.integers(-(10**12), 10**12) | st.fractions(max_denominator=999)
MARKS = (*r"0123456789+-*/^().,:=<>!{}[]%$xyz \ ", r"\frac", r"\sqrt", r"\boxed{", "}", r"\sin", "\n")
PIECES = st.lists(st.sampled_from(MARKS), max_size=24).map("".join)
AROUND = ("{} ok", "about {}", "{} {}", "{} or 7.5", "not {}", "{}=1", "{{{}}},8", "?{}")
GOLDS = ("3", "x+1", r"\{1,2\}", "(1,2)", "[0,1)", "x=2", "2:3", "x<4")


@given(NUMBERS)
def test_a_number_is_equal_to_itself_and_no_other(value: int | Fraction):
    assert paid(str(value), box(str(value)))
    assert not paid(str(value), box(str(value + 1)))
    assert not paid(str(value + 1), box(str(value)))


@given(NUMBERS, st.sampled_from(AROUND))
def test_junk_around_an_answer_is_not_paid(value: int | Fraction, around: str):
    assert not paid(str(value), box(around.format(value, value)))


@given(st.lists(NUMBERS, min_size=2, max_size=6, unique=True))
def test_all_answers_at_once_are_no_answer(values: list[int | Fraction]):
    gold = str(values[0])
    assert not paid(gold, box(", ".join(map(str, values))))
    assert not paid(gold, "".join(f"<answer>{value}</answer>" for value in values), style="answer")


@settings(max_examples=300, deadline=None)
@given(PIECES | st.text(max_size=40), st.sampled_from(GOLDS))
def test_grading_is_total_and_pays_zero_or_one(text: str, gold: str):
    turns = ((text, "boxed"), (box(text), "boxed"), (f"<answer>{text}</answer>", "answer"), (text, "line"))
    for written, style in turns:
        grade = grade_math(written, gold, style=style)  # type: ignore[arg-type]
        assert grade.reward == (1.0 if grade.status is CORRECT else 0.0)
    assert not paid(gold, "")


# the killable process -----------------------------------------------------------------------------------


def test_a_worker_that_hangs_is_killed_and_the_next_request_is_answered(tmp_path: Any):
    """Case math-025: a hung comparison tied up the pool."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, sys, time\nprint(json.dumps({'value': 'ready'}), flush=True)\n"
        "for line in sys.stdin:\n    request = json.loads(line)\n"
        "    time.sleep(60) if request['kind'] == 'hang' else None\n"
        "    sys.exit(3) if request['kind'] == 'die' else None\n"
        "    print(json.dumps({'value': request['kind']}), flush=True)\n"
    )
    pool = WorkerPool(script, size=1)
    assert pool.call({"kind": "a"}, timeout_s=20) == "a"
    before = pool.pids
    with pytest.raises(WorkerTimeout):
        pool.call({"kind": "hang"}, timeout_s=0.2)
    assert not pool.pids & before
    assert pool.call({"kind": "b"}, timeout_s=20) == "b"
    with pytest.raises(WorkerFailure):
        pool.call({"kind": "die"}, timeout_s=20)
    assert pool.call({"kind": "c"}, timeout_s=20) == "c"
    pool.close()
    assert not pool.pids


def test_what_no_form_decides_is_left_to_the_worker(monkeypatch: pytest.MonkeyPatch):
    def undecided(*args: Any, **kwargs: Any) -> None:
        return None

    monkeypatch.setattr(answers.numeric, "agree", undecided)
    monkeypatch.setattr(answers.POOL, "call", lambda request, timeout_s: True)
    assert verify(r"\sin(2x)", r"2\sin x\cos x").status is CORRECT

    def hung(request: Any, timeout_s: float) -> None:
        raise WorkerTimeout("2 s")

    monkeypatch.setattr(answers.POOL, "call", hung)
    verdict = verify(r"\sin(2x)", r"2\sin x\cos x")
    assert verdict.status is GradeStatus.GRADER_TIMEOUT
