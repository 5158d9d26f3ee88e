"""POST /containers/{id}/update: the body as CRI's UpdateContainerResources, and back.

Both are patches in which zero and empty say nothing. A body that nobody changed stays the same object. Pure; messages
are duck-typed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interpose.relay.docker.translate import hostconfig
from interpose.relay.docker.translate.body import Body, Edited, Editing


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New resources for a container."""

    resources: Mapping[str, Any]  # by Docker's keys
    _body: Body = field(repr=False)

    def fill(self, message: Any, container_id: str) -> None:
        """Write it into an empty UpdateContainerResourcesRequest."""
        message.container_id = container_id
        message.linux.SetInParent()
        hostconfig.fill(message.linux, hostconfig.shown(self.resources))

    def edited(self, before: Any, after: Any) -> Edited:
        """The body that says what `after` does; `before` is the message as it was filled."""
        body = Editing(self._body)
        values, without_effect = hostconfig.changes(self.resources, before.linux, after.linux, update=True)
        for key, value in values.items():
            body.set(key, json.dumps(value))
        if dict(before.annotations) != dict(after.annotations):
            without_effect.append("annotations")
        return Edited(body.data(), tuple(without_effect))


def read(raw: bytes) -> Update:
    """What a body asks for. Raises UnreadableBody."""
    body = Body(raw)
    resources = hostconfig.raw_values(tuple((item.key, item.value) for item in body.root.items))
    for key in (hostconfig.KEYS["oom_score_adj"], hostconfig.PARENT):
        resources.pop(key, None)  # dockerd does not look at it
    return Update(resources=resources, _body=body)


def body_of(message: Any) -> Edited:
    """The body for an UpdateContainerResourcesRequest of our own."""
    linux = message.linux
    values, without_effect = hostconfig.changes({}, type(linux)(), linux, update=True)
    return Edited(json.dumps(values, separators=(",", ":")).encode(), tuple(without_effect))
