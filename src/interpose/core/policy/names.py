"""The names of all policies. A table without code, so that flags and help know them and nothing is loaded for it."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class NamedPolicy(NamedTuple):
    """The name, description and aliases of a policy."""

    name: str
    description: str
    aliases: tuple[str, ...] = ()


POLICIES: Final = (
    NamedPolicy("none", "no policy: containers get what they were created with", ("null",)),
    NamedPolicy("static", "whole CPUs of their own for Guaranteed containers, as the kubelet's static CPU manager"),
    NamedPolicy("static-plus", "whole CPUs of their own for every container that asks for some, shares of the rest"),
    NamedPolicy("static-pools", "pools of CPUs set up by hand, as CPU Manager for Kubernetes (CMK)", ("stp",)),
    NamedPolicy("topology-aware", "CPUs and memory of one part of the machine, as narrow as it can be", ("memtier",)),
    NamedPolicy("podpools", "pools of CPUs for whole pods, in instances of a size and for a number of pods"),
    NamedPolicy("dynamic-pools", "pools of CPUs that grow and shrink with requests and load"),
    NamedPolicy("balloons", "groups of CPUs of configured types that grow and shrink with what runs in them"),
    NamedPolicy("external", "a policy of an installed Python package, found by its entry point"),
)
NONE: Final = "none"
# Policies that have no use for the topology hints of requests: for all others these are found out.
WITHOUT_HINTS: Final = frozenset(
    ("none", "static", "static-plus", "static-pools", "podpools", "dynamic-pools", "balloons")
)
# Of the variables of containers that policies read. Requests are kept, and have no others.
VARIABLE_PREFIXES: Final = ("CMK_", "STP_")


def _by_name() -> Mapping[str, str]:
    return {alias: policy.name for policy in POLICIES for alias in (policy.name, *policy.aliases)}


NAMES: Final = _by_name()  # every name and alias -> the name
