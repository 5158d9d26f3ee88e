"""Who keeps failing waits longer and longer, and who was well for long begins anew."""

from fractions import Fraction

from interpose.node.pods.spec import ResourceRequirements
from interpose.node.pods.sync.backoff import KeyedBackoff, container_key, image_key
from tests.support.node.pod_model import make_container, make_pod


def test_nobody_waits_before_the_first_failure() -> None:
    """There is nothing to wait for."""
    backoff = KeyedBackoff()
    assert (backoff.delay("a", 5.0), backoff.wait("a"), backoff.keys) == (0.0, 0.0, ())


def test_waits_double_up_to_the_bound() -> None:
    """10, 20, 40, 80, 160, then 300 for ever."""
    backoff = KeyedBackoff()
    now, waits = 0.0, []
    for _ in range(8):
        waits.append(backoff.next("a", now))
        now += waits[-1]
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert backoff.wait("a") == 300


def test_the_first_wait_is_never_beyond_the_bound() -> None:
    """Small bounds are for tests and demos."""
    assert KeyedBackoff(initial=10, maximum=1).next("a", 0.0) == 1


def test_the_wait_counts_from_the_end_of_the_last_one() -> None:
    """It may have run for some time after its start."""
    backoff = KeyedBackoff()
    backoff.next("a", 100.0)
    assert backoff.delay("a", 153.0, since=150.0) == 7.0
    assert backoff.delay("a", 160.0, since=150.0) == 0.0


def test_without_an_end_the_wait_counts_from_the_last_try() -> None:
    """As when an image cannot be fetched."""
    backoff = KeyedBackoff()
    backoff.next("a", 100.0)
    assert (backoff.delay("a", 104.0), backoff.delay("a", 111.0)) == (6.0, 0.0)


def test_a_clock_that_was_set_back_makes_nobody_wait_longer() -> None:
    """An end in the future is one that was just now."""
    backoff = KeyedBackoff()
    backoff.next("a", 100.0)
    assert backoff.delay("a", 50.0, since=100.0) == 10.0


def test_a_wait_ends_although_the_clock_was_set_back() -> None:
    """Not when the old time comes again: of an end, and of a try; and if it is set back twice."""
    for since in (105.0, None):
        backoff = KeyedBackoff()
        backoff.next("a", 100.0)
        assert [backoff.delay("a", now - 7200, since=since) for now in (106.0, 110.0, 116.0)] == [10.0, 6.0, 0.0]
        assert [backoff.delay("a", now - 9000, since=since) for now in (106.0, 116.0)] == [10.0, 0.0]


def test_entries_of_a_time_that_is_to_come_are_collected() -> None:
    """As if they were of now."""
    backoff = KeyedBackoff()
    backoff.next("a", 100_000.0)
    kept = []
    for now in (50.0, 650.0, 651.0):
        backoff.collect(now)
        kept.append(len(backoff.keys))
    assert kept == [1, 1, 0]


def test_who_ran_for_long_begins_anew() -> None:
    """Twice the bound between start and end."""
    backoff = KeyedBackoff(maximum=300)
    backoff.next("a", 0.0)
    backoff.next("a", 20.0)
    assert backoff.delay("a", 622.0, since=621.0) == 0.0
    assert backoff.next("a", 622.0, since=621.0) == 10


def test_the_wait_itself_is_not_counted_as_being_well() -> None:
    """Ended after 400 seconds: the 300 of the wait do not make it 700."""
    backoff = KeyedBackoff(initial=300, maximum=300)
    backoff.next("a", 0.0)
    assert backoff.delay("a", 601.0, since=400.0) == 99.0
    assert backoff.next("a", 700.0, since=400.0) == 300


def test_forgetting_begins_anew() -> None:
    """And forgetting whom nobody knows is fine."""
    backoff = KeyedBackoff()
    backoff.next("a", 0.0)
    backoff.forget("a")
    backoff.forget("b")
    assert backoff.delay("a", 1.0) == 0.0


def test_collecting_keeps_those_that_may_still_wait() -> None:
    """Others would pile up."""
    backoff = KeyedBackoff(maximum=300)
    backoff.next("old", 0.0)
    backoff.next("young", 100.0)
    backoff.collect(601.0)
    assert backoff.keys == ("young",)


def test_an_edited_container_waits_for_itself() -> None:
    """Image and resources are a new chance; another pod is another matter."""
    one = make_container("c", image="x:1")
    keys = {
        container_key(make_pod("c"), one),
        container_key(make_pod("c"), make_container("c", image="x:2")),
        container_key(
            make_pod("c"), make_container("c", image="x:1", resources=ResourceRequirements(limits={"cpu": Fraction(1)}))
        ),
        container_key(
            make_pod("c"),
            make_container("c", image="x:1", resources=ResourceRequirements(requests={"cpu": Fraction(1)})),
        ),
        image_key(make_pod("c"), "x:1"),
    }
    assert len(keys) == 5


def test_what_was_said_of_the_last_failure_is_kept_with_the_wait() -> None:
    """Until it is forgotten."""
    backoff = KeyedBackoff()
    assert backoff.why("a") == ""
    backoff.next("a", 100, why="no such host")
    assert backoff.why("a") == "no such host"
    backoff.next("a", 120)
    assert backoff.why("a") == ""
