"""The table of policies. A policy is imported when it is made, the others never are."""

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final, NamedTuple

from interpose.core.model.text import quoted
from interpose.core.policy.api import Maker, Policy, Setup
from interpose.core.policy.balloons.options import BalloonsOptions
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions
from interpose.core.policy.external import ExternalOptions, ExternalPolicy
from interpose.core.policy.names import NAMES, POLICIES
from interpose.core.policy.podpools.options import PodPoolsOptions
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static_pools.options import PoolsOptions
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.errors import ConfigError


def _none(setup: Setup, options: None) -> Policy:
    from interpose.core.policy.none import NonePolicy

    return NonePolicy(setup, options)


def _static(setup: Setup, options: StaticOptions) -> Policy:
    from interpose.core.policy.static.policy import StaticPolicy

    return StaticPolicy(setup, options)


def _static_plus(setup: Setup, options: StaticPlusOptions) -> Policy:
    from interpose.core.policy.static_plus import StaticPlusPolicy

    return StaticPlusPolicy(setup, options)


def _static_pools(setup: Setup, options: PoolsOptions) -> Policy:
    from interpose.core.policy.static_pools.policy import StaticPoolsPolicy

    return StaticPoolsPolicy(setup, options)


def _podpools(setup: Setup, options: PodPoolsOptions) -> Policy:
    from interpose.core.policy.podpools.policy import PodPoolsPolicy

    return PodPoolsPolicy(setup, options)


def _dynamic_pools(setup: Setup, options: DynamicPoolsOptions) -> Policy:
    from interpose.core.policy.dynamic_pools.policy import DynamicPoolsPolicy

    return DynamicPoolsPolicy(setup, options)


def _balloons(setup: Setup, options: BalloonsOptions) -> Policy:
    from interpose.core.policy.balloons.policy import BalloonsPolicy

    return BalloonsPolicy(setup, options)


def _topology_aware(setup: Setup, options: TopologyAwareOptions) -> Policy:
    from interpose.core.policy.topology_aware.policy import TopologyAwarePolicy

    return TopologyAwarePolicy(setup, options)


class _Row(NamedTuple):
    options: type[Any]  # made without arguments it has the defaults
    make: Maker


_ROWS: Final[Mapping[str, _Row]] = MappingProxyType(
    {
        "none": _Row(NoneType, _none),
        "static": _Row(StaticOptions, _static),
        "static-plus": _Row(StaticPlusOptions, _static_plus),
        "static-pools": _Row(PoolsOptions, _static_pools),
        "topology-aware": _Row(TopologyAwareOptions, _topology_aware),
        "podpools": _Row(PodPoolsOptions, _podpools),
        "dynamic-pools": _Row(DynamicPoolsOptions, _dynamic_pools),
        "balloons": _Row(BalloonsOptions, _balloons),
        "external": _Row(ExternalOptions, ExternalPolicy),
    }
)


def make(name: str, setup: Setup, options: object = None) -> Policy:
    """The policy of that name or alias, with its default options if none are given.

    ConfigError if there is none of that name or it cannot work on this machine.
    """
    row = _row(name)
    chosen = row.options() if options is None else options
    if not isinstance(chosen, row.options):
        raise TypeError(f"policy {name} takes {row.options.__name__}, not {type(chosen).__name__}")
    return row.make(setup, chosen)


def options_type(name: str) -> type[Any]:
    """The class of a policy's options; the type of None if it has none. ConfigError if there is no such policy."""
    return _row(name).options


def _row(name: str) -> _Row:
    if name not in NAMES:
        known = ", ".join(policy.name for policy in POLICIES)
        raise ConfigError(f"policy: {quoted(name)} is none of {known}")
    return _ROWS[NAMES[name]]
