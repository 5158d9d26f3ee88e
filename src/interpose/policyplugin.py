"""What a policy of an installed package may import: a stable interface for packages of others.

A package offers a policy by an entry point in the group `interpose.policies`; docs/policy has the page. Names here keep
their meaning; everything else in `interpose` may change with any version.
"""

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.annotations import AnnotationScope, PolicyAnnotation, find_annotation
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.core.policy.state import PolicyState
from interpose.core.topology.hints import TopologyHint
from interpose.core.topology.synthetic import parse_text as parse_machine
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError

__all__ = [
    "Action",
    "Amounts",
    "AnnotationScope",
    "ConfigError",
    "CpuSet",
    "Decision",
    "Grant",
    "Key",
    "KubeQos",
    "Policy",
    "PolicyAnnotation",
    "PolicyState",
    "Refusal",
    "RefusalKind",
    "Request",
    "RequestSource",
    "Setup",
    "Topology",
    "TopologyHint",
    "find_annotation",
    "parse_machine",
]
