"""What `import tunix_core` offers, and that it costs nothing until it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tunix_core

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = tunix_core.__all__


def test_the_formulas_a_user_may_want_alone_are_public() -> None:
    wanted = {
        "group_advantages",
        "POLICY_LOSSES",
        "LossConfig",
        "kl_penalty",
        "sequence_token_weights",
        "effective_sample_size",
        "pass_at_k",
        "plan",
        "score_sequences",
        "staleness",
    }
    assert wanted <= set(PUBLIC)
    assert list(PUBLIC) == sorted(PUBLIC, key=lambda n: (not n.isupper(), n[0].islower(), n))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_tells_what_it_takes(name: str) -> None:
    found = getattr(tunix_core, name)
    assert name in dir(tunix_core)
    if inspect.isfunction(found):
        assert found.__doc__ and len(found.__doc__) > 40
        assert inspect.signature(found).return_annotation is not inspect.Signature.empty
    elif isinstance(found, type):
        assert found.__doc__


@pytest.mark.parametrize("name", sorted(tunix_core.POLICY_LOSSES))
def test_a_policy_loss_names_its_source(name: str) -> None:
    doc = tunix_core.POLICY_LOSSES[name].__doc__ or ""
    assert "Source:" in doc or "Williams 1992" in doc


@pytest.mark.parametrize("name", sorted(tunix_core.ADVANTAGES))
def test_an_advantage_names_its_source(name: str) -> None:
    assert "arXiv" in (tunix_core.ADVANTAGES[name].__doc__ or "")


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "tunix_core" / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    shown = {a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert shown == set(PUBLIC)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'pass_at_q'"):
        _ = tunix_core.pass_at_q  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_loads_no_jax_and_host_functions_need_none() -> None:
    code = (
        "import sys, tunix_core\n"
        "assert tunix_core.pass_at_k(4, 1, 2) == 0.5 and tunix_core.group_advantages([1, 0]).shape == (2,)\n"
        "assert callable(tunix_core.plan)\n"
        "assert not {'jax', 'flax', 'optax'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
