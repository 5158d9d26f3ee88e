"""Between hook messages and records: requests become pods and containers, results become answers.

An answer repeats every field that it could change, as it was sent, with the changes made in it. What shall be taken
away is missing there, and named in `clear`. So whoever reads it gets the same result: a relay that knows `clear`, one
that takes such an answer for an echo, and a koord-runtime-proxy, which overwrites with whatever the answer has. Only
where an echo could not say what is wanted (`_must_be_outright`) an answer has the wishes alone.

Invariant: no wish of a plugin makes an answer that the other side would refuse as a whole. One that makes no sense is
left out and is the failure of its plugin; the others count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.core.model.cgroup import CRI_FIELDS, UNLIMITED, Parameter, Value, to_cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import INT64, NO_RESOURCES, SCALARS, LinuxResources, empty_map
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.messages import ContainerResourceHookResponse, PodSandboxHookResponse, request_class
from interpose.hooks.server.evaluate import PluginFailure, PluginResults
from interpose.hooks.server.reconcile.original_values import ANNOTATION, note_of

# ---- Requests --------------------------------------------------------------------------------------------------------


def read_request(point: HookPoint, data: bytes) -> Any:
    """The message of a hook point; ValueError if the bytes are none."""
    kind = request_class(point)
    try:
        return kind.FromString(data)
    except Exception as error:  # DecodeError, whose class is protobuf's
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def pod_of(request: Any) -> Pod:
    """The pod that a PodSandboxHookRequest describes. The protocol has no id of sandboxes."""
    return Pod(
        id="",
        **_meta(request.pod_meta),
        runtime_handler=request.runtime_handler,
        labels=_plain(request.labels),
        annotations=_plain(request.annotations),
        cgroup_parent=request.cgroup_parent,
        requested_cgroup_parent=request.cgroup_parent,
        resources=_resources(request.resources),
        overhead=_resources(request.overhead),
    )


def container_of(request: Any) -> tuple[Pod, Container]:
    """The container that a ContainerResourceHookRequest describes, and its pod.

    Messages about containers do not tell overhead and runtime handler of the pod, nor what of the resources was asked
    for and what somebody made of it.
    """
    pod = Pod(
        id="",
        **_meta(request.pod_meta),
        labels=_plain(request.pod_labels),
        annotations=_plain(request.pod_annotations),
        cgroup_parent=request.pod_cgroup_parent,
        requested_cgroup_parent=request.pod_cgroup_parent,
        resources=_resources(request.pod_resources),
    )
    meta = request.container_meta
    resources = _resources(request.container_resources)
    container = Container(
        id=meta.id,
        name=meta.name,
        attempt=meta.attempt,
        annotations=_plain(request.container_annotations),
        envs=tuple(sorted((key, value.encode()) for key, value in request.container_envs.items())),
        cgroup_parent=request.pod_cgroup_parent,
        resources=resources,
        requested=resources,
        state=ContainerState.UNKNOWN if meta.id else ContainerState.CREATED,
    )
    return pod, container


def _meta(meta: Any) -> dict[str, Any]:
    return {"name": meta.name, "uid": meta.uid, "namespace": meta.namespace, "attempt": meta.attempt}


def _plain(items: Mapping[str, str]) -> Mapping[str, str]:
    return dict(items) or empty_map()


def _resources(message: Any) -> LinuxResources:
    if not message.ByteSize():
        return NO_RESOURCES
    values: dict[str, Any] = {name: getattr(message, name) for name in SCALARS}
    values["hugepage_limits"] = tuple((entry.page_size, entry.limit) for entry in message.hugepage_limits)
    values["unified"] = _plain(message.unified)
    return LinuxResources(**values)


# ---- Answers ---------------------------------------------------------------------------------------------------------


class HookAnswer(NamedTuple):
    """A response, the paths of what it changes, and the wishes that could not be in it."""

    message: Any
    changed: tuple[str, ...] = ()
    failures: tuple[PluginFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnswerFields:
    """What an answer can carry: the submessage of its resources, and the field of each parameter in it."""

    owner: str
    by_parameter: Mapping[Parameter, str]
    creates: bool = False  # a container that is made can have variables and our note
    patch: bool = False  # of something that may have other values than those sent


_CONTAINER: Final = "container_resources"
# A runtime gives processes their OOM score when it makes them and ignores it in updates.
_ANSWER_FIELDS: Final[Mapping[HookPoint, _AnswerFields]] = MappingProxyType(
    {
        HookPoint.PRE_RUN_POD_SANDBOX: _AnswerFields(
            owner="resources",
            by_parameter={
                parameter: CRI_FIELDS[parameter]
                for parameter in (Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT)
            },
        ),
        HookPoint.PRE_CREATE_CONTAINER: _AnswerFields(
            owner=_CONTAINER, by_parameter={**CRI_FIELDS, Parameter.OOM_SCORE_ADJ: "oom_score_adj"}, creates=True
        ),
        HookPoint.PRE_UPDATE_CONTAINER_RESOURCES: _AnswerFields(owner=_CONTAINER, by_parameter=CRI_FIELDS, patch=True),
    }
)
_RANGES: Final[Mapping[Parameter, tuple[int, int]]] = MappingProxyType(
    {
        Parameter.CPU_SHARES: (0, INT64.stop - 1),
        Parameter.CPU_QUOTA: (-1, INT64.stop - 1),
        Parameter.MEMORY_LIMIT: (-1, INT64.stop - 1),
        Parameter.OOM_SCORE_ADJ: (-1000, 1000),
    }
)


def can_carry(point: HookPoint, parameter: Parameter) -> bool:
    """Whether the answer of a hook point brings this parameter to the runtime."""
    return point in _ANSWER_FIELDS and parameter in _ANSWER_FIELDS[point].by_parameter


def echo_response(point: HookPoint, request: Any) -> Any:
    """The response that changes nothing, whoever reads it. Where nothing can be changed it is empty."""
    if point not in _ANSWER_FIELDS:
        return PodSandboxHookResponse() if point.about_pod else ContainerResourceHookResponse()
    if point.about_pod:
        return PodSandboxHookResponse(
            labels=request.labels,
            annotations=request.annotations,
            cgroup_parent=request.cgroup_parent,
            resources=request.resources if request.HasField("resources") else None,
        )
    return ContainerResourceHookResponse(
        container_annotations=request.container_annotations,
        container_resources=request.container_resources if request.HasField(_CONTAINER) else None,
        pod_cgroup_parent=request.pod_cgroup_parent,
        container_envs=request.container_envs,
    )


def make_answer(point: HookPoint, request: Any, results: PluginResults) -> HookAnswer:
    """The response for the results. What the call has no place for is not in it: that is for files, or for nobody."""
    response = echo_response(point, request)
    fields = _ANSWER_FIELDS.get(point)
    if fields is None:
        return HookAnswer(response)
    values, failures = _message_values(fields, results)
    sent = getattr(request, fields.owner)
    if fields.patch and _needs_partial_answer(fields, sent, values):
        response = _partial_answer(sent)
    changed: list[str] = []
    for parameter, value in values.items():
        name = fields.by_parameter[parameter]
        path = f"{fields.owner}.{name}"
        differs = value != getattr(sent, name)
        if differs:
            changed.append(path)
        if value:
            setattr(getattr(response, fields.owner), name, value)
        elif differs or fields.patch:  # zero and empty cannot be told from "not said"
            getattr(response, fields.owner).ClearField(name)
            response.clear.append(path)
    if fields.creates:
        _write_envs(request, results, response, changed, failures)
        plugins = {parameter: plugin for parameter, (plugin, _) in results.values.items()}
        if note := note_of(_resources(sent), values, plugins):
            response.container_annotations[ANNOTATION] = note
        elif ANNOTATION in request.container_annotations:  # somebody else's words, which would be taken for ours
            del response.container_annotations[ANNOTATION]
            response.clear.append(f"container_annotations[{ANNOTATION}]")
    return HookAnswer(response, tuple(changed), tuple(failures))


def _message_values(
    fields: _AnswerFields, results: PluginResults
) -> tuple[dict[Parameter, int | str], list[PluginFailure]]:
    """Values as the message holds them, and the wishes that cannot be one."""
    values: dict[Parameter, int | str] = {}
    failures: list[PluginFailure] = []
    for parameter, (plugin, wish) in results.values.items():
        if parameter not in fields.by_parameter:
            continue
        try:
            values[parameter] = _message_value(parameter, wish.value)
        except ValueError as error:
            failures.append(PluginFailure(plugin, f"wants {parameter} {_format_value(wish.value)}: {error}"))
    return values, failures


def _needs_partial_answer(fields: _AnswerFields, sent: Any, values: Mapping[Parameter, int | str]) -> bool:
    """Whether an update shall bring what was asked for anyway, where the container may have something else.

    A relay tells what was asked for, not what is in force, and an echo repeats that without meaning it. An answer
    without period and OOM score is no echo if they were sent; if not, it could be taken for one.
    """
    repeated = any(
        value and value == getattr(sent, fields.by_parameter[parameter]) for parameter, value in values.items()
    )
    return repeated and bool(sent.cpu_period or sent.oom_score_adj)


def _partial_answer(sent: Any) -> Any:
    """An answer to an update that names what is wanted. A koord-runtime-proxy needs the sets: it clears what is missing
    of them, and of nothing else that counts in an update."""
    response = ContainerResourceHookResponse()
    response.container_resources.cpuset_cpus = sent.cpuset_cpus
    response.container_resources.cpuset_mems = sent.cpuset_mems
    return response


def _write_envs(
    request: Any, results: PluginResults, response: Any, changed: list[str], failures: list[PluginFailure]
) -> None:
    for name, (plugin, value, _) in results.envs.items():
        if problem := _env_problem(name, value):
            failures.append(PluginFailure(plugin, f"wants the variable {_format_value(name)}: {problem}"))
        elif request.container_envs.get(name) != value:
            response.container_envs[name] = value
            changed.append(f"container_envs[{name}]")


def _env_problem(name: str, value: str) -> str:
    """What is wrong with a variable; never a word of its value."""
    try:
        if not name.encode() or "=" in name or "\0" in name:
            return "no variable can have this name"
        return "its value holds a NUL" if b"\0" in value.encode() else ""
    except (UnicodeEncodeError, AttributeError):
        return "it is not text"


def _message_value(parameter: Parameter, value: Value) -> int | str:
    """A value as the message holds it; ValueError if it cannot be one of this parameter."""
    if value is UNLIMITED and _RANGES.get(parameter, (0, 0))[0] != -1:
        raise ValueError("it cannot be unlimited")
    message_value = to_cri(parameter, value)
    if parameter not in _RANGES:
        if not isinstance(message_value, str):
            raise ValueError("it is not text")
        return str(CpuSet.parse(message_value))
    lowest, highest = _RANGES[parameter]
    if type(message_value) is not int or not lowest <= message_value <= highest:
        raise ValueError(f"it is not a whole number from {lowest} to {highest}")
    return message_value


def _format_value(value: Value) -> str:
    text = str(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
