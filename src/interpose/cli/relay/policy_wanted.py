"""Whether a relay has anything to do with policies: asked by every start, so it loads nothing."""

from pathlib import Path

from interpose.config.relay.settings import PolicySettings
from interpose.core.policy.names import NONE

STATE_FILE = "policy-state.json"


def state_path(settings: PolicySettings) -> Path:
    """The file with the state of policies."""
    return Path(settings.state_dir, STATE_FILE)


def is_policy_configured(settings: PolicySettings) -> bool:
    """Whether a policy is named in the settings, or may come at run time."""
    comes_later = settings.config or settings.fallback or settings.config_socket != "none"
    return settings.name != NONE or bool(comes_later)


def is_policy_needed(settings: PolicySettings) -> bool:
    """Whether there is or may be a policy, or an earlier one left containers with CPUs of its choice."""
    return is_policy_configured(settings) or state_path(settings).exists()
