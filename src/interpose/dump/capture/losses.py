"""How much readers have taken and missed, over those that are gone, too: counters never fall."""

from collections.abc import Sequence

from interpose.dump.capture.queue import Outlet


class Losses:
    """Adds up over readers that have come and gone, so that counters never fall."""

    def __init__(self) -> None:
        self._gone: dict[tuple[str, str], int] = {}

    def leave(self, outlet: Outlet) -> None:
        """This reader is gone."""
        for field, value in _values(outlet).items():
            key = (outlet.name, field)
            self._gone[key] = self._gone.get(key, 0) + value

    def totals(self, outlets: Sequence[Outlet]) -> dict[tuple[str, str], int]:
        """By kind of reader and by what is counted."""
        totals = dict(self._gone)
        for outlet in outlets:
            for field, value in _values(outlet).items():
                totals[outlet.name, field] = totals.get((outlet.name, field), 0) + value
        return totals


def _values(outlet: Outlet) -> dict[str, int]:
    return {
        "frames": outlet.frames,
        "bytes": outlet.size,
        "frames_dropped": outlet.frames_lost,
        "bodies_dropped": outlet.bodies_lost,
    }
