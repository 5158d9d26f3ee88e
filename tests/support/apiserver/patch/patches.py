"""Patches by content type: JSON patch, merge patch (RFC 7386) and strategic merge patch. Pure.

Lists merge only where Kubernetes' types declare a key: conditions by type, containers by name; taints declare none
and are replaced whole. Custom resources know no strategic merge patch.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from interpose.kube.client.api import PatchKind
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.apiserver.problems import bad_request, unsupported_media
from tests.support.apiserver.resources import Kind

# patchMergeKey of Kubernetes' types, by the name of the list. Where a name is used twice, by what the items have.
_MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "webhooks": ("name",),
}
_MERGED_PRIMITIVES: Final = ("finalizers",)
_DIRECTIVE = "$patch"


def apply_patch(kind: Kind, content_type: str, document: Mapping[str, Any], patch: Any) -> dict[str, Any]:
    """The object after the patch, which is not checked yet."""
    accepted = [PatchKind.JSON, PatchKind.MERGE, *([] if kind.custom else [PatchKind.STRATEGIC])]
    if content_type not in accepted:
        raise unsupported_media(accepted)
    if content_type == PatchKind.JSON:
        patched = apply_json_patch(dict(document), patch)
    elif not isinstance(patch, Mapping):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    elif content_type == PatchKind.MERGE:
        patched = merge(document, patch)
    else:
        patched = strategic_merge(document, patch)
    if not isinstance(patched, dict):
        raise bad_request("the patch leaves no object")
    return patched


def merge(document: Any, patch: Any) -> Any:
    """RFC 7386: maps merge, null deletes, everything else is replaced."""
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    merged = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return deepcopy(merged)


def strategic_merge(document: Any, patch: Mapping[str, Any]) -> Any:
    """As `merge`, but lists with a key merge item by item, and $-directives count."""
    if patch.get(_DIRECTIVE) == "replace":
        return {key: deepcopy(value) for key, value in patch.items() if key != _DIRECTIVE}
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    merged = dict(document) if isinstance(document, Mapping) else {}
    if isinstance(kept := patch.get("$retainKeys"), list):
        merged = {key: value for key, value in merged.items() if key in kept}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = strategic_merge(merged.get(key), value)
        elif isinstance(value, list):
            merged[key] = _merge_lists(key, merged.get(key) or [], value)
        else:
            merged[key] = value
    for key, order in patch.items():
        if key.startswith("$setElementOrder/") and isinstance(merged.get(name := key.partition("/")[2]), list):
            merged[name] = _ordered(name, merged[name], order)
    return deepcopy(merged)


def _merge_lists(name: str, present: list[Any], patch: list[Any]) -> list[Any]:
    if name in _MERGED_PRIMITIVES:
        return [*present, *(item for item in patch if item not in present)]
    directives = [item for item in patch if isinstance(item, Mapping) and item.get(_DIRECTIVE)]
    if any(item[_DIRECTIVE] == "replace" for item in directives):
        return [item for item in patch if not (isinstance(item, Mapping) and item.get(_DIRECTIVE))]
    key = _key_of(name, [*patch, *present])
    if key is None:
        return list(patch)
    merged = list(present)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif at is None:
            merged.append(strategic_merge({}, item))
        else:
            merged[at] = strategic_merge(merged[at], item)
    return merged


def _key_of(name: str, items: list[Any]) -> str | None:
    keys = _MERGE_KEYS.get(name, ())
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in keys if any(key in item for item in items)), keys[0] if keys else None)


def _ordered(name: str, items: list[Any], order: list[Any]) -> list[Any]:
    """Items that are named come in the order of the names, the others stay behind them."""
    key = _key_of(name, items)

    def place(item: Any) -> int:
        wanted = [entry.get(key) for entry in order] if key else order
        word = item.get(key) if key else item
        return wanted.index(word) if word in wanted else len(wanted)

    return sorted(items, key=place)
