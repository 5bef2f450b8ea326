"""The one place where figures are named: unit, formula and population of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure of one (arm, seed) unless its population says otherwise."""

    name: str
    title: str
    unit: str
    formula: str
    population: str
    better: str = ""
    """'higher', 'lower' or '' where neither is."""


_WORK = "[run_start, last commit]"

_ALL = (
    Metric(
        name="t_work",
        title="Time to do the work",
        unit="s",
        formula="last update's t1 - run_start",
        population="all updates of all tenants",
        better="lower",
    ),
    Metric(
        name="t_total",
        title="Clock",
        unit="s",
        formula="run_stop - run_start",
        population="whole run, evaluation included",
        better="lower",
    ),
    Metric(
        name="tenant_completion",
        title="Tenants' completion",
        unit="s",
        formula="per tenant: last t1 - run_start; mean, p95 and each",
        population="updates by tenant",
        better="lower",
    ),
    Metric(
        name="util_busy",
        title="Utilization, busy",
        unit="0-1",
        formula="sum over devices of |union of spans in W, eval left out| / (devices * |W|)",
        population=f"spans of roles prefill, decode, train, sync; W = {_WORK}",
        better="higher",
    ),
    Metric(
        name="util_useful",
        title="Utilization, useful",
        unit="0-1",
        formula="as util_busy, each instant weighted by real_tokens/executed_slots of the span that owns it; "
        "sampling spans also by goodput",
        population=f"spans in {_WORK}",
        better="higher",
    ),
    Metric(
        name="util_by_role",
        title="Utilization by role",
        unit="0-1",
        formula="as util_busy, each instant given to one role (train, sync, decode, prefill, then eval)",
        population=f"spans in {_WORK}; without eval they add up to util_busy",
    ),
    Metric(
        name="exposed",
        title="Where the learner's time goes",
        unit="0-1",
        formula="each instant of W: train if training, else sync, else eval, else generation if an "
        "episode is open, else other; adds up to 1",
        population=f"spans of all devices and rollouts in {_WORK}",
    ),
    Metric(
        name="padding_waste",
        title="Padding",
        unit="0-1",
        formula="1 - sum real_tokens / sum executed_slots, by role",
        population=f"spans that start in {_WORK}",
        better="lower",
    ),
    Metric(
        name="staleness",
        title="Staleness",
        unit="optimizer updates",
        formula="learner version at consumption - version that sampled the token; mean, p50, p95, max, "
        "histogram",
        population="sampled tokens of consumed rollouts",
        better="lower",
    ),
    Metric(
        name="throughput_consumed",
        title="Tokens learnt",
        unit="tokens/s",
        formula="sum loss_tokens / t_work",
        population="updates",
        better="higher",
    ),
    Metric(
        name="throughput_generated",
        title="Tokens generated",
        unit="tokens/s",
        formula="sum completion_tokens / t_work",
        population="rollouts of every fate",
        better="higher",
    ),
    Metric(
        name="goodput",
        title="Goodput",
        unit="0-1",
        formula="completion tokens of consumed rollouts / of all rollouts",
        population="rollouts of every fate",
        better="higher",
    ),
    Metric(
        name="stale_discard_frac",
        title="Discarded as stale",
        unit="0-1",
        formula="stale rollouts / all rollouts",
        population="rollouts of every fate",
        better="lower",
    ),
    Metric(
        name="truncated_frac",
        title="Cut short",
        unit="0-1",
        formula="rollouts that ended by max_tokens, context or turns / rollouts that ended without an error",
        population="rollouts of every fate",
        better="lower",
    ),
    Metric(
        name="ledger",
        title="Ledger",
        unit="rollouts, tokens",
        formula="generated = consumed + stale + filtered + errored + surplus, per tenant",
        population="rollouts of every fate",
    ),
    Metric(
        name="updates",
        title="Updates",
        unit="count",
        formula="updates per tenant, those without any signal included",
        population="updates",
    ),
    Metric(
        name="recompiles",
        title="Recompiles",
        unit="count",
        formula="compilations by function name in run_stop; else compile events that no cache served, "
        "at or after run_start",
        population="events in [run_start, run_stop]",
        better="lower",
    ),
    Metric(
        name="straggler_ratio",
        title="Stragglers",
        unit="ratio >= 1",
        formula="longest / median rollout time of a group, mean over groups",
        population="groups of two or more rollouts",
        better="lower",
    ),
    Metric(
        name="env_share",
        title="Time in environments",
        unit="0-1",
        formula="sum env_ns / sum (t_end - t_start)",
        population="rollouts; simulated latency included",
    ),
    Metric(
        name="is_ess",
        title="Effective sample fraction",
        unit="0-1",
        formula="mean of the updates' is_ess weighted by loss_tokens",
        population="updates with a finite is_ess",
        better="higher",
    ),
    Metric(
        name="accuracy",
        title="Accuracy",
        unit="0-1",
        formula="mean reward of all scheduled items, an errored item counts 0; Wilson 95 % interval; "
        "by tenant before (eval 0), after (last eval) and as a curve",
        population="evals by tenant",
        better="higher",
    ),
    Metric(
        name="speedup",
        title="Speed-up",
        unit="x",
        formula="exp(mean over seeds of log(t_work(baseline) / t_work(arm))); paired t 95 % interval, from "
        "two seeds on",
        population="seeds that both arms finished; baseline S1, else the first arm",
        better="higher",
    ),
    Metric(
        name="time_reduction",
        title="Time reduction",
        unit="0-1",
        formula="1 - 1 / speedup",
        population="as speedup",
        better="higher",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
