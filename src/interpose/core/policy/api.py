"""What a policy is.

A policy owns a book and is the only one to write in it. It knows no clock, no file and no message: the same topology,
options and calls in the same order give the same decisions. A call either decides or refuses; refused, nothing in the
book has changed. Invariants every policy keeps: no CPU is in two `exclusive` sets, none of these is reserved, and no
pinned container is left without CPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Decision, Grant
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import Book
from interpose.core.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What every policy is made of, besides options of its own."""

    topology: Topology
    available: CpuSet | None = None  # None: all CPUs that are online
    reserved: CpuSet | int | None = None  # these CPUs, or so many thousandths of one; None: nothing was said


class Policy(Protocol):
    """Decides."""

    @property
    def name(self) -> str: ...

    @property
    def book(self) -> Book:
        """For reading."""

    @property
    def fallback(self) -> CpuSet:
        """What a container gets if deciding itself fails: CPUs that nobody holds alone; never empty."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say to the operator about its options on this machine, although it can work with them."""

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """Give a container what it is due.

        `held`: it runs already and has this, by an earlier run, other options or another policy. It keeps as many of
        those CPUs as it may: all of them if they are still right.
        """

    def resize(self, request: Request) -> Decision:
        """A container that holds a grant wants other amounts. Refused, it keeps what it has."""

    def release(self, key: Key) -> Decision:
        """A container is gone; nothing happens if it holds nothing."""

    def pools(self) -> Mapping[str, CpuSet]:
        """Free and shared CPUs by name, for people: the book's pools, and those that are only computed."""


class Maker(Protocol):
    """Makes a policy of checked options.

    Raises ConfigError if it cannot work on this machine; each problem names the option and its value.
    """

    def __call__(self, setup: Setup, options: Any) -> Policy: ...
