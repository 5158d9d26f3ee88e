"""Which changes of the Node clients may request, and the patch that is sent for them. Pure.

Labels, annotations and taints, by the operations of RFC 6902, and the capacity of extended resources; never a name of
Kubernetes itself. A request is carried out as a whole or refused with every reason against it, each with the number of
its operation, path and value.

A list can only be patched by index, so whether an operation touches a taint of Kubernetes itself is known only with the
present list. Invariant: those taints are the same before and after each operation.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from interpose.core.model.jsonpatch import PatchOperation
from interpose.core.model.quantity import parse_quantity
from interpose.core.model.text import quoted
from interpose.kube.agent.node_keys import EVERYTHING, Writable, check_label_value, check_name, is_kubernetes_name

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
        raise ValueError(f"{_describe(value)} is not a taint: expected an object with key, value and effect")
    if unknown := sorted(set(value) - _KEYS):
        raise ValueError(f"{quoted(unknown[0])} is not known in a taint: expected key, value and effect")
    key, text, effect = value.get("key"), value.get("value"), value.get("effect")
    if not isinstance(key, str):
        raise ValueError(f"key of a taint is {_describe(key)}: expected text")
    check_name(key)
    if text is not None:
        if not isinstance(text, str):
            raise ValueError(f"value of taint {key} is {_describe(text)}: expected text")
        check_label_value(text)
    if effect not in _EFFECTS:
        raise ValueError(f"effect of taint {key} is {_describe(effect)}: expected one of {', '.join(_EFFECTS)}")
    return value


def read_taints(value: object) -> list[Taint]:
    """A whole list; ValueError if it is none, too long, or has one twice."""
    if not isinstance(value, list):
        raise ValueError(f"{_describe(value)} is not a list of taints")
    taints = [read_taint(taint) for taint in value]
    if len(taints) > _MOST:
        raise ValueError(f"{len(taints)} taints are more than {_MOST}")
    keys = [(taint["key"], taint["effect"]) for taint in taints]
    for key, effect in keys:
        if keys.count((key, effect)) > 1:
            raise ValueError(f"taint {key} with effect {effect} appears twice")
    return taints


def patch_taints(taints: Sequence[Taint], op: str, position: str, value: Any, names: Writable) -> list[Taint]:
    """The list after one operation on the whole of it (place "") or on one place of it.

    ValueError if that may not be, UnmetError if the list is not as the operation takes it to be.
    """
    after = list(taints)
    if not position:
        if op == "test":
            _test([_taint_key(taint) for taint in taints], [_taint_key(taint) for taint in value], "/spec/taints")
        else:
            after = [] if op == "remove" else value
    elif op == "add":
        after.insert(_index(position, len(taints) + 1), value)
    else:
        index = _index(position, len(taints))
        if op == "test":
            _test(_taint_key(taints[index]), _taint_key(value), f"/spec/taints/{position}")
        else:
            after[index : index + 1] = [] if op == "remove" else [value]
    _check_change(taints, after, names)
    # A taint that stays is sent as it was found: it may know since when it is there.
    found = {_taint_key(taint): taint for taint in taints}
    return read_taints([found.get(_taint_key(taint), taint) for taint in after])


def _index(position: str, end: int) -> int:
    index = end - 1 if position == _END else int(position)
    if index >= end:
        raise UnmetError(f"there is no place {position} in the node's taints")
    return index


def _test(found: object, expected: object, path: str) -> None:
    if found != expected:
        raise UnmetError(f"{path} is not as tested: it was changed meanwhile")


def _check_change(before: Sequence[Taint], after: Sequence[Taint], names: Writable) -> None:
    changed = {_taint_key(taint) for taint in before} ^ {_taint_key(taint) for taint in after}
    for key, _, effect in sorted(changed):
        if is_kubernetes_name(key):
            raise ValueError(f"taint {key} with effect {effect} is of Kubernetes and may not be changed")
        names.check(key)


def _taint_key(taint: Taint) -> tuple[str, str, str]:
    """What tells taints apart; since when one is there does not."""
    return taint["key"], taint.get("value") or "", taint["effect"]


def _describe(value: object) -> str:
    return quoted(json.dumps(value))


JsonPatch: TypeAlias = list[dict[str, Any]]

MAX_OPERATIONS: Final = 100
_MAX_ANNOTATION: Final = 256 * 1024  # what Kubernetes takes for all of a node
_WRITES: Final = ("add", "replace", "remove")
_OPS: Final = (*_WRITES, "test")
_TAINTS: Final = "/spec/taints"
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})
_PATHS: Final = re.compile(
    r"/metadata/(?P<map>labels|annotations)(/(?P<key>[^/]+))?|/spec/taints(/(?P<place>0|[1-9][0-9]{0,3}|-))?"
)
_ESCAPE: Final = re.compile(r"~(?![01])")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStep:
    """An operation that may be carried out, as far as that is known without the node."""

    number: int
    op: str
    path: str
    value: Any = None
    whole: str = ""  # labels or annotations: an empty map is to be put there
    position: str | None = None  # in the list of taints; empty is the whole list


class PatchRefusedError(ValueError):
    """A request that is not carried out, and every reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))


