"""dockerd's lists and inspect answers as CRI messages: enough for complete records of our own parts.

Docker shows what a container has now. CRI has it twice, as the OCI view that is in force and as the request it was
created with; where a label keeps what was sent then (see `create`), the latter is from there.

Docker also mixes labels and variables of the image into those of its containers. With the image at hand annotations and
variables are separated again: an image must not be able to set annotations, ours least of all. Its plain labels stay,
as with dockershim: the container may have been given the same. A missing or
odd value reads as not set, an answer of another shape is UnreadableBody. Pure; messages are duck-typed.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from interpose.core.model.kubernetes_names import LABEL_PREFIX
from interpose.core.model.resources import INT64
from interpose.relay.docker.translate import hostconfig
from interpose.relay.docker.translate.create import RUNTIME_HANDLER
from interpose.relay.docker.translate.json_edit import UnreadableBodyError, decode, kind, whole
from interpose.relay.docker.translate.labels import (
    CREATED,
    LOG_PATH,
    REQUESTED,
    DockerIdentity,
    cri_annotations,
    cri_labels,
    identity,
)

_CREATED: Final = 0
_RUNNING: Final = 1
_EXITED: Final = 2
_UNKNOWN: Final = 3
# CRI's numbers. One that is paused or about to start again holds what it has.
_STATES: Final[Mapping[str, int]] = {
    "created": _CREATED,
    "running": _RUNNING,
    "paused": _RUNNING,
    "restarting": _RUNNING,
    "exited": _EXITED,
    "dead": _EXITED,
    "removing": _EXITED,
}
_READY: Final = 0
_NOT_READY: Final = 1
_OCI_CPU: Final = {
    "shares": "cpu_shares",
    "quota": "cpu_quota",
    "period": "cpu_period",
    "cpus": "cpuset_cpus",
    "mems": "cpuset_mems",
}
_OCI_MEMORY: Final = {"limit": "memory_limit_in_bytes", "swap": "memory_swap_limit_in_bytes"}
_NANO: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Document = Mapping[str, Any]


class Image(NamedTuple):
    """What an image gives to its containers."""

    labels: Mapping[str, str]
    envs: tuple[str, ...]


NO_IMAGE: Final = Image({}, ())


def read_image(body: bytes) -> Image:
    """From the inspect answer of an image."""
    config = _part(_inspected(body, "an image"), "Config")
    return Image(_texts(config.get("Labels")), _variables(config))


# -- one container


def image_of(body: bytes) -> str:
    """The id of the image of an inspected container; empty if it has none."""
    return _text(_inspected(body).get("Image"))


def identity_of(body: bytes) -> DockerIdentity | None:
    """The identity of the container of an inspect answer; None if it is not of Kubernetes."""
    return _identity(_inspected(body))


def pod_status(body: bytes, message: Any, image: Image = NO_IMAGE) -> None:
    """Fill a PodSandboxStatusResponse from the inspect answer of a sandbox."""
    document = _inspected(body)
    owner, labels, host = _known(document), _own_labels(document, image), _part(document, "HostConfig")
    status = message.status
    status.id = owner.id
    _write_pod_meta(status.metadata, owner)
    status.state = _sandbox_state(_text(_part(document, "State").get("Status")))
    status.created_at = nanoseconds(document.get("Created"))
    status.labels.update(cri_labels(labels))
    status.annotations.update(cri_annotations(labels))
    status.runtime_handler = RUNTIME_HANDLER
    parent = _text(host.get("CgroupParent"))
    linux = {
        "cgroup_parent": hostconfig.parent_to_cri(parent),
        "resources": hostconfig.values_to_cri(_amounts(host), filled=hostconfig.filled_in(None)),
    }
    _write_info(message, owner, {"linux": linux}, host, {})


def container_status(body: bytes, message: Any, image: Image = NO_IMAGE) -> None:
    """Fill a ContainerStatusResponse from the inspect answer of a container."""
    document = _inspected(body)
    owner, labels, host = _known(document), _own_labels(document, image), _part(document, "HostConfig")
    config, state = _part(document, "Config"), _part(document, "State")
    status = message.status
    status.id = owner.id
    status.metadata.name, status.metadata.attempt = owner.name, owner.attempt
    status.state = _STATES.get(_text(state.get("Status")), _UNKNOWN)
    status.created_at = nanoseconds(document.get("Created"))
    status.started_at = nanoseconds(state.get("StartedAt"))
    status.finished_at = nanoseconds(state.get("FinishedAt"))
    status.exit_code = _number(state.get("ExitCode"), range(-(1 << 31), 1 << 31))
    status.image.image = _text(config.get("Image"))
    status.image_ref = _text(document.get("Image"))
    status.log_path = labels.get(LOG_PATH, "")
    status.labels.update(cri_labels(labels))
    status.annotations.update(cri_annotations(labels))
    sent = _sent(labels)
    current = hostconfig.values_to_cri(_amounts(host), filled=hostconfig.filled_in(sent))
    envs = _own_variables(_variables(config), image)
    created = {
        "envs": [{"key": env.partition("=")[0], "value": env.partition("=")[2]} for env in envs],
        "linux": {"resources": current if sent is None else sent},
    }
    _write_info(message, owner, created, host, current, envs)


# -- lists


def list_target(wanted: Any) -> str:
    """Where to ask for a list, narrowed as far as Docker can by a filter of CRI."""
    labels = [f"{key}={value}" for key, value in wanted.label_selector.items()]
    filters = {name: values for name, values in (("label", labels), ("id", [wanted.id])) if any(values)}
    query = {"all": "1", **({"filters": json.dumps(filters)} if filters else {})}
    return f"/containers/json?{urlencode(query)}"


def listed_sandboxes(body: bytes, wanted: Any, message: Any) -> None:
    """Fill a ListPodSandboxResponse with the sandboxes in a list that a PodSandboxFilter wants."""
    for document, owner, labels in _listed(body, wanted):
        state = _sandbox_state(_text(document.get("State")))
        if owner.sandbox and (not wanted.HasField("state") or wanted.state.state == state):
            item = message.items.add(id=owner.id, state=state, runtime_handler=RUNTIME_HANDLER)
            _write_pod_meta(item.metadata, owner)
            _write_listed(item, document, labels)


def listed_containers(body: bytes, wanted: Any, message: Any) -> None:
    """Fill a ListContainersResponse with the containers in a list that a ContainerFilter wants."""
    for document, owner, labels in _listed(body, wanted):
        state = _STATES.get(_text(document.get("State")), _UNKNOWN)
        if owner.sandbox or (wanted.HasField("state") and wanted.state.state != state):
            continue
        if owner.sandbox_id.startswith(wanted.pod_sandbox_id):
            item = message.containers.add(id=owner.id, pod_sandbox_id=owner.sandbox_id, state=state)
            item.metadata.name, item.metadata.attempt = owner.name, owner.attempt
            item.image.image, item.image_ref = _text(document.get("Image")), _text(document.get("ImageID"))
            _write_listed(item, document, labels)


def _listed(body: bytes, wanted: Any) -> Iterator[tuple[Document, DockerIdentity, Mapping[str, str]]]:
    """Everything of Kubernetes' with the labels and the id that are wanted."""
    documents = _parsed(body)
    if not isinstance(documents, list):
        raise UnreadableBodyError(f"the list of containers is not a list but {kind(documents)}")
    for document in documents:
        if not isinstance(document, dict):
            raise UnreadableBodyError(f"a container of the list is not an object but {kind(document)}")
        # A container that others link to has their names for it, too.
        names = [_text(name) for name in _list(document.get("Names"))]
        name = next((name for name in names if name.count("/") < 2), "")
        labels = _texts(document.get("Labels"))
        owner = identity(labels, name, _text(document.get("Id")))
        if owner is None or not owner.id.startswith(wanted.id):
            continue
        shown = cri_labels(labels)
        if all(shown.get(key) == value for key, value in wanted.label_selector.items()):
            yield document, owner, labels


