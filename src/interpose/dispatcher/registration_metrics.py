"""Metrics of registration files. Apart from those of calls: these need no message classes."""

from collections.abc import Callable, Iterable

from interpose.dispatcher.registrations import Registrations
from interpose.instrumentation.metrics import Family, Sample


def registration_collector(registrations: Registrations) -> Callable[[], Iterable[Family]]:
    """Registration files."""

    def collect() -> Iterable[Family]:
        yield Family(
            "interpose_hook_registrations", "gauge", "Hook servers in force.", [Sample(len(registrations.servers))]
        )
        yield Family(
            "interpose_hook_registration_errors_total",
            "counter",
            "Times a registration file could not be used; its last good version stayed in force.",
            [Sample(count, {"file": name}) for name, count in registrations.errors.items()],
        )

    return collect
