"""POST /containers/create and /containers/{id}/update of Kubernetes' containers, and the CRI requests they become.

A create becomes a RunPodSandbox or a CreateContainer, an update an UpdateContainerResources: a patch on both sides, in
which zero and empty say nothing.

A body without changes stays the same object; of a changed one only the changed members are written.
A value taken away is written as zero, empty or null: to Docker that is "not set", and the key stays where it was.

Docker shows later only what a container has, not what it was created with. Where the chain notes what was requested
(see `cri.store.requested`), a label keeps what was sent, and `inspect` reads it; one that a caller brings along is
taken away. Pure; messages are duck-typed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.core.model.kubernetes_names import LABEL_PREFIX
from interpose.core.model.pod import Pod
from interpose.cri.store.requested import ANNOTATION
from interpose.relay.docker.translate import hostconfig
from interpose.relay.docker.translate.body import EditedBody, JsonBody, JsonBodyEdit
from interpose.relay.docker.translate.json_edit import UnreadableBodyError, fold, json_string
from interpose.relay.docker.translate.labels import (
    CREATED,
    DockerIdentity,
    changed_labels,
    cri_annotations,
    cri_labels,
    identity,
)

RUNTIME_HANDLER: Final = "docker"
_LABELS: Final = "Labels"
_HOST: Final = "HostConfig"
_ENV: Final = "Env"
# Until API 1.18 the members of HostConfig were members of the body itself. dockerds up to 23 still mix these in, by
# rules of their own, and all of them if there is no HostConfig.
_MIXED: Final = (*hostconfig.KEYS.values(), hostconfig.NANO_CPUS, hostconfig.PARENT, "Cpuset")
# What is a member of the body and of nothing else.
_MEMBERS: Final = frozenset(
    (
        *("hostname", "domainname", "user", "attachstdin", "attachstdout", "attachstderr", "exposedports", "tty"),
        *("openstdin", "stdinonce", "env", "cmd", "healthcheck", "argsescaped", "image", "volumes", "workingdir"),
        *("entrypoint", "networkdisabled", "macaddress", "onbuild", "labels", "stopsignal", "stoptimeout", "shell"),
        *("hostconfig", "networkingconfig"),
    )
)
# A letter of the prefix of Kubernetes' labels in an escape. No writer of JSON does that by chance.
_HIDDEN: Final = re.compile(rb"\\u00(?:2[eE]|6[259bBeEfF]|7[2-5])")
_WORDS: Final = (("command", "Entrypoint"), ("args", "Cmd"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBody:
    """A sandbox or container of Kubernetes that is to be created."""

    identity: DockerIdentity
    labels: Mapping[str, str]  # Docker's
    resources: Mapping[str, Any]  # by Docker's keys
    parent: str  # in Docker's form
    texts: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]]
    envs: tuple[str, ...]  # as Docker has them
    _body: JsonBody = field(repr=False)

    @property
    def sandbox(self) -> bool:
        """Whether it becomes a RunPodSandbox."""
        return self.identity.sandbox

    def fill(self, message: Any, pod: Pod | None = None) -> None:
        """Write it into an empty RunPodSandboxRequest, or CreateContainerRequest. `pod` is the one it goes to."""
        config, owner = message.config, self.identity
        config.metadata.attempt = owner.attempt
        config.labels.update(cri_labels(self.labels))
        config.annotations.update(cri_annotations(self.labels))
        hostconfig.fill(config.linux.resources, hostconfig.values_to_cri(self.resources))
        if self.sandbox:
            message.runtime_handler = RUNTIME_HANDLER
            config.hostname = self.texts["Hostname"]
            _write_pod(config, owner)
            _write_parent(config, self.parent)
            return
        message.pod_sandbox_id = owner.sandbox_id
        config.metadata.name = owner.name
        config.image.image = self.texts["Image"]
        config.working_dir = self.texts["WorkingDir"]
        for name, key in _WORDS:
            getattr(config, name).extend(self.words[key])
        add = config.envs.add
        for env in self.envs:
            name, equals, value = env.partition("=")
            if equals:
                variable = add()
                variable.key, variable.value = name, value.encode()
        _write_pod(message.sandbox_config, owner)
        _write_parent(message.sandbox_config, self.parent)
        if pod is not None:
            message.sandbox_config.metadata.attempt = pod.attempt
            message.sandbox_config.labels.update(pod.labels)
            message.sandbox_config.annotations.update(pod.annotations)

    def edited(self, before: Any, after: Any) -> EditedBody:
        """The body that says what `after` does; `before` is the message as it was filled."""
        body = JsonBodyEdit(self._body)
        labels = changed_labels(
            (before.config.labels, after.config.labels), (before.config.annotations, after.config.annotations)
        )
        if not self.sandbox and ANNOTATION in after.config.annotations:
            sent = hostconfig.read_resources(after.config.linux.resources)
            labels[CREATED] = json.dumps(sent, separators=(",", ":"), sort_keys=True)
        elif CREATED in self.labels:
            labels[CREATED] = None
        if labels:
            written = {key: None if value is None else json_string(value) for key, value in labels.items()}
            body.set_entries(_LABELS, written)
        resources, without_effect = hostconfig.changes(
            self.resources, before.config.linux.resources, after.config.linux.resources, update=False
        )
        host = {key: json.dumps(value) for key, value in resources.items()}
        linux = [(side.config if self.sandbox else side.sandbox_config).linux for side in (before, after)]
        if linux[0].cgroup_parent != linux[1].cgroup_parent:
            host[hostconfig.PARENT] = json_string(hostconfig.parent_to_docker(linux[1].cgroup_parent, self.parent))
        if host:
            body.set_fields(_HOST, host)
        if not self.sandbox:
            self._edit_process(body, before.config, after.config)
        return EditedBody(body.data(), tuple(without_effect))

    def _edit_process(self, body: JsonBodyEdit, before: Any, after: Any) -> None:
        for name, key in _WORDS:
            words = list(getattr(after, name))
            if words != list(getattr(before, name)):
                # An empty list is more than nothing to Docker: it takes the image's own away.
                body.set(key, json.dumps(words, ensure_ascii=False) if words else "null")
        if _only(before, "envs") != _only(after, "envs"):
            self._edit_envs(body, [f"{env.key}={env.value.decode('utf-8', 'replace')}" for env in after.envs])

    def _edit_envs(self, body: JsonBodyEdit, wanted: list[str]) -> None:
        """Variables in their order, in the places they had; an entry that is not a variable stays where it is."""
        replaced: dict[int, str] = {}
        removed: list[int] = []
        done = 0
        for place, one in enumerate(self.envs):
            wants = wanted[done] if done < len(wanted) else None
            if wants == one:
                done += 1
                continue
            name, equals, _ = one.partition("=")
            if equals and wants is not None and wants.partition("=")[0] == name:
                replaced[place] = json_string(wants)
                done += 1
            elif equals:
                removed.append(place)
        body.set_items(_ENV, replaced=replaced, removed=removed, added=[json_string(env) for env in wanted[done:]])


def may_be_kubernetes(raw: bytes) -> bool:
    """Whether a label of Kubernetes can be in a body at all. Where its letters are neither spelt out nor hidden in
    escapes there is none, whatever else is wrong with the body."""
    return LABEL_PREFIX.encode() in raw or _HIDDEN.search(raw) is not None


def image_named(raw: bytes) -> str:
    """The image a body asks for; empty if it names none. Raises UnreadableBody."""
    return JsonBody(raw).string("Image")


def read_create(raw: bytes, params: Mapping[str, str], inherited: Mapping[str, str] | None = None) -> CreateBody | None:
    """The container a body and its query ask for; None if it is not Kubernetes'. Raises UnreadableBody.

    `inherited` are the labels of its image: dockerd gives them to the container, so they count for its identity, and
    for nothing else. Without them a body that cannot be Kubernetes' is not read at all.
    """
    if inherited is None and not may_be_kubernetes(raw):
        return None
    body = JsonBody(raw)
    labels = body.text_map(_LABELS)
    owner = identity({**(inherited or {}), **labels}, params.get("name", ""))
    if owner is None:
        return None
    host = body.object(_HOST)
    _check_members(body, host is not None)
    resources = hostconfig.raw_values(host or ())
    return CreateBody(
        identity=owner,
        labels=labels,
        resources=resources,
        parent=str(resources.pop(hostconfig.PARENT, "")),
        texts={key: body.string(key) for key in ("Hostname", "Image", "WorkingDir")},
        words={key: body.words(key) for _, key in _WORDS},
        envs=body.texts(_ENV),
        _body=body,
    )


def _check_members(body: JsonBody, has_host: bool) -> None:
    """Nothing of HostConfig is beside it: that would count in the one place or the other, and be lost if we write."""
    if has_host:
        odd = next((key for key in _MIXED if body.value(key)), None)
        if odd is not None:
            raise UnreadableBodyError(f"{odd} is not in {_HOST} but beside it")
    elif any(item.value is not None and fold(item.key) not in _MEMBERS for item in body.root.items):
        raise UnreadableBodyError(f"it has no {_HOST} and members that are not its own")


def _only(message: Any, field: str) -> Any:
    """A message with nothing but this. Two of them are compared at once; one by one, thousands of parts take long."""
    found = type(message)()
    found.CopyFrom(message)
    for other, _ in found.ListFields():
        if other.name != field:
            found.ClearField(other.name)
    return found


def _write_pod(config: Any, owner: DockerIdentity) -> None:
    config.metadata.name = owner.pod_name
    config.metadata.uid = owner.uid
    config.metadata.namespace = owner.namespace


def _write_parent(config: Any, parent: str) -> None:
    if parent:
        config.linux.cgroup_parent = hostconfig.parent_to_cri(parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBody:
    """New resources for a container."""

    resources: Mapping[str, Any]  # by Docker's keys
    _body: JsonBody = field(repr=False)

    def fill(self, message: Any, container_id: str) -> None:
        """Write it into an empty UpdateContainerResourcesRequest."""
        message.container_id = container_id
        message.linux.SetInParent()
        hostconfig.fill(message.linux, hostconfig.values_to_cri(self.resources))

    def edited(self, before: Any, after: Any) -> EditedBody:
        """The body that says what `after` does; `before` is the message as it was filled."""
        body = JsonBodyEdit(self._body)
        values, without_effect = hostconfig.changes(self.resources, before.linux, after.linux, update=True)
        for key, value in values.items():
            body.set(key, json.dumps(value))
        if dict(before.annotations) != dict(after.annotations):
            without_effect.append("annotations")
        return EditedBody(body.data(), tuple(without_effect))


def read_update(raw: bytes) -> UpdateBody:
    """What a body asks for. Raises UnreadableBody."""
    body = JsonBody(raw)
    resources = hostconfig.raw_values(tuple((item.key, item.value) for item in body.root.items))
    for key in (hostconfig.KEYS["oom_score_adj"], hostconfig.PARENT):
        resources.pop(key, None)  # dockerd does not look at it
    return UpdateBody(resources=resources, _body=body)


def update_body(message: Any) -> EditedBody:
    """The body for an UpdateContainerResourcesRequest of our own."""
    linux = message.linux
    values, without_effect = hostconfig.changes({}, type(linux)(), linux, update=True)
    return EditedBody(json.dumps(values, separators=(",", ":")).encode(), tuple(without_effect))
