"""The policy of an installed package, loaded when a configuration names it. To be called in a thread."""

from dataclasses import replace
from typing import Final

from interpose.core.policy.external import ExternalOptions
from interpose.errors import ConfigError
from interpose.host.entry_points import EntryPointError, choose_entry_point, find_entry_points, load_entry_point

GROUP: Final = "interpose.policies"


def load_policy(options: ExternalOptions) -> ExternalOptions:
    """The options with what the entry point refers to; ConfigError if that cannot be had."""
    try:
        point = choose_entry_point(options.entry_point, find_entry_points(GROUP), GROUP)
        maker = load_entry_point(point, lambda made: made)
    except EntryPointError as error:
        raise ConfigError(f"policy external: EntryPoint: {error}") from None
    if not callable(maker):
        raise ConfigError(
            f"policy external: EntryPoint: {point}: refers to {type(maker).__name__}, not to a class of a policy"
        )
    return replace(options, maker=maker)
