"""What a patch does to the taints of a node, worked out before it is sent. Pure.

A list can only be patched by place, so whether an operation touches a taint of Kubernetes itself is known only with the
list at hand. Invariant: those are the same before and after each operation.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from interpose.core.model.text import quoted
from interpose.kube.agent.node_keys import Writable, check_label_value, check_name, of_kubernetes

Taint: TypeAlias = Mapping[str, Any]
_MOST: Final = 100
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEYS: Final = frozenset({"key", "value", "effect", "timeAdded"})
_END: Final = "-"


class UnmetError(ValueError):
    """A patch is right in itself and does not fit the node as it is: a `test` fails, a place is not there."""


def read_taint(value: object) -> Taint:
    """One taint; ValueError if it is none."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not a taint: expected an object with key, value and effect")
    if unknown := sorted(set(value) - _KEYS):
        raise ValueError(f"{quoted(unknown[0])} is not known in a taint: expected key, value and effect")
    key, text, effect = value.get("key"), value.get("value"), value.get("effect")
    if not isinstance(key, str):
        raise ValueError(f"key of a taint is {_shown(key)}: expected text")
    check_name(key)
    if text is not None:
        if not isinstance(text, str):
            raise ValueError(f"value of taint {key} is {_shown(text)}: expected text")
        check_label_value(text)
    if effect not in _EFFECTS:
        raise ValueError(f"effect of taint {key} is {_shown(effect)}: expected one of {', '.join(_EFFECTS)}")
    return value


def read_taints(value: object) -> list[Taint]:
    """A whole list; ValueError if it is none, too long, or has one twice."""
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list of taints")
    taints = [read_taint(one) for one in value]
    if len(taints) > _MOST:
        raise ValueError(f"{len(taints)} taints are more than {_MOST}")
    places = [(one["key"], one["effect"]) for one in taints]
    for key, effect in places:
        if places.count((key, effect)) > 1:
            raise ValueError(f"taint {key} with effect {effect} appears twice")
    return taints


def patched(taints: Sequence[Taint], op: str, place: str, value: Any, names: Writable) -> list[Taint]:
    """The list after one operation on the whole of it (place "") or on one place of it.

    ValueError if that may not be, UnmetError if the list is not as the operation takes it to be.
    """
    after = list(taints)
    if not place:
        if op == "test":
            _test([_meaning(one) for one in taints], [_meaning(one) for one in value], "/spec/taints")
        else:
            after = [] if op == "remove" else value
    elif op == "add":
        after.insert(_index(place, len(taints) + 1), value)
    else:
        index = _index(place, len(taints))
        if op == "test":
            _test(_meaning(taints[index]), _meaning(value), f"/spec/taints/{place}")
        else:
            after[index : index + 1] = [] if op == "remove" else [value]
    _check_change(taints, after, names)
    # A taint that stays is sent as it was found: it may know since when it is there.
    found = {_meaning(one): one for one in taints}
    return read_taints([found.get(_meaning(one), one) for one in after])


def _index(place: str, end: int) -> int:
    index = end - 1 if place == _END else int(place)
    if index >= end:
        raise UnmetError(f"there is no place {place} in the node's taints")
    return index


def _test(found: object, expected: object, path: str) -> None:
    if found != expected:
        raise UnmetError(f"{path} is not as tested: it was changed meanwhile")


def _check_change(before: Sequence[Taint], after: Sequence[Taint], names: Writable) -> None:
    changed = {_meaning(one) for one in before} ^ {_meaning(one) for one in after}
    for key, _, effect in sorted(changed):
        if of_kubernetes(key):
            raise ValueError(f"taint {key} with effect {effect} is of Kubernetes and may not be changed")
        names.check(key)


def _meaning(taint: Taint) -> tuple[str, str, str]:
    """What tells taints apart; since when one is there does not."""
    return taint["key"], taint.get("value") or "", taint["effect"]


def _shown(value: object) -> str:
    return quoted(json.dumps(value))
