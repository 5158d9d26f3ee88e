"""Which recorded calls are made again: a table of methods, and what the caller chose. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.cri.methods import METHODS
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Flags


class Sort(StrEnum):
    """What making a call again does."""

    LIFE = "life"  # pods and containers come, change and go
    PULL = "pull"
    EXEC = "exec"
    READ = "read"
    NEVER = "never"


_LIFE: Final = (
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
)
_URL: Final = "what gives an address that works once"
_CHECKPOINT: Final = "what is about checkpoint files of the recorded node"
# Why a call is never made again.
_NEVER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Exec": _URL,
        "Attach": _URL,
        "PortForward": _URL,
        "CheckpointContainer": _CHECKPOINT,
        "CheckpointPod": _CHECKPOINT,
        "RestorePod": _CHECKPOINT,
        "ReopenContainerLog": "what is about log files of the recorded node",
        "UpdateRuntimeConfig": "what changes the runtime and not a pod",
        "RemoveImage": "what removes images that others may use",
        **{method.name: "streams" for method in METHODS.values() if method.server_streaming},
    }
)
SORTS: Final[Mapping[str, Sort]] = MappingProxyType(
    dict.fromkeys(METHODS, Sort.READ)
    | dict.fromkeys(_LIFE, Sort.LIFE)
    | {"PullImage": Sort.PULL, "ExecSync": Sort.EXEC}
    | dict.fromkeys(_NEVER, Sort.NEVER)
)
_SWITCHES: Final[Mapping[Sort, str]] = MappingProxyType(
    {
        Sort.PULL: "pulls of images (--pull makes them)",
        Sort.EXEC: "commands run in containers (--exec makes them)",
        Sort.READ: "what changes nothing (--reads makes them)",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the caller of a replay wants."""

    pull: bool = False
    execs: bool = False
    reads: bool = False
    as_sent: bool = False  # what the runtime got instead of what the caller sent; calls of the relay's own, too
    pass_unknown: bool = False  # send ids that nobody made again as they are


def omitted(flow: Flow, choices: Choices) -> str:
    """Why a call is not chosen; empty if it is."""
    sort = SORTS.get(flow.name) if flow.method is not None else None
    if sort is None:
        return "no method of the CRI that is known"
    if sort is Sort.NEVER:
        return _NEVER[flow.name]
    wanted = {Sort.LIFE: True, Sort.PULL: choices.pull, Sort.EXEC: choices.execs, Sort.READ: choices.reads}[sort]
    if not wanted:
        return _SWITCHES[sort]
    if flow.originated and not choices.as_sent:
        return "calls of the relay itself (--as-sent makes them)"
    if flow.flags & Flags.CONTINUED and not flow.messages:
        return "calls that began before the recording"
    return ""
