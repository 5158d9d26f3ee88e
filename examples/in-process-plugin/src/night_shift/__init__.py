"""Containers of pods with the annotation example.com/may-wait get few CPU shares, and are killed first."""

from dataclasses import dataclass
from types import MappingProxyType

from interpose.hookplugin import ContainerContext, HookPoint, Input, Level, NodeInputs, Parameter, Plugin

ANNOTATION = "example.com/may-wait"
NODE_LABEL = "example.com/night-shares"
DEFAULT_SHARES = 64


@dataclass(frozen=True)
class NightRule:
    """What the node says: the most CPU shares of a container that may wait."""

    shares: int


class NightShift(Plugin[NightRule]):
    """The entry point of pyproject.toml."""

    name = "night-shift"
    summary = "few CPU shares for containers that may wait, and the kernel kills them first"
    inputs = frozenset((Input.NODE_METADATA,))
    stages = frozenset((HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES))
    serves = MappingProxyType({Level.CONTAINER: frozenset((Parameter.CPU_SHARES, Parameter.OOM_SCORE_ADJ))})

    def rule(self, node: NodeInputs, previous: NightRule | None) -> NightRule:
        """Made when the node's labels change. After a ValueError the rule before stays in force."""
        text = node.labels.get(NODE_LABEL, str(DEFAULT_SHARES))
        if not text.isdecimal() or not 2 <= int(text) <= 262144:
            raise ValueError(f"label {NODE_LABEL} of the node: {text!r} is not a number from 2 to 262144")
        return NightRule(int(text))

    def container(self, rule: NightRule, context: ContainerContext) -> None:
        """What a container shall have. Nothing is set for pods without the annotation."""
        said = context.annotations.get(ANNOTATION)
        if said is None:
            return
        if said not in ("true", "false"):
            raise ValueError(f"annotation {ANNOTATION}: {said!r} is neither true nor false")
        if said == "true":
            asked = context.request.requested.cpu_shares or rule.shares
            context.response.set(Parameter.CPU_SHARES, min(asked, rule.shares), f"{ANNOTATION}, at most {rule.shares}")
            context.response.set(Parameter.OOM_SCORE_ADJ, 1000, ANNOTATION)
