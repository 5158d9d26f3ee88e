"""What a run of the Docker benchmark measures."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from bench.docker import big_archive, choose


def test_everything_is_measured_unless_something_is_named() -> None:
    """All contestants and all loads."""
    plan = choose("", 1.0)
    people = ["direct", "socat", "nginx", "haproxy", "interpose", "compiled", "hooked"]
    assert [one.name for one in plan.people] == people
    assert len(plan.requests) == 5
    assert len(plan.bulk) == 3
    assert len(plan.lives) == 8


def test_naming_contestants_leaves_all_loads() -> None:
    """And the other way round."""
    plan = choose("direct, interpose", 0.1)
    assert [one.name for one in plan.people] == ["direct", "interpose"]
    assert len(plan.requests) == 5
    only = choose("ping-16,lives", 0.1)
    assert [load.name for load in only.requests] == ["ping-16"]
    assert not only.bulk
    assert only.lives
    assert len(only.people) == 7


def test_another_version_is_measured_beside_this_one() -> None:
    """Only numbers of one run compare."""
    plan = choose("haproxy,before", 0.1, Path("/opt/earlier/bin/interpose"))
    assert [one.name for one in plan.people] == ["haproxy", "before"]


def test_an_unknown_name_is_named() -> None:
    """With what could have been meant."""
    with pytest.raises(SystemExit, match=r"--only: unknown pong; known are .*ping-16"):
        choose("pong", 1.0)


def test_the_big_image_has_a_layer_of_the_size_asked_for() -> None:
    """And is the same each time, so that dockerd knows it when it comes again."""
    made = big_archive(1)
    assert len(made) > 1 << 20
    assert made == big_archive(1)
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        assert "manifest.json" in tar.getnames()
