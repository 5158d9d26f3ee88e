"""Who may fetch a pod's images: the Secrets that `imagePullSecrets` names, and which of them are for which image. Pure.

A Secret that is not among the manifests is no problem: as on a cluster, the image is then fetched as anybody may.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, Items, Report
from interpose.config.documents.yaml import DocumentNode
from interpose.node.pods.manifest.kinds import SUBDOMAIN
from interpose.node.pods.manifest.objects import SECRET, ConfigObject, ConfigObjects
from interpose.node.pods.spec import PodSpec, PullAuth

_MODERN: Final = ".dockerconfigjson"
_OLD: Final = ".dockercfg"
_HUB: Final = "docker.io"
# All of them are one registry.
_HUB_NAMES: Final = (_HUB, "index.docker.io", "registry-1.docker.io")
_NAMES: Final = Items(FieldGroup({"name": SUBDOMAIN}, lambda values: values.get("name", "")), make=tuple)
_TEXTS: Final = {"identitytoken": "identity_token", "registrytoken": "registry_token"}


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """`imagePullSecrets` of a pod."""

    holders: ConfigObjects

    def read(self, node: DocumentNode, key: str, report: Report) -> tuple[PullAuth, ...]:
        """What they say, in their order."""
        found: list[PullAuth] = []
        for index, name in enumerate(_NAMES.read(node, key, report) or ()):
            holder = self.holders.get(SECRET, name)
            try:
                found += () if holder is None else _auths(holder)
            except ValueError as error:
                report.say(node.items[index], f"{key}[{index}]", f"Secret {name} {error}")
        return tuple(found)


def auths_for(pod: PodSpec, image: str) -> tuple[PullAuth, ...]:
    """What to show to the registry of an image, one after the other: those whose names fit, of equals the first.

    The order is the kubelet's, from the last name to the first: a path comes before what it is in, and a letter before
    the star that stands for it.
    """
    wanted = _place(image)
    fitting = [auth for auth in pod.pull_auths if _fits(auth.registry, wanted)]
    return tuple(sorted(fitting, key=lambda auth: auth.registry, reverse=True))


def _fits(registry: str, wanted: str) -> bool:
    host, _, path = registry.partition("/")
    wanted_host, _, wanted_path = wanted.partition("/")
    return _fits_host(host, wanted_host) and (not path or wanted_path == path or wanted_path.startswith(f"{path}/"))


def _fits_host(host: str, wanted: str) -> bool:
    """Label by label, so that a star stands for a part of one and not for several; a port is that port."""
    name, _, port = host.partition(":")
    wanted_name, _, wanted_port = wanted.partition(":")
    labels, wanted_labels = name.split("."), wanted_name.split(".")
    return (
        port == wanted_port
        and len(labels) == len(wanted_labels)
        and all(fnmatchcase(label, pattern) for pattern, label in zip(labels, wanted_labels, strict=True))
    )


def _place(image: str) -> str:
    """Registry and path of an image."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return f"{_HUB if first in _HUB_NAMES else first}/{rest}"
    return f"{_HUB}/{image}"


def _auths(holder: ConfigObject) -> Iterator[PullAuth]:
    """ValueError in words that go on from the name of the Secret; it repeats nothing of what is in there."""
    key = _MODERN if _MODERN in holder.files else _OLD
    if key not in holder.files:
        raise ValueError(f"has neither the key {_MODERN} nor {_OLD}")
    try:
        document: Any = json.loads(holder.files[key])
    except (ValueError, RecursionError):
        raise ValueError(f"has no JSON under {key}") from None
    if key == _MODERN and isinstance(document, dict):
        document = document.get("auths", {})
    if not isinstance(document, dict) or not all(isinstance(entry, dict) for entry in document.values()):
        raise ValueError(f"has no registries under {key}")
    return (_auth(registry, entry) for registry, entry in document.items())


def _auth(registry: str, entry: Mapping[str, Any]) -> PullAuth:
    found = {ours: str(entry[theirs]) for theirs, ours in _TEXTS.items() if entry.get(theirs)}
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if not username and entry.get("auth"):
        try:
            username, _, password = base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
        except ValueError:
            raise ValueError("has an auth that is not base64") from None
    return PullAuth(registry=_registry(registry), username=username, password=password, **found)


def _registry(text: str) -> str:
    name = text.removeprefix("https://").removeprefix("http://").rstrip("/")
    host, _, path = name.partition("/")
    path = "" if path in ("v1", "v2") else path
    host = _HUB if host in _HUB_NAMES else host
    return f"{host}/{path}" if path else host
