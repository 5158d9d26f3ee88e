"""Keys of containers with the same name."""

from interpose.core.policy.request import Key
from interpose.resmgr.key_allocator import KeyAllocator

KEY = Key("pod", "db")


class _Owners:
    """Who has which key; counts how often somebody asks."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.asked = 0
        self.free_keys = KeyAllocator(self._taken)

    def _taken(self, key: Key) -> bool:
        self.asked += 1
        return key in self.keys

    def take(self, key: Key = KEY) -> Key:
        """The first free one is taken."""
        found = self.free_keys.first_free(key)
        self.keys.add(found)
        return found

    def give_up(self, duplicate: int) -> None:
        """One is free again."""
        self.keys.remove(KEY._replace(duplicate=duplicate))
        self.free_keys.release(KEY._replace(duplicate=duplicate))


def test_each_of_many_asks_about_few() -> None:
    """The work does not grow with those that are there."""
    owners = _Owners()
    assert [owners.take().duplicate for _ in range(500)] == list(range(500))
    assert owners.asked < 3 * 500


def test_freed_keys_come_first() -> None:
    """The lowest of them, and those above that are taken are passed over."""
    owners = _Owners()
    for _ in range(5):
        owners.take()
    for duplicate in (1, 3):
        owners.give_up(duplicate)
    assert [owners.take().duplicate for _ in range(3)] == [1, 3, 5]
    owners.give_up(0)
    assert [owners.take().duplicate for _ in range(2)] == [0, 6]


def test_names_do_not_count_for_each_other() -> None:
    """Attempts of one name are separate as well."""
    owners = _Owners()
    assert [owners.take(one).duplicate for one in (KEY, KEY, KEY._replace(attempt=1), Key("pod", "web"))] == [
        0,
        1,
        0,
        0,
    ]


def test_later_twin_says_nothing_about_earlier_ones() -> None:
    """It is remembered from another life."""
    owners = _Owners()
    assert [owners.take(KEY._replace(duplicate=one)).duplicate for one in (3, 3, 0, 0, 1, 0, 0)] == [
        3,
        4,
        0,
        1,
        2,
        5,
        6,
    ]


def test_all_are_free_again() -> None:
    """In whatever order they went."""
    owners = _Owners()
    for _ in range(3):
        owners.take()
    for duplicate in (2, 0, 1):
        owners.give_up(duplicate)
    assert [owners.take().duplicate for _ in range(3)] == [0, 1, 2]
