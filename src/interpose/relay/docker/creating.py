"""POST /containers/create of Kubernetes' containers: the body as CRI's RunPodSandbox or CreateContainer, and back.

A body that nobody changed stays the same object; of one that somebody did, only the members that say it are written.
A value taken away is written as zero, empty or null: to Docker that is "not set", and the key stays where it was.

Docker shows later only what a container has, not what it was created with. Where the chain notes what was requested
(see `store.requested`), a label keeps what was sent, and `inspecting` reads it; one that a caller brings along is taken
away. Pure; messages are duck-typed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.model.pod import Pod
from interpose.relay.docker import hostconfig, parents
from interpose.relay.docker.bodies import Body, Edited, as_text
from interpose.relay.docker.jsontext import UnreadableBody, quote
from interpose.relay.docker.labels import (
    CREATED,
    RESERVED,
    Identity,
    changed_labels,
    identity,
    shown_annotations,
    shown_labels,
)
from interpose.store.requested import ANNOTATION

RUNTIME_HANDLER: Final = "docker"
_LABELS: Final = "Labels"
_HOST: Final = "HostConfig"
_PARENT: Final = "CgroupParent"
_ENV: Final = "Env"
# Until API 1.18 these were members of the body itself. Older dockerds still mix them in, by rules of their own.
_LEGACY: Final = (*hostconfig.KEYS.values(), hostconfig.NANO_CPUS, _PARENT, "Cpuset")
_WORDS: Final = (("command", "Entrypoint"), ("args", "Cmd"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A sandbox or container of Kubernetes that is to be created."""

    identity: Identity
    labels: Mapping[str, str]  # Docker's
    resources: Mapping[str, Any]  # by Docker's keys
    parent: str  # in Docker's form
    texts: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]]
    envs: tuple[str, ...]  # as Docker has them
    _raw: bytes = field(repr=False)

    @property
    def sandbox(self) -> bool:
        """Whether it becomes a RunPodSandbox."""
        return self.identity.sandbox

    def fill(self, message: Any, pod: Pod | None = None) -> None:
        """Write it into an empty RunPodSandboxRequest, or CreateContainerRequest. `pod` is the one it goes to."""
        config, whose = message.config, self.identity
        config.metadata.attempt = whose.attempt
        config.labels.update(shown_labels(self.labels))
        config.annotations.update(shown_annotations(self.labels))
        hostconfig.fill(config.linux.resources, hostconfig.shown(self.resources))
        if self.sandbox:
            message.runtime_handler = RUNTIME_HANDLER
            config.hostname = self.texts["Hostname"]
            _write_pod(config, whose)
            _write_parent(config, self.parent)
            return
        message.pod_sandbox_id = whose.sandbox_id
        config.metadata.name = whose.name
        config.image.image = self.texts["Image"]
        config.working_dir = self.texts["WorkingDir"]
        for name, key in _WORDS:
            getattr(config, name).extend(self.words[key])
        for one in self.envs:
            name, equals, value = one.partition("=")
            if equals:
                config.envs.add(key=name, value=value.encode())
        _write_pod(message.sandbox_config, whose)
        _write_parent(message.sandbox_config, self.parent)
        if pod is not None:
            message.sandbox_config.metadata.attempt = pod.attempt
            message.sandbox_config.labels.update(pod.labels)
            message.sandbox_config.annotations.update(pod.annotations)

    def edited(self, before: Any, after: Any) -> Edited:
        """The body that says what `after` does; `before` is the message as it was filled."""
        body = Body(self._raw)
        labels = changed_labels(
            (before.config.labels, after.config.labels), (before.config.annotations, after.config.annotations)
        )
        if not self.sandbox and ANNOTATION in after.config.annotations:
            sent = hostconfig.taken(after.config.linux.resources)
            labels[CREATED] = json.dumps(sent, separators=(",", ":"), sort_keys=True)
        elif CREATED in self.labels:
            labels[CREATED] = None
        if labels:
            written = {key: None if value is None else quote(value) for key, value in labels.items()}
            body.set_entries(_LABELS, body.object(_LABELS), written)
        resources, without_effect = hostconfig.changes(
            self.resources, before.config.linux.resources, after.config.linux.resources, update=False
        )
        host = {key: json.dumps(value) for key, value in resources.items()}
        linux = [(one.config if self.sandbox else one.sandbox_config).linux for one in (before, after)]
        if linux[0].cgroup_parent != linux[1].cgroup_parent:
            host[_PARENT] = quote(parents.written(linux[1].cgroup_parent, self.parent))
        if host:
            body.set_fields(_HOST, body.object(_HOST), host)
        if not self.sandbox:
            self._edit_process(body, before.config, after.config)
        return Edited(body.data(), tuple(without_effect))

    def _edit_process(self, body: Body, before: Any, after: Any) -> None:
        for name, key in _WORDS:
            words = list(getattr(after, name))
            if words != list(getattr(before, name)):
                # An empty list is more than nothing to Docker: it takes the image's own away.
                body.set(key, json.dumps(words, ensure_ascii=False) if words else "null")
        wanted = [(one.key, one.value) for one in after.envs]
        if wanted != [(one.key, one.value) for one in before.envs]:
            self._edit_envs(body, [f"{key}={value.decode('utf-8', 'replace')}" for key, value in wanted])

    def _edit_envs(self, body: Body, wanted: list[str]) -> None:
        """Variables in their order, in the places they had; an entry that is no variable stays where it is."""
        held = body.array(_ENV)
        if held is None:
            body.set(_ENV, json.dumps(wanted, ensure_ascii=False))
            return
        replaced: dict[int, str] = {}
        removed: list[int] = []
        done = 0
        for place, one in enumerate(self.envs):
            name, equals, _ = one.partition("=")
            if not equals:
                continue
            if done < len(wanted) and wanted[done].partition("=")[0] == name:
                if wanted[done] != one:
                    replaced[place] = quote(wanted[done])
                done += 1
            else:
                removed.append(place)
        body.set_items(held, replaced=replaced, removed=removed, added=[quote(one) for one in wanted[done:]])


