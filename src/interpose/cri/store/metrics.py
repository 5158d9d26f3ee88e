"""Metric families of the store. Reads it at a scrape; counts nothing itself."""

from collections.abc import Callable, Iterable

from interpose.cri.store.sync import Synchronizer
from interpose.metrics import Family, Sample


def store_collector(sync: Synchronizer) -> Callable[[], Iterable[Family]]:
    """How much is known, and whether it is in step with the runtime."""

    def collect() -> Iterable[Family]:
        store = sync.store
        for name, value, text in (
            ("pods", len(store.pods), "Pods in the store."),
            ("containers", len(store.containers), "Containers in the store."),
            ("pending", len(store.pending), "Creates whose outcome is not known yet."),
            (
                "diverging_containers",
                len(store.diverging),
                "Containers that have other resources than their caller asked for.",
            ),
            ("in_step", int(sync.in_step), "1 if the last comparison of the store with the runtime worked."),
        ):
            yield Family(f"interpose_store_{name}", "gauge", text, [Sample(value)])

    return collect
