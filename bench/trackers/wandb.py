"""Weights & Biases. Rows carry their own axes; `step=` is never passed, since it drops what comes out of order."""

from __future__ import annotations

import importlib
import logging
import netrc
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.errors import BenchError
from bench.trackers.base import Conclusion
from bench.trackers.conclusion import label

AXES = {
    "work/updates": ("train/*", "stale/*", "pad/*"),
    "work/samples": (),
    "time/wall_s": ("eval/*", "util/*", "perf/*"),
}
"""Each axis with the rows' keys that are drawn over it."""
HOST = "https://api.wandb.ai"
RECORD = "-record"
"""Ends the ids of runs that `bench export wandb` made: the mirror of the run itself may lack rows."""


class WandbError(BenchError):
    """W&B refused a run or could not be reached."""


def mode(env: Mapping[str, str]) -> str:
    """WANDB_MODE where it is set, but online only with a key: without one W&B would ask for it."""
    wanted = env.get("WANDB_MODE") or "online"
    return "offline" if wanted in ("online", "run") and not has_key(env) else wanted


def has_key(env: Mapping[str, str]) -> bool:
    """Whether a key is in the environment or where `wandb login` leaves it."""
    if env.get("WANDB_API_KEY") or env.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    places = (
        [Path(env["NETRC"])] if env.get("NETRC") else [Path.home() / name for name in (".netrc", "_netrc")]
    )
    host = urlsplit(env.get("WANDB_BASE_URL") or HOST).hostname or ""
    try:
        return any(netrc.netrc(str(p)).authenticators(host) is not None for p in places if p.is_file())
    except (netrc.NetrcParseError, OSError):
        return False


class WandbBackend:
    """One W&B run per (arm, seed), grouped by record; all stay open until the record's figures are known."""

    def __init__(self, header: Mapping[str, Any], folder: Path, *, suffix: str = "") -> None:
        """Prepares; nothing is opened yet.

        Args:
          header: run.json, as far as it is known.
          folder: W&B's own files go into a folder `wandb` in here, never into the run directory.
          suffix: of the runs' ids.
        """
        self._header, self._folder, self._suffix = header, folder, suffix
        self._mode = mode(os.environ)
        self._runs: dict[str, Any] = {}

    def start(self) -> None:
        """Opens the first run, so that a service that refuses says so at once; raises WandbError."""
        if self._mode == "offline" and os.environ.get("WANDB_MODE") != "offline":
            sys.stderr.write("wandb: no key, so offline; `wandb sync` sends it later\n")
        self._folder.mkdir(parents=True, exist_ok=True)
        # their lines would go to stderr; what matters of them is in the folder's logs and in our status
        for library in ("wandb", "opentelemetry"):
            logging.getLogger(library).addHandler(logging.NullHandler())
            logging.getLogger(library).propagate = False
        wandb = _import("wandb")
        wandb.setup(settings=wandb.Settings(silent=True))
        self.open(*self._header["order"][0])

    def open(self, arm: str, seed: int) -> int:
        """Opens the run of one (arm, seed); how many rows it has: more than none where it was there already."""
        wandb = _import("wandb")
        name = label(arm, seed)
        if name not in self._runs:
            try:
                self._runs[name] = wandb.init(**self._given(wandb, arm, seed))
            except wandb.Error as e:
                hint = "WANDB_MODE=offline writes the run here, to be sent later"
                raise WandbError(f"wandb: {e}", hint) from e
            for axis, prefixes in AXES.items():
                self._runs[name].define_metric(axis)
                for prefix in prefixes:
                    self._runs[name].define_metric(prefix, step_metric=axis)
        return int(self._runs[name].step)

    @property
    def place(self) -> str:
        """Where to look: the group's URL, or how to send what was written offline."""
        first = next(iter(self._runs.values()))
        if first.offline or first.disabled:
            return f"offline; send it with: wandb sync {self._folder / 'wandb'}/offline-run-*{self._suffix}"
        return str(first.project_url)

    def log(self, row: Mapping[str, Any]) -> None:
        """One row, as one history record."""
        self.open(row["arm"], row["seed"])
        self._runs[label(row["arm"], row["seed"])].log(dict(row))

    def conclude(self, conclusion: Conclusion) -> None:
        """Plain scalars, a table of the last evaluation, and the record's small files as an artifact."""
        wandb = _import("wandb")
        for name, run in self._runs.items():
            run.summary.update(dict(conclusion.summary.get(name, {})))
            if table := conclusion.tables.get(name):
                # in the summary and not the history, which would grow by a row at each export
                run.summary["items"] = wandb.Table(columns=list(table.columns), data=table.rows)
        artifact = wandb.Artifact(f"record-{self._header['run_id']}", type="record")
        for file in conclusion.files:
            artifact.add_file(str(file))
        next(iter(self._runs.values())).log_artifact(artifact)

    def finish(self, status: str) -> None:
        """Marks the runs of a record that did not succeed as failed."""
        for run in self._runs.values():
            run.finish(exit_code=0 if status == "success" else 1)

    def abandon(self) -> None:
        """Ends W&B's own process, whose exit hook would wait up to 90 s; what it wrote so far can be synced."""
        # W&B has no public way; reading the name takes no lock, which the hanging thread may hold
        connection = getattr(_import("wandb.sdk.wandb_setup")._singleton, "_connection", None)
        if connection is not None and connection._proc is not None:
            _silence_threads()
            connection._cleanup()
            connection._proc._process.kill()

    def _given(self, wandb: Any, arm: str, seed: int) -> dict[str, Any]:
        header = self._header
        earlier = header.get("resumed") or []
        # a history can't be gone on with offline, so a resumed run gets new ids in the same group
        segment = f"-r{len(earlier)}" if earlier and self._suffix != RECORD else ""
        run_id = f"{header['run_id']}-{label(arm, seed).replace('.', '-')}".lower()
        about = {name: header[name] for name in ("run_id", "suite_version", "device_class", "limit_applied")}
        config = {**header["config"], "record": {**about, "arm": arm, "seed": seed}}
        if segment:
            config["resumed_from"] = run_id
        marks = {"simulated-latency": header["latency"]["simulated"], "limited": header["limit_applied"]}
        tags = [header["device_class"], f"suite-{header['suite_version']}"]
        return {
            "project": f"bench-v{header['suite_version']}",
            "id": f"{run_id}{segment}{self._suffix}",
            "name": f"{'+'.join(header['config']['tasks'])[:90]}.{label(arm, seed)}",
            "group": header["run_id"],
            "job_type": arm,
            "tags": [*tags, *(name for name, applies in marks.items() if applies)],
            "config": config,
            "dir": str(self._folder),
            "mode": self._mode,
            "resume": "allow" if self._mode == "online" else None,
            "reinit": "create_new",
            "settings": wandb.Settings(
                silent=True,
                program="bench",
                console="off",
                # W&B would store the working tree's uncommitted changes
                disable_git=True,
                disable_code=True,
                # sampling the machine takes time from what is being measured
                x_disable_stats=True,
                # the machine's and the user's name, and the command line as it was typed
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        }


def _silence_threads() -> None:
    """W&B's own threads fail when their process is gone; that is said once, as the tracker's status."""
    told = threading.excepthook

    def tell(args: threading.ExceptHookArgs) -> None:
        if args.thread is None or not args.thread.name.startswith("wandb-"):
            told(args)

    threading.excepthook = tell


def _import(name: str) -> Any:
    """Imports W&B only once it is needed; by name, since a type checker takes `wandb` for this very file."""
    return importlib.import_module(name)
