"""The identity of a container by the labels and names dockershim gives: a sandbox, a container of Kubernetes, or none.

Docker has labels only: dockershim keeps the annotations of CRI among them with a prefix, and adds some for itself. What
CRI shows is the rest. Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.model.kubernetes_names import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from interpose.cri.store.requested import ANNOTATION

TYPE: Final = "io.kubernetes.docker.type"
SANDBOX_ID: Final = "io.kubernetes.sandbox.id"
LOG_PATH: Final = "io.kubernetes.container.logpath"
SANDBOX: Final = "podsandbox"
CONTAINER: Final = "container"
PREFIX: Final = "annotation."
# What a container was created with, if that is not what was asked for: Docker shows only what it has now.
CREATED: Final = f"{PREFIX}interpose/created"
REQUESTED: Final = f"{PREFIX}{ANNOTATION}"
# Koordinator's hook server recognizes pods of Docker by this annotation, so pods show it as if they had it.
MARK: Final = TYPE

_OWN: Final = frozenset((TYPE, SANDBOX_ID, LOG_PATH, CREATED))
_UINT32: Final = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerIdentity:
    """A sandbox or a container of Kubernetes."""

    id: str = ""  # empty before it is created
    sandbox: bool
    name: str = ""  # of the container; a sandbox has none
    pod_name: str = ""
    namespace: str = ""
    uid: str = ""
    attempt: int = 0
    sandbox_id: str = ""  # of a container; one that names none is in a pod of its own


def identity(labels: Mapping[str, str], name: str, container_id: str = "") -> DockerIdentity | None:
    """The identity of a container; None if it is not of Kubernetes. Labels count first, the name says what they
    lack."""
    kind = labels.get(TYPE)
    if kind not in (SANDBOX, CONTAINER) and SANDBOX_ID not in labels:
        return None
    sandbox = kind == SANDBOX
    parts = name.removeprefix("/").split("_")
    if len(parts) not in (6, 7) or parts[0] != "k8s":
        parts = [""] * 6
    return DockerIdentity(
        id=container_id,
        sandbox=sandbox,
        name="" if sandbox else labels.get(CONTAINER_NAME) or parts[1],
        pod_name=labels.get(POD_NAME) or parts[2],
        namespace=labels.get(POD_NAMESPACE) or parts[3],
        uid=labels.get(POD_UID) or parts[4],
        attempt=int(parts[5]) if _UINT32.fullmatch(parts[5]) else 0,
        sandbox_id="" if sandbox else labels.get(SANDBOX_ID) or container_id,
    )


def cri_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels as CRI has them."""
    sandbox = labels.get(TYPE) == SANDBOX
    return {
        key: value
        for key, value in labels.items()
        if key not in _OWN and not key.startswith(PREFIX) and not (sandbox and key == CONTAINER_NAME)
    }


def cri_annotations(labels: Mapping[str, str]) -> dict[str, str]:
    """The annotations as CRI has them, and the mark of a pod."""
    found = {MARK: SANDBOX} if labels.get(TYPE) == SANDBOX else {}
    for key, value in labels.items():
        if key.startswith(PREFIX) and key != CREATED:
            found[key.removeprefix(PREFIX)] = value
    return found


def changed_labels(
    labels: tuple[Mapping[str, str], Mapping[str, str]], annotations: tuple[Mapping[str, str], Mapping[str, str]]
) -> dict[str, str | None]:
    """What to do to Docker's labels, from CRI's before and after: the new value by key, None: it goes.

    Labels of dockershim itself are not changed.
    """
    found: dict[str, str | None] = {}
    for prefix, (before, after) in (("", labels), (PREFIX, annotations)):
        for key in before:
            if key not in after:
                found[prefix + key] = None
        for key, value in after.items():
            if before.get(key) != value:
                found[prefix + key] = value
    return {key: value for key, value in found.items() if key not in _OWN}
