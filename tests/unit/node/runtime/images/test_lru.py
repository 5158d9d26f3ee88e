"""What was used last is kept, and no more."""

from interpose.node.runtime.images.lru import LruCache


def test_the_one_that_nobody_asked_for_makes_room() -> None:
    """Asking for one keeps it."""
    recent: LruCache[str, int] = LruCache(2)
    assert recent.put("a", 1) == []
    assert recent.put("b", 2) == []
    assert recent.get("a") == 1
    assert recent.put("c", 3) == [2]
    assert recent.get("b") is None
    assert recent.values() == [1, 3]
    assert len(recent) == 2


def test_another_value_replaces_the_first() -> None:
    """Which is given back, as all are in the end."""
    recent: LruCache[str, int] = LruCache(2)
    recent.put("a", 1)
    assert recent.put("a", 2) == [1]
    assert recent.clear() == [2]
    assert len(recent) == 0
