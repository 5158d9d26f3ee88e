"""What every policy is made of."""

from interpose.core.policy.api import Setup
from interpose.core.topology.topology import Topology


def test_nothing_said_is_not_an_empty_set() -> None:
    """All CPUs are available, and nothing is said about reserved ones."""
    setup = Setup(topology=Topology(cpus=(), nodes=()))
    assert setup.available is None
    assert setup.reserved is None
