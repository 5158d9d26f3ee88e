"""Records of pods and containers."""

from dataclasses import replace

from interpose.core.model.pod import DOCKER, Container, Pod
from interpose.core.model.resources import LinuxResources


def test_container_diverges_when_it_has_something_else_than_was_asked_for() -> None:
    """The mark by which answers about it are corrected."""
    asked = LinuxResources(cpu_shares=512)
    container = Container(id="c", resources=asked, requested=asked)
    assert not container.diverges
    assert replace(container, resources=LinuxResources(cpu_shares=2)).diverges


def test_only_docker_starts_containers_of_a_pod_that_is_not_ready() -> None:
    """Elsewhere they will not run any more."""
    ends = {
        (ready, by): Pod(id="p", ready=ready, runtime_handler=by).starts_nothing
        for ready in (True, False)
        for by in ("runc", DOCKER)
    }
    assert [key for key, found in ends.items() if found] == [(False, "runc")]
