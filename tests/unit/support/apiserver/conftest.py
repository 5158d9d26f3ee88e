"""A store with a clock that stands still and ids that count."""

from collections.abc import Callable
from itertools import count

import pytest

from tests.support.apiserver.resources import NAMESPACES
from tests.support.apiserver.store import Store

NOW = "2026-01-02T03:04:05Z"


@pytest.fixture
def new_uid() -> Callable[[], str]:
    """Ids that count."""
    numbers = count(1)
    return lambda: f"uid-{next(numbers)}"


@pytest.fixture
def store(new_uid: Callable[[], str]) -> Store:
    """Empty but for one namespace."""
    made = Store(now=lambda: NOW, new_uid=new_uid, remember=20)
    made.create(NAMESPACES, {"metadata": {"name": "default"}})
    return made
