"""Which balloon a container goes to: the methods of its type in turn, until one has candidates."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.policy.balloons.balloon import Balloon
from interpose.core.policy.balloons.balloon_set import BalloonSet
from interpose.core.policy.balloons.container_wishes import ContainerWishes
from interpose.core.policy.balloons.options import UNLIMITED, BalloonType
from interpose.core.policy.request import Request

_MOST_SHOWN: Final = 8  # candidates: they are stored with the last decisions about each container


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonChoice:
    """The balloon for a container; None if there is none."""

    balloon: Balloon | None = None
    why: str = ""
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceContext:
    """A container, and the balloons of its type."""

    balloons: BalloonSet
    request: Request
    wishes: ContainerWishes
    there: Sequence[Balloon]
    counted: Callable[[Balloon], int]  # what a balloon would count of the container's pod with the container in it

    def milli_in(self, balloon: Balloon) -> int:
        """What would be requested of a balloon with the container in it."""
        use = balloon.pods.get(self.request.key.pod_id)
        return balloon.milli - (use.counted if use is not None else 0) + self.counted(balloon)

    def fits(self, balloon: Balloon) -> bool:
        """Whether a balloon can have the CPUs for it."""
        return self.balloons.fits(balloon, self.milli_in(balloon))


Found = Iterator[tuple[int, Balloon]]  # the more, the better


def _same_group(context: ChoiceContext) -> Found:
    group = context.wishes.group
    return ((_left(balloon), balloon) for balloon in context.there if group in balloon.groups and context.fits(balloon))


def _same_pod(context: ChoiceContext) -> Found:
    pod = context.request.key.pod_id
    return ((_left(balloon), balloon) for balloon in context.there if pod in balloon.pods and context.fits(balloon))


def _same_namespace(context: ChoiceContext) -> Found:
    name = context.request.namespace
    return (
        (_left(balloon), balloon) for balloon in context.there if name in balloon.namespaces and context.fits(balloon)
    )


def _new(context: ChoiceContext) -> Found:
    empty = [balloon for balloon in context.there if not balloon.containers]
    if not empty and (made := context.balloons.make_new(context.wishes.kind)) is not None:
        empty.append(made)
    return ((0, balloon) for balloon in empty if context.fits(balloon))


def _balanced(context: ChoiceContext) -> Found:
    return (
        (_left(balloon), balloon)
        for balloon in context.there
        if context.milli_in(balloon) <= 1000 * len(balloon.cpus) and context.fits(balloon)
    )


def _inflated(context: ChoiceContext) -> Found:
    return (
        (balloon.most_milli(context.balloons.spare(balloon)) - balloon.milli, balloon)
        for balloon in context.there
        if context.fits(balloon)
    )


_GROUP: Final = (_same_group, "it has containers of the same group")
_POD: Final = (_same_pod, "it has containers of the same pod")
_NAMESPACE: Final = (_same_namespace, "it has containers of the same namespace")
_NEW: Final = (_new, "it has no other containers")
_BALANCED: Final = (_balanced, "it has the most CPU left")
_INFLATED: Final = (_inflated, "it can grow the most")


def _methods(kind: BalloonType, wishes: ContainerWishes) -> Iterator[tuple[Callable[[ChoiceContext], Found], str]]:
    if wishes.group is not None:
        yield _GROUP
    if not kind.spread_pods:
        yield _POD
    if kind.per_namespace:
        yield from (_NAMESPACE, _NEW)
    yield from (_NEW, _BALANCED, _INFLATED) if kind.prefer_new else (_BALANCED, _INFLATED, _NEW)


def choose_balloon(context: ChoiceContext) -> BalloonChoice:
    """The first balloon that a method finds: the best of its candidates, then the one with the fewest containers."""
    for method, why in _methods(context.wishes.kind, context.wishes):
        best = min(method(context), key=lambda found: (-found[0], found[1].containers, found[1].index), default=None)
        if best is not None:
            return BalloonChoice(balloon=best[1], why=why, candidates=_list_candidates(context, best[1], why))
    return BalloonChoice(candidates=_list_candidates(context, None, ""))


def _left(balloon: Balloon) -> int:
    return 1000 * len(balloon.cpus) - balloon.milli


# -- for people


def _list_candidates(context: ChoiceContext, chosen: Balloon | None, why: str) -> tuple[Candidate, ...]:
    """The balloon that was chosen, then others of its type."""
    found = [] if chosen is None else [replace(_candidate(chosen), chosen=True, reason=why)]
    for balloon in context.there:
        if len(found) == _MOST_SHOWN:
            break
        if chosen is None or balloon.name != chosen.name:
            fits = context.fits(balloon)
            reason = "" if chosen is None else f"{chosen.name}: {why}"
            found.append(replace(_candidate(balloon), reason=reason if fits else explain_misfit(context, balloon)))
    return tuple(found)


def _candidate(balloon: Balloon) -> Candidate:
    limit = "" if balloon.kind.max_cpus == UNLIMITED else f", at most {balloon.kind.max_cpus} CPUs"
    score = f"{balloon.milli}m of {count_containers(balloon.containers)}{limit}"
    return Candidate(name=f"balloon {balloon.name}", cpus=balloon.cpus, score=score)


def explain_misfit(context: ChoiceContext, balloon: Balloon) -> str:
    """Why a balloon cannot have the CPUs for a container."""
    milli = context.milli_in(balloon)
    sizes = balloon.sizes_for(milli)
    if sizes is None:
        return f"{milli}m would be requested of it, more than its maxCPUs allow"
    missing = context.balloons.missing(balloon, sizes)
    return f"{milli}m would be requested of it, and {missing} of the {sum(sizes)} CPUs for that cannot be had"


def count_containers(number: int) -> str:
    """A number of containers in words."""
    return "1 container" if number == 1 else f"{number} containers"
