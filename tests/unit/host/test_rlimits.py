"""The limit of open files is raised to what is needed, as far as it may be."""

import resource
from collections.abc import Iterator

import pytest

from interpose.host.rlimits import descriptors_needed, raise_file_limit

KIND = resource.RLIMIT_NOFILE


@pytest.fixture(autouse=True)
def hard() -> Iterator[int]:
    """A soft limit of 512; the hard one, which we cannot raise again and so leave alone."""
    before = resource.getrlimit(KIND)
    resource.setrlimit(KIND, (512, before[1]))
    yield before[1]
    resource.setrlimit(KIND, before)


def test_a_relay_needs_two_for_each_client_and_some_for_itself() -> None:
    """512 clients do not fit under the usual 1024."""
    assert descriptors_needed(512) == 2 * 512 + 256


def test_the_soft_limit_is_raised() -> None:
    """To what is wanted, not to all that could be had."""
    assert raise_file_limit(1280) == 1280
    assert resource.getrlimit(KIND)[0] == 1280


def test_a_higher_limit_stays() -> None:
    """Whoever set it knows why."""
    assert raise_file_limit(100) == 512
    assert resource.getrlimit(KIND)[0] == 512


def test_the_hard_limit_is_the_most(hard: int) -> None:
    """What is had then is told."""
    assert raise_file_limit(hard + 1) == hard
    assert resource.getrlimit(KIND) == (hard, hard)


def test_limits_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a soft limit nothing is done; without a hard one what is wanted can be had."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert raise_file_limit(5000) == 5000
    assert asked == []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    assert raise_file_limit(5000) == 5000
    assert asked == [(5000, resource.RLIM_INFINITY)]


def test_a_process_that_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with what it has."""

    def refuse(_kind: int, _limits: tuple[int, int]) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_file_limit(1280) == 512
