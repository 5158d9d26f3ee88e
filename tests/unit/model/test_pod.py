"""Records of pods and containers."""

from dataclasses import replace

from interpose.model.pod import Container
from interpose.model.resources import LinuxResources


def test_container_diverges_when_it_has_something_else_than_was_asked_for() -> None:
    """The mark by which answers about it are corrected."""
    asked = LinuxResources(cpu_shares=512)
    container = Container(id="c", resources=asked, requested=asked)
    assert not container.diverges
    assert replace(container, resources=LinuxResources(cpu_shares=2)).diverges
