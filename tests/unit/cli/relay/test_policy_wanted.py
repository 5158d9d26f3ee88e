"""A relay that has nothing to do with policies loads none of their code."""

from pathlib import Path

import pytest

from interpose.cli.relay.policy_wanted import is_policy_needed, state_path
from interpose.config.relay.settings import PolicySettings
from interpose.resmgr.state.checkpoint import FILE


def test_without_anything_nothing_is_wanted(tmp_path: Path) -> None:
    """The default."""
    assert not is_policy_needed(PolicySettings(state_dir=str(tmp_path)))


@pytest.mark.parametrize(
    "said", [{"name": "static"}, {"config": "/x"}, {"fallback": "/x"}, {"config_socket": "/run/config.sock"}]
)
def test_a_policy_now_or_later(tmp_path: Path, said: dict[str, str]) -> None:
    """Named, in a file, or from an agent."""
    assert is_policy_needed(PolicySettings(state_dir=str(tmp_path), **said))  # type: ignore[arg-type]


def test_what_an_earlier_policy_left_has_to_be_put_back(tmp_path: Path) -> None:
    """Its containers have CPUs of its choice."""
    settings = PolicySettings(state_dir=str(tmp_path))
    assert state_path(settings) == tmp_path / FILE
    state_path(settings).write_text("{}")
    assert is_policy_needed(settings)
