"""OOMScoreAdj: which containers the kernel kills first when memory runs out, as the pod's annotations say.

A container's own value beats that of the pod. A container for which neither is given is left alone.
"""

from types import MappingProxyType

from interpose.core.model.cgroup import Level, Parameter
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.plugin import NodeInputs, Plugin
from interpose.hooks.server.pods.pod_annotations import OOM_SCORE, OOM_SCORES, oom_score, oom_scores


class OomScoreAdj(Plugin[bool]):
    """Needs nothing of the node, so its rule is a constant."""

    name = "OOMScoreAdj"
    switch = "oom-score"
    summary = "set the OOM score that a pod's annotations ask for, for all of its containers or one by one"
    stages = frozenset((HookPoint.PRE_CREATE_CONTAINER,))
    serves = MappingProxyType({Level.CONTAINER: frozenset((Parameter.OOM_SCORE_ADJ,))})

    def rule(self, node: NodeInputs, previous: bool | None) -> bool:
        return True

    def container(self, rule: bool, context: ContainerContext) -> None:
        """The value by name of the container, else the one for all."""
        problem: ValueError | None = None
        try:
            own = oom_scores(context.annotations).get(context.request.name)
        except ValueError as error:
            own, problem = None, error
        if own is not None:
            context.response.set(Parameter.OOM_SCORE_ADJ, own, f"annotation {OOM_SCORES}")
            return
        try:
            common = oom_score(context.annotations)
        except ValueError as error:
            raise (ValueError(f"{problem}; {error}") if problem else error) from None
        if common is not None:
            ignored = f"; {problem}" if problem else ""
            context.response.set(Parameter.OOM_SCORE_ADJ, common, f"annotation {OOM_SCORE}{ignored}")
        elif problem:
            raise problem