def read(raw: bytes, params: Mapping[str, str]) -> Creation | None:
    """The container a body and its query ask for; None if it is not Kubernetes'. Raises UnreadableBody.

    Where the letters of Kubernetes' labels are nowhere, spelt out or possibly hidden in escapes, nothing is read at
    all: such a body is not Kubernetes' whatever is wrong with it.
    """
    if RESERVED.encode() not in raw and b"\\u" not in raw:
        return None
    body = Body(raw)
    held = body.object(_LABELS)
    labels = {} if held is None else {key: as_text(item.value, _LABELS) for key, item in held.entries().items()}
    whose = identity(labels, params.get("name", ""))
    if whose is None:
        return None
    for key in _LEGACY:
        if (item := body.root.member(key)) is not None and item.value:
            raise UnreadableBody(f"{key} is not in {_HOST} but beside it")
    host = body.object(_HOST)
    parent = None if host is None else host.member(_PARENT)
    envs = body.array(_ENV)
    return Creation(
        identity=whose,
        labels=labels,
        resources={} if host is None else hostconfig.raw_values(host),
        parent="" if parent is None else as_text(parent.value, _PARENT),
        texts={key: body.string(key) for key in ("Hostname", "Image", "WorkingDir")},
        words={key: tuple(body.words(key)) for _, key in _WORDS},
        envs=() if envs is None else tuple(as_text(one.value, _ENV) for one in envs.items),
        _raw=raw,
    )


def _write_pod(config: Any, whose: Identity) -> None:
    config.metadata.name = whose.pod_name
    config.metadata.uid = whose.uid
    config.metadata.namespace = whose.namespace


def _write_parent(config: Any, parent: str) -> None:
    if parent:
        config.linux.cgroup_parent = parents.shown(parent)
