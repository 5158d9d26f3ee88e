"""Metrics of registration files. Apart from those of calls: these need no message classes."""

from collections.abc import Callable, Iterable

from interpose.hooks.dispatch.registrations import Registrations
from interpose.metrics import Family, Sample


def registration_collector(registrations: Registrations) -> Callable[[], Iterable[Family]]:
    """Registration files."""

    def collect() -> Iterable[Family]:
        yield Family(
            "interpose_hook_registrations", "gauge", "Hook servers in force.", [Sample(len(registrations.servers))]
        )
        yield Family(
            "interpose_hook_registrations_unusable",
            "gauge",
            "Registration files that cannot be used now; the last good version of each, if any, stays in force. A "
            "directory that cannot be read counts as one.",
            [Sample(len(registrations.problems))],
        )
        yield Family(
            "interpose_hook_registration_errors_total",
            "counter",
            "Problems found in registration files so far; `interpose hooks list` has the present ones.",
            [Sample(registrations.errors)],
        )

    return collect