def read_steps(operations: Sequence[PatchOperation], names: Writable = EVERYTHING) -> list[PatchStep]:
    """What the operations mean; PatchRefusedError if one of them may not be. `names` are those that may be changed."""
    if not operations:
        raise PatchRefusedError(["no operations"])
    if len(operations) > MAX_OPERATIONS:
        raise PatchRefusedError([f"{len(operations)} operations are more than {MAX_OPERATIONS}"])
    steps, problems = [], []
    for number, operation in enumerate(operations):
        try:
            steps.append(_step(number, operation, names))
        except ValueError as error:
            problems.append(_problem(number, operation.op, operation.path, error))
    if problems:
        raise PatchRefusedError(problems)
    return steps


def needs_node(steps: Sequence[PatchStep]) -> bool:
    """Whether it depends on the node what they do."""
    return any(step.whole or step.position is not None for step in steps)


def node_patch(steps: Sequence[PatchStep], node: Mapping[str, Any], names: Writable = EVERYTHING) -> JsonPatch:
    """The patch to send. `node` counts only if it is needed; the patch then fails if it is another one by now.

    PatchRefusedError if something may not be done to this node, UnmetError if the node is not as the operations take it
    to be.
    """
    patch: JsonPatch = []
    fixed = False  # whether the patch depends on this very version of the node
    before = node.get("spec", {}).get("taints")
    taints: Sequence[Taint] = before or ()
    for step in steps:
        if step.position is not None:
            try:
                taints = patch_taints(taints, step.op, step.position, step.value, names)
            except UnmetError as error:
                raise UnmetError(_problem(step.number, step.op, step.path, error)) from None
            except ValueError as error:
                raise PatchRefusedError([_problem(step.number, step.op, step.path, error)]) from None
        elif not step.whole:
            patch.append(_plain(step))
        elif not node.get("metadata", {}).get(step.whole):
            # Only where there is none: it would remove all that are there.
            patch.append(_plain(step))
            fixed = True
    if any(step.position is not None for step in steps):
        if before:
            patch.append({"op": "test", "path": _TAINTS, "value": before})
        else:
            fixed = True
        if list(taints) != list(before or ()):
            patch.append({"op": "add", "path": _TAINTS, "value": list(taints)})
    if fixed:
        version = node.get("metadata", {}).get("resourceVersion", "")
        patch.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": version})
    return patch


def has_writes(patch: JsonPatch) -> bool:
    """Whether a patch changes anything."""
    return any(operation["op"] in _WRITES for operation in patch)


