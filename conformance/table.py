"""All points, in the order of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks import (
    containers,
    errors,
    events,
    filters,
    idempotence,
    info,
    listing,
    metrics,
    mounts,
    networking,
    pulling,
    sandboxes,
    streams,
    usage,
)
from conformance.points import Point, point_id

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = (
    *info.GROUPS,
    *containers.GROUPS,
    *mounts.GROUPS,
    *idempotence.GROUPS,
    *sandboxes.GROUPS,
    *metrics.GROUPS,
    *filters.GROUPS,
    *networking.GROUPS,
    *streams.GROUPS,
    *pulling.GROUPS,
    *errors.GROUPS,
    *listing.GROUPS,
    *usage.GROUPS,
    *events.GROUPS,
)


def named_points() -> Iterator[tuple[str, Point]]:
    """Every point with its id."""
    for group in GROUPS:
        for point in group.points:
            yield point_id(group, point), point
