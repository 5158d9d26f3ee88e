"""When two requests are the same but for what changes every time: keys of requests.

Pure. Three keys, each coarser than the one before: the bytes, the request without what is different in every run of the
same pod, and whom it is about.
"""

from typing import Any, Final

from interpose.cri.methods import Carries, Method
from interpose.dump.replay.adapt import uids
from interpose.dump.replay.id_map import Reference, Thing, references
from interpose.dump.replay.visit import parts, type_name

# Parts of a configuration that say when and where, not what.
_VOLATILE: Final = {
    "PodSandboxMetadata": ("uid", "attempt"),
    "ContainerMetadata": ("attempt",),
    "PodSandboxConfig": ("log_directory",),
    "ContainerConfig": ("log_path",),
    "LinuxPodSandboxConfig": ("cgroup_parent",),
    "AuthConfig": ("username", "password", "auth", "identity_token", "registry_token"),
    "CreateContainerRequest": ("pod_sandbox_id",),
    "NamespaceOption": ("target_id",),
}
_VOLATILE_LABELS: Final = (
    "io.kubernetes.pod.uid",
    "io.kubernetes.container.restartCount",
    "kubernetes.io/config.seen",
    "interpose/requested",
    "interpose/grant",
)
_MAPS: Final = ("labels", "annotations")
_SOMEWHERE: Final = "*"


def alike(message: Any, method: Method) -> bytes:
    """What two requests share that mean the same. The message is changed on the way.

    A request without a configuration is nothing but ids, which stay.
    """
    if Carries.CFG in method.carries:
        known = uids(message)
        for part in parts(message):
            for name in _VOLATILE.get(type_name(part), ()):
                part.ClearField(name)
            for name in _MAPS:
                for key in _VOLATILE_LABELS:
                    getattr(part, name, {}).pop(key, None)
            if type_name(part) == "Mount":
                for uid in known:
                    part.host_path = part.host_path.replace(uid, _SOMEWHERE)
    if Carries.FLT in method.carries and not message.filter.ListFields():
        message.ClearField("filter")  # an empty one lets everything pass, as none does
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def about(message: Any) -> tuple[Reference | str, ...]:
    """Whom a request is about: names if it has a configuration, else ids, the narrowest first; empty if nobody."""
    names = [_named(part) for part in parts(message)]
    found = tuple(name for name in names if name)
    if found:
        return found
    ids = references(message)
    for thing in (Thing.CONTAINER, Thing.POD, Thing.IMAGE):
        chosen = tuple(one for one in ids if one.thing is thing and one.id)
        if chosen:
            return chosen
    return ()


def _named(part: Any) -> str:
    name = type_name(part)
    if name == "PodSandboxMetadata":
        return f"pod {part.namespace}/{part.name}"
    return f"container {part.name}" if name == "ContainerMetadata" else ""
