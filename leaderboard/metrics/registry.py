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
        name="device_seconds",
        title="Device time",
        unit="device-seconds",
        formula="devices * t_work",
        population="all devices of the record, idle ones included",
        better="lower",
    ),
    Metric(
        name="ttfu",
        title="Time to first update",
        unit="s",
        formula="per tenant: first update's t1 - run_start; mean and p95 over tenants",
        population="updates by tenant",
        better="lower",
    ),
    Metric(
        name="t_target",
        title="Time to target",
        unit="s, device-seconds, samples",
        formula=(
            "per tenant: the first of two consecutive evaluations at or above the target lies at "
            "high, the one before it at low; estimate: the middle of the two between which the "
            "isotonic fit of the curve steps over the target. null where it was never held. "
            "Target: the one fixed before the run; without one, median over seeds of the baseline's last "
            "accuracy - 0.02, so of the record itself; censored: the first evaluation passed already"
        ),
        population=(
            "tenants with a fixed target, or whose baseline ends 0.04 above its start and is evaluated three times"
        ),
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
        name="learner_train_frac",
        title="Training",
        unit="0-1",
        formula="exposed.train",
        population="as exposed",
    ),
    Metric(
        name="exposed_sync_frac",
        title="Exposed synchronisation",
        unit="0-1",
        formula="exposed.sync: the learner doesn't train and weights are moved",
        population="as exposed",
        better="lower",
    ),
    Metric(
        name="exposed_eval_frac",
        title="Exposed evaluation",
        unit="0-1",
        formula=(
            "exposed.eval: neither of the two and an evaluation runs; 0 where snapshots are scored "
            "after the clock"
        ),
        population="as exposed",
        better="lower",
    ),
    Metric(
        name="exposed_gen_frac",
        title="Exposed generation",
        unit="0-1",
        formula=(
            "exposed.generation: none of the three and an episode is open, so the learner waits for data"
        ),
        population="as exposed",
        better="lower",
    ),
    Metric(
        name="exposed_verify_frac",
        title="Exposed verification",
        unit="0-1",
        formula=(
            "the part of exposed.generation in which every open episode has sampled its last turn: the learner waits "
            "for grades alone"
        ),
        population="as exposed",
        better="lower",
    ),
    Metric(
        name="other_frac",
        title="Other",
        unit="0-1",
        formula="exposed.other: 1 - the other four",
        population="as exposed",
        better="lower",
    ),
    Metric(
        name="mfu",
        title="Model FLOPs utilization",
        unit="0-1",
        formula=(
            "model FLOPs / (t_work * sum of peaks), model FLOPs = (4 P + 6 L) a trained token + 2 "
            "(P + L) a prefilled or decoded one, P parameters of the frozen model, L of the "
            "tenant's adapter; attention's own products, rematerialisation, padding and evaluation "
            "left out. flops_per_s is the rate; value is null, with a reason, where the device's "
            "peak isn't known"
        ),
        population=f"real tokens of updates, and of prefill and decode spans in {_WORK}; peak of the model's "
        "dtype, float32 as TF32",
        better="higher",
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
        name="rank_pad_waste",
        title="Rank padding",
        unit="0-1",
        formula="1 - sum of ranks / (tenants * highest rank)",
        population="tenants of the record; null where one has no rank",
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
        name="publish_lag",
        title="Publication",
        unit="s",
        formula="published_ns - t1_ns; mean and p95",
        population="updates that took a step",
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
        name="recompiles_by_function",
        title="Recompiles by function",
        unit="count",
        formula="recompiles, by fun_name",
        population="as recompiles",
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
        name="verifier_cost",
        title="Environment and verifier",
        unit="s a rollout",
        formula=(
            "env_ns; mean and p95. Wall time of building, stepping and grading together, which the "
            "record doesn't part; simulated latency included"
        ),
        population="rollouts of every fate",
        better="lower",
    ),
    Metric(
        name="peak_mem",
        title="Peak memory",
        unit="bytes",
        formula=(
            "peak_bytes of run_stop: most bytes in use in the window, by device where its allocator counts, and "
            "the process' resident memory; null where nothing is told"
        ),
        population="run_stop",
        better="lower",
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
        name="max_is_weight",
        title="Largest importance weight",
        unit="ratio",
        formula="max of the updates' max_is_weight, after clamp and cap",
        population="updates with a finite one",
        better="lower",
    ),
    Metric(
        name="masked_frac",
        title="Masked",
        unit="0-1",
        formula="mean of the updates' rejected_fraction weighted by loss_tokens",
        population="updates that record it",
        better="lower",
    ),
    Metric(
        name="sampler_gap",
        title="Gap of sampler and learner",
        unit="nats",
        formula=("mean of the updates' mean |proximal - behaviour| log-probability, weighted by loss_tokens"),
        population="updates with a finite logprob_gap",
        better="lower",
    ),
    Metric(
        name="accuracy",
        title="Accuracy",
        unit="0-1",
        formula="mean reward of all scheduled items, an errored item counts 0; Wilson 95 % interval; "
        "by tenant before (eval 0), after (last eval) and as a curve; coverage = 1 - errored / n",
        population="evals by tenant",
        better="higher",
    ),
    Metric(
        name="tenant_slowdown",
        title="Slowdown by sharing",
        unit="x",
        formula=(
            "tenant_completion / the tenant's own stretch in S0 of the same seed, first rollout to "
            "last update; each, mean and max"
        ),
        population="tenants, where the record has S0",
        better="lower",
    ),
    Metric(
        name="jain_fairness",
        title="Fairness",
        unit="0-1",
        formula="Jain's index (sum r)^2 / (n sum r^2) of r = 1 / tenant_slowdown",
        population="as tenant_slowdown",
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
    Metric(
        name="device_seconds_ratio",
        title="Device time against the baseline",
        unit="x",
        formula="as speedup, of device_seconds; differs from it where arms have different devices",
        population="as speedup",
        better="higher",
    ),
    Metric(
        name="speedup_target",
        title="Speed-up to the target",
        unit="x",
        formula=(
            "as speedup, of t_target's estimated seconds, by tenant; null where a run never held "
            "its target (lost: the arm's, won: the baseline's alone), which is counted and not "
            "dropped"
        ),
        population="as speedup",
        better="higher",
    ),
    Metric(
        name="samples_to_target",
        title="Samples to the target against the baseline",
        unit="x",
        formula=(
            "as speedup_target, of t_target's estimated samples: above 1 an arm learns from fewer, "
            "which asynchrony can't explain"
        ),
        population="as speedup",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
