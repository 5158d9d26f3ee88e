"""Affinities between containers: which others a container would be near to, or far from.

Annotations of the pod, in YAML: `affinity` and `anti-affinity`, in the domains `resource-policy.nri.io/` and
`cri-resource-manager.intel.com/`. The simple form names containers of the same pod and holds in both directions:
`{a: [b, c]}`. The full form has a list for each container: `{a: [{scope: EXPR, match: EXPR, weight: 10}]}`, where EXPR
is `{key: labels/app, operator: In, values: [web]}`; without a scope it is about the same pod. Invariant: a container
has no affinity to itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.policy.annotations import FAMILIES
from interpose.core.policy.expressions import Expression, Operator, expression_problem
from interpose.core.policy.request import Key, Request
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from interpose.core.policy.topology_aware.yaml_values import Value, read_yaml

COLOCATION: Final = 10  # weight of what the options say
_MAX_WEIGHT: Final = 1000
_NAMES: Final = (("affinity", 1), ("anti-affinity", -1))  # with their signs
_FIELDS: Final = frozenset(("scope", "match", "weight"))
_EXPRESSION_FIELDS: Final = frozenset(("key", "operator", "values"))
# Of two pools one of which is above the other, each step between them makes an affinity smaller by this factor.
_LESS, _THAN = 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """How much a container wants to be near those that match; less than 0: far from them."""

    weight: int
    name: str = ""  # a container of the same pod
    scope: Expression | None = None  # None: the same pod
    match: Expression | None = None

    def holds(self, request: Request, other: Request) -> bool:
        """Whether another container is one of those."""
        if self.scope is None and request.key.pod_id != other.key.pod_id:
            return False
        if self.name:
            return other.key.name == self.name
        return all(expression is None or expression.matches(other) for expression in (self.scope, self.match))


def read_affinities(request: Request) -> tuple[Affinity, ...]:
    """The affinities of a container by its pod's annotations; ValueError if one cannot be read."""
    if not request.pod_annotations:
        return ()
    found: list[Affinity] = []
    for name, sign in _NAMES:
        for family in FAMILIES:
            key = f"{family}/{name}"
            if (text := request.pod_annotations.get(key)) is not None:
                found += _read(text, f"annotation {key}", request.key.name, sign)
                break
    return tuple(found)


def weigh_pools(
    request: Request, affinities: Iterable[Affinity], others: Iterable[tuple[Request, int]]
) -> dict[int, int]:
    """By pool: the weights of a container's affinities to those in it; `others` come with their pools."""
    found: dict[int, int] = {}
    for other, pool in others:
        if other.key != request.key:
            for affinity in affinities:
                if affinity.holds(request, other):
                    found[pool] = found.get(pool, 0) + affinity.weight
    return found


def affinity_scores(tree: PoolTree, weights: Mapping[int, int]) -> list[int]:
    """By pool: what all weights come to in it, in whole numbers. What is in pools beside it does not count."""
    steps = max(pool.depth for pool in tree.pools)
    scores = [0] * len(tree.pools)
    for number, weight in weights.items():
        home = tree.pools[number]
        for other in {*home.path, *home.below}:
            far = abs(tree.pools[other].depth - home.depth)
            scores[other] += weight * _LESS**far * _THAN ** (steps - far)
    return scores


def shown_score(tree: PoolTree, score: int) -> float:
    """A score as people know it: that of a container in the same pool is its weight."""
    steps: int = max(pool.depth for pool in tree.pools)
    whole: int = _THAN**steps
    return round(score / whole, 3)


class RequestIndex:
    """Containers with the numbers of their pools."""

    def __init__(self) -> None:
        self._requests: dict[Key, tuple[Request, int]] = {}

    def __iter__(self) -> Iterator[tuple[Request, int]]:
        return iter(self._requests.values())

    def put(self, request: Request, pool: int) -> None:
        self._requests[request.key] = request, pool

    def drop(self, key: Key) -> None:
        self._requests.pop(key, None)

    def colocated(self, request: Request, *, pods: bool, namespaces: bool) -> dict[int, int]:
        """The weights if containers of a pod, or of a namespace, shall be near each other."""
        found: dict[int, int] = {}
        for other, pool in self._requests.values():
            near = pods and other.key.pod_id == request.key.pod_id
            alike = namespaces and other.namespace == request.namespace
            if other.key != request.key and (near or alike):
                found[pool] = found.get(pool, 0) + COLOCATION * (near + alike)
        return found


# -- reading


def _read(text: str, where: str, container: str, sign: int) -> Iterator[Affinity]:
    values = read_yaml(text, where)
    if not isinstance(values, Mapping):
        raise ValueError(f"{where}: is not a map of containers")
    names = {name: _names(listed) for name, listed in values.items()}
    if None not in names.values():
        near = {other for other in names.get(container) or () if other != container}
        near |= {other for other, listed in names.items() if container in (listed or ()) and other != container}
        yield from (Affinity(weight=sign, name=name) for name in sorted(near))
        return
    for name, listed in values.items():
        if not isinstance(listed, tuple):
            raise ValueError(f"{where}.{name}: is not a list")
        found = [_affinity(item, f"{where}.{name}[{index}]", sign) for index, item in enumerate(listed)]
        if name == container:
            yield from found


def _names(listed: Value) -> tuple[str, ...] | None:
    """The names in a list of nothing else; None if it is something else."""
    if not isinstance(listed, tuple):
        return None
    names = tuple(name for name in listed if isinstance(name, str) and name)
    return names if len(names) == len(listed) else None


def _affinity(item: Value, where: str, sign: int) -> Affinity:
    if not isinstance(item, Mapping) or set(item) - _FIELDS:
        raise ValueError(f"{where}: is neither a list of containers nor has only scope, match and weight")
    if item.get("match") is None:
        raise ValueError(f"{where}: match is missing")
    text = item.get("weight")
    try:
        weight = 1 if text is None else int(str(text))
    except ValueError:
        raise ValueError(f"{where}.weight: {text!r} is not a whole number") from None
    return Affinity(
        weight=sign * max(-_MAX_WEIGHT, min(_MAX_WEIGHT, weight)),
        scope=None if item.get("scope") is None else _expression(item["scope"], f"{where}.scope"),
        match=_expression(item["match"], f"{where}.match"),
    )


def _expression(value: Value, where: str) -> Expression:
    if not isinstance(value, Mapping) or set(value) - _EXPRESSION_FIELDS:
        raise ValueError(f"{where}: is not an expression with key, operator and values")
    listed = value.get("values")
    values = () if listed is None else listed if isinstance(listed, tuple) else (listed,)
    if not all(isinstance(text, str) for text in values):
        raise ValueError(f"{where}.values: is not a list of texts")
    word = value.get("operator")
    if word not in tuple(Operator):
        raise ValueError(f"{where}.operator: {word!r} is none of {', '.join(Operator)}")
    found = Expression(str(value.get("key") or ""), Operator(str(word)), tuple(map(str, values)))
    # What is always true needs no key.
    problem = "" if found.operator is Operator.ALWAYS_TRUE and not found.key else expression_problem(found)
    if problem:
        raise ValueError(f"{where}: {problem}")
    return found