def _write_listed(item: Any, document: Document, labels: Mapping[str, str]) -> None:
    item.created_at = _number(document.get("Created"), range(INT64.stop // _NANO)) * _NANO
    item.labels.update(cri_labels(labels))
    item.annotations.update(cri_annotations(labels))


# -- the parts of answers


def _write_pod_meta(meta: Any, owner: DockerIdentity) -> None:
    meta.name, meta.uid, meta.namespace, meta.attempt = owner.pod_name, owner.uid, owner.namespace, owner.attempt


def _sandbox_state(status: str) -> int:
    """One that was only created is about to start; there is no call of CRI in between."""
    return _READY if _STATES.get(status) in (_CREATED, _RUNNING) else _NOT_READY


def _write_info(
    message: Any, owner: DockerIdentity, config: Document, host: Document, current: Document, envs: tuple[str, ...] = ()
) -> None:
    """What runtimes add to a verbose answer, in the shape `cri.store.verbose_info` reads."""
    resources = {
        part: {key: current[name] for key, name in names.items() if name in current}
        for part, names in (("cpu", _OCI_CPU), ("memory", _OCI_MEMORY))
    }
    path = hostconfig.cgroups_path(_text(host.get("CgroupParent")), owner.id)
    process = {"env": envs, "oomScoreAdj": current.get("oom_score_adj", 0)}
    spec = {"linux": {"cgroupsPath": path, "resources": resources}, "process": process}
    message.info["info"] = json.dumps({"sandboxID": owner.sandbox_id, "config": config, "runtimeSpec": spec})


def _sent(labels: Mapping[str, str]) -> Document | None:
    """What the container was created with, if that is noted; without the note beside it, it is not ours."""
    if REQUESTED not in labels:
        return None
    try:
        sent = json.loads(labels.get(CREATED, ""))
    except (ValueError, RecursionError):
        return None
    return sent if isinstance(sent, dict) else None


def _amounts(host: Document) -> hostconfig.Values:
    numbers = {key: _number(host.get(key), INT64) for key in (*hostconfig.NUMBERS.values(), hostconfig.NANO_CPUS)}
    return numbers | {key: _text(host.get(key)) for key in hostconfig.TEXTS.values()}


def _variables(config: Document) -> tuple[str, ...]:
    return tuple(env for env in map(_text, _list(config.get("Env"))) if "=" in env)


# -- reading


def nanoseconds(value: object) -> int:
    """A time of Docker's since 1970; 0 for what never happened."""
    if not isinstance(value, str):
        return 0
    head, _, rest = value.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    try:
        seconds = (datetime.fromisoformat(head + rest[len(digits) :]) - _EPOCH).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0
    return max(int(seconds) * _NANO + int(digits[:9].ljust(9, "0")), 0) if seconds > 0 else 0


def _own_labels(document: Document, image: Image) -> dict[str, str]:
    """Without the image's. One that the container was given with the same value is lost with them, but for those of
    Kubernetes, which say whose container it is."""
    return {
        key: value
        for key, value in _labels(document).items()
        if key.startswith(LABEL_PREFIX) or image.labels.get(key) != value
    }


def _own_variables(envs: tuple[str, ...], image: Image) -> tuple[str, ...]:
    """Without the image's: those that the container does not set itself come last, in their order."""
    tail = list(image.envs)
    end = len(envs)
    while end and tail:
        if envs[end - 1] == tail.pop():
            end -= 1
    return envs[:end]


def _inspected(body: bytes, what: str = "a container") -> Document:
    document = _parsed(body)
    if not isinstance(document, dict):
        raise UnreadableBodyError(f"it is not {what} but {kind(document)}")
    if not _text(document.get("Id")):
        raise UnreadableBodyError(f"it is not {what}: it has no Id")
    return document


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(decode(body))
    except UnreadableBodyError:
        raise
    except RecursionError:
        raise UnreadableBodyError("it is nested too deeply") from None
    except ValueError as error:
        raise UnreadableBodyError(f"it is not JSON: {error}") from None


def _labels(document: Document) -> dict[str, str]:
    return _texts(_part(document, "Config").get("Labels"))


def _identity(document: Document) -> DockerIdentity | None:
    return identity(_labels(document), _text(document.get("Name")), _text(document.get("Id")))


def _known(document: Document) -> DockerIdentity:
    owner = _identity(document)
    if owner is None:
        raise UnreadableBodyError(f"the container {_text(document.get('Id'))} is not Kubernetes'")
    return owner


def _part(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object, allowed: range) -> int:
    return value if type(value) is int and value in allowed else 0


def _text(value: object) -> str:
    return whole(value) if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    return {whole(key): _text(one) for key, one in value.items()} if isinstance(value, dict) else {}
