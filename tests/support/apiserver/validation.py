"""Whether an object may be as it is: names, labels, sizes, and what our own objects stumble over. Pure.

Only rules that a real API server has too; the words are its words, shortened where it goes on with examples.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from interpose.kube.client.api import CONFIG_MAPS, EVENTS, NODES, SECRETS, Object, Resource
from tests.support.apiserver.problems import Cause
from tests.support.apiserver.resources import Kind, NameRule

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|[KMGTPE]i|[numkMGTPE])?")
_MOST_DATA = 1 << 20
_MOST_ANNOTATIONS = 256 << 10
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def name_problem(rule: NameRule, name: str) -> str:
    """What is wrong with a name, or nothing."""
    if rule is NameRule.SEGMENT:
        return "may not contain '/' or '%'" if "/" in name or "%" in name or name in (".", "..") else ""
    pattern, most, what = _NAME_RULES[rule]
    if len(name) > most:
        return f"must be no more than {most} characters"
    return "" if pattern.fullmatch(name) else what


_NAME_RULES: Final = {
    NameRule.SUBDOMAIN: (
        _SUBDOMAIN,
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
    ),
    NameRule.LABEL: (
        _LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'",
    ),
}


def causes(kind: Kind, candidate: Object, previous: Object | None = None) -> list[Cause]:
    """Everything that is wrong with an object that is to be stored."""
    return [
        *_metadata(kind, candidate["metadata"]),
        *_SPECIAL.get(kind.resource, _nothing)(candidate, previous or {}),
    ]


def _invalid(field: str, value: Any, why: str) -> Cause:
    return Cause(field, f'Invalid value: "{value}": {why}')


def _metadata(kind: Kind, metadata: Mapping[str, Any]) -> Iterator[Cause]:
    name = metadata.get("name") or ""
    if not name:
        yield Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
    elif problem := name_problem(kind.names, name):
        yield _invalid("metadata.name", name, problem)
    for key, value in (metadata.get("labels") or {}).items():
        if not _qualified(key):
            yield _invalid("metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
        if not isinstance(value, str) or len(value) > 63 or (value and not _WORD.fullmatch(value)):
            yield _invalid(
                "metadata.labels", value, "a valid label must be an empty string or consist of alphanumeric ..."
            )
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if not _qualified(key.lower()):
            yield _invalid(
                "metadata.annotations", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        yield Cause(
            "metadata.annotations", f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes", "FieldValueTooLong"
        )


def _qualified(key: str) -> bool:
    """A name, or prefix/name."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _WORD.fullmatch(name) is not None


def _nothing(_candidate: Object, _previous: Object) -> Iterator[Cause]:
    return iter(())


def _data(candidate: Object, previous: Object) -> Iterator[Cause]:
    total = 0
    for part in ("data", "binaryData"):
        for key, value in (candidate.get(part) or {}).items():
            total += len(str(value).encode())
            if not _DATA_KEY.fullmatch(key) or len(key) > 253 or key in (".", ".."):
                why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
                yield _invalid(f"{part}[{key}]", key, why)
    if total > _MOST_DATA:
        yield Cause("[]", f"Too long: may not be more than {_MOST_DATA} bytes", "FieldValueTooLong")
    if previous.get("immutable"):
        for part in ("data", "binaryData", "immutable"):
            if candidate.get(part) != previous.get(part):
                yield Cause(part, "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden")


def _event(candidate: Object, _previous: Object) -> Iterator[Cause]:
    involved = (candidate.get("involvedObject") or {}).get("namespace") or ""
    namespace = candidate["metadata"].get("namespace") or ""
    if namespace != (involved or "default"):
        yield _invalid("involvedObject.namespace", involved, "does not match event.namespace")


def _node(candidate: Object, _previous: Object) -> Iterator[Cause]:
    seen = set()
    for position, taint in enumerate((candidate.get("spec") or {}).get("taints") or []):
        where = f"metadata.taints[{position}]"  # that is where a real server says they are
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        if not key or not _qualified(key):
            yield _invalid(f"{where}.key", key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
        if taint.get("value") and not _WORD.fullmatch(taint["value"]):
            yield _invalid(f"{where}.value", taint["value"], "a valid label must be an empty string or consist of ...")
        if not effect:
            yield Cause(f"{where}.effect", "Required value", "FieldValueRequired")
        elif effect not in _EFFECTS:
            choice = ", ".join(f'"{word}"' for word in _EFFECTS)
            yield Cause(
                f"{where}.effect",
                f'Unsupported value: "{effect}": supported values: {choice}',
                "FieldValueNotSupported",
            )
        if (key, effect) in seen:
            yield Cause(
                f"{where}",
                f'Duplicate value: "{key}": taints must be unique by key and effect pair',
                "FieldValueDuplicate",
            )
        seen.add((key, effect))
    for part in ("capacity", "allocatable"):
        for name, amount in ((candidate.get("status") or {}).get(part) or {}).items():
            where = f"status.{part}.{name}"
            if not _QUANTITY.fullmatch(str(amount)):
                yield _invalid(where, amount, "quantities must match the regular expression")
            elif _is_extended(name) and not str(amount).isdecimal():
                yield _invalid(where, amount, "must be an integer")


def _is_extended(name: str) -> bool:
    """Resources that are counted in whole pieces: those of a domain that is not Kubernetes' own."""
    domain = name.rpartition("/")[0]
    return bool(domain) and not f".{domain}".endswith(".kubernetes.io")


_SPECIAL: Final[Mapping[Resource, Callable[[Object, Object], Iterator[Cause]]]] = {
    CONFIG_MAPS: _data,
    SECRETS: _data,
    EVENTS: _event,
    NODES: _node,
}