def capacity_patch(capacities: Mapping[str, str], names: Writable = EVERYTHING) -> dict[str, Any]:
    """The merge patch of a node that publishes extended resources; PatchRefusedError if one of them may not be.

    A JSON patch cannot do that for a node that has no capacities yet, as before its kubelet has first reported.
    """
    if not capacities:
        raise PatchRefusedError(["no capacities"])
    if len(capacities) > MAX_OPERATIONS:
        raise PatchRefusedError([f"{len(capacities)} capacities are more than {MAX_OPERATIONS}"])
    amounts: dict[str, str] = {}
    problems = []
    for name, text in sorted(capacities.items()):
        try:
            amounts[name] = str(_amount(name, text, names))
        except ValueError as error:
            problems.append(f"capacity {quoted(name)}: {error}")
    if problems:
        raise PatchRefusedError(problems)
    return {"status": {"capacity": amounts}}


def _amount(name: str, text: str, names: Writable) -> int:
    if name in _NATIVE or name.startswith("hugepages-"):
        raise ValueError("is a resource of Kubernetes, which the kubelet publishes itself")
    if "/" not in name or "." not in name.rpartition("/")[0]:
        raise ValueError("is not an extended resource: its name needs a domain, as in example.com/cores")
    names.check(name)
    amount = parse_quantity(text, negative=False)
    if amount.denominator != 1:
        raise ValueError(f"{quoted(text)} is not a whole number")
    return amount.numerator


def _plain(step: PatchStep) -> dict[str, Any]:
    value = {} if step.op == "remove" else {"value": step.value}
    return {"op": step.op, "path": step.path, **value}


def _problem(number: int, op: str, path: str, error: ValueError) -> str:
    return f"operation {number} ({op[:20]} {quoted(path)}): {error}"


def _step(number: int, operation: PatchOperation, names: Writable) -> PatchStep:
    op, path, text = operation
    if op not in _OPS:
        raise ValueError(f"{quoted(op)} is not one of {', '.join(_OPS)}")
    match = _PATHS.fullmatch(path)
    if match is None:
        raise ValueError(
            "may not be changed: expected /metadata/labels/KEY, /metadata/annotations/KEY (with ~1 for a slash), "
            "/spec/taints, /spec/taints/NUMBER or /spec/taints/-"
        )
    if match["map"] is None:
        return _taint_step(number, op, path, match["place"] or "", text)
    if match["key"] is None:
        return _whole_step(number, op, path, match["map"], text)
    if _ESCAPE.search(match["key"]):
        raise ValueError("has a ~ that is neither ~0 nor ~1")
    key = match["key"].replace("~1", "/").replace("~0", "~")
    if op == "test":
        check_name(key)
    else:
        names.check(key)
    value = None if op == "remove" else _VALUES[match["map"]](text)
    return PatchStep(number=number, op=op, path=path, value=value)


def _taint_step(number: int, op: str, path: str, position: str, text: str) -> PatchStep:
    if position == "-" and op != "add":
        raise ValueError("there is nothing behind the last taint: only add can be done there")
    value = None
    if op != "remove":
        value = (read_taint if position else read_taints)(_json(text))
    return PatchStep(number=number, op=op, path=path, value=value, position=position)


def _whole_step(number: int, op: str, path: str, which: str, text: str) -> PatchStep:
    if op == "test":
        return PatchStep(number=number, op=op, path=path, value=_json(text))
    if op != "add" or _json(text) != {}:
        raise ValueError("can only be added as a whole, with the value {}, where there is none")
    return PatchStep(number=number, op=op, path=path, value={}, whole=which)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"value {quoted(text)} is not JSON") from None


def _text(value: str) -> str:
    """A value that is text: JSON with quotes, or the bare text itself, which older clients send."""
    return str(_json(value)) if value.lstrip().startswith('"') else value


def _label(value: str) -> str:
    text = _text(value)
    check_label_value(text)
    return text


def _annotation(value: str) -> str:
    text = _text(value)
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_ANNOTATION:
        raise ValueError(f"a value of {len(text)} characters is longer than an annotation may be")
    return text


_VALUES: Final[Mapping[str, Callable[[str], str]]] = {"labels": _label, "annotations": _annotation}
