"""The memory of verdicts: bounded, and what is used stays."""

from interpose.net.h1.heads import HeadCache


def test_what_was_put_is_found() -> None:
    """And what was not is not."""
    memo: HeadCache[str, int] = HeadCache(4)
    memo.put("a", 1)
    assert memo.get("a") == 1
    assert memo.get("b") is None


def test_it_never_holds_more_than_its_entries() -> None:
    """However much is put in."""
    memo: HeadCache[int, int] = HeadCache(10)
    for number in range(1000):
        memo.put(number, number)
        assert len(memo) <= 10
    assert memo.get(999) == 999


def test_what_is_used_stays() -> None:
    """A flood of others, each seen once, does not push it out."""
    memo: HeadCache[int, str] = HeadCache(10)
    memo.put(-1, "kept")
    for number in range(1000):
        memo.put(number, "flood")
        assert memo.get(-1) == "kept"


def test_what_is_not_used_goes() -> None:
    """After as many others as there is room for."""
    memo: HeadCache[int, str] = HeadCache(4)
    memo.put(-1, "old")
    for number in range(4):
        memo.put(number, "new")
    assert memo.get(-1) is None


def test_a_memory_without_room_forgets_at_once() -> None:
    """Nothing is kept, nothing breaks."""
    memo: HeadCache[int, int] = HeadCache(0)
    memo.put(1, 1)
    assert memo.get(1) is None
    assert len(memo) == 0
