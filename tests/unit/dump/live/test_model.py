"""The state of the live view, without a screen."""

from collections.abc import Callable

from interpose.dump.live.model import LiveModel, Order
from interpose.dump.model.call import Assembler, CallEvent, CallEventKind, Flow, Subject
from interpose.dump.model.frames import Begin, Dropped, End, Frame, Header, Message, MessageSide


class Calls:
    """Makes events of calls and hands them to a model."""

    def __init__(self, model: LiveModel) -> None:
        self.model = model
        self.assembler = Assembler()
        self.number = 0
        self.now = 0.0

    def say(self, *frames: Frame) -> None:
        self.model.add_events(self.assembler.feed_all(frames), self.now)

    def begin(self, name: str = "Version", time: int = 0) -> int:
        self.number += 1
        self.say(Begin(number=self.number, time=time, path=f"/runtime.v1.RuntimeService/{name}"))
        return self.number

    def message(self, number: int, size: int, side: MessageSide = MessageSide.REQUEST, at: int = 0) -> None:
        self.say(Message(number=number, at=at, side=side, size=size, body=b"x" * size))

    def end(self, number: int, code: int = 0, elapsed: int = 1) -> None:
        self.say(End(number=number, elapsed=elapsed, code=code))

    def whole(self, name: str = "Version", *, code: int = 0, elapsed: int = 1, size: int = 0) -> int:
        number = self.begin(name)
        if size:
            self.message(number, size)
        self.end(number, code, elapsed)
        return number


def numbers(model: LiveModel) -> list[int]:
    model.refresh()
    return [row.flow.number for row in model.view]


def named(name: str) -> Callable[[Flow], bool]:
    return lambda flow: flow.name == name


def selected(model: LiveModel) -> int:
    model.refresh()
    assert model.selected is not None
    return model.selected.flow.number


def test_calls_are_listed_as_they_come() -> None:
    """A call is in the list from its first frame on."""
    calls = Calls(LiveModel())
    calls.begin()
    calls.whole()
    assert numbers(calls.model) == [1, 2]
    assert [row.open for row in calls.model.view] == [True, False]
    assert calls.model.calls == 2


def test_nothing_new_is_said_to_be_nothing_new() -> None:
    """Who draws may leave it."""
    calls = Calls(LiveModel())
    calls.begin()
    assert calls.model.refresh()
    calls.say(Header(facts={}))
    assert not calls.model.refresh()


def test_failures_are_counted() -> None:
    """By their end, also if the call is not kept any more."""
    calls = Calls(LiveModel())
    calls.whole(code=5)
    number = calls.begin()
    calls.model.clear()
    calls.end(number, code=13)
    assert calls.model.errors == 2
    assert numbers(calls.model) == []


def test_dropped_frames_are_counted() -> None:
    """The relay says how many."""
    calls = Calls(LiveModel())
    calls.say(Dropped(frames=7, size=100, time=1))
    calls.model.add_events([CallEvent(CallEventKind.DROPPED, None, End(number=1, elapsed=0, code=0))], 0.0)
    assert calls.model.dropped == 7


def test_size_is_what_passed_between_caller_and_relay() -> None:
    """The other sides of a message are in memory, but were not sent by the caller or to it."""
    calls = Calls(LiveModel())
    number = calls.begin()
    calls.message(number, 10, MessageSide.REQUEST)
    calls.message(number, 30, MessageSide.FORWARDED)
    calls.message(number, 5, MessageSide.REPLY)
    row = next(calls.model.rows())
    assert (row.traffic, row.messages, row.kept_bytes) == (15, 2, 45)


def test_a_stream_that_forgets_messages_does_not_grow() -> None:
    """One comes and one goes."""
    model = LiveModel()
    calls = Calls(model)
    calls.assembler = Assembler(kept_messages=2)
    number = calls.begin("GetContainerEvents")
    for _ in range(5):
        calls.message(number, 10, MessageSide.REPLY)
    row = next(model.rows())
    assert (row.messages, row.kept_bytes) == (5, 20)


def test_the_newest_time_is_that_of_the_last_frame() -> None:
    """Begin, message or end, whichever is the latest."""
    calls = Calls(LiveModel())
    number = calls.begin(time=1000)
    assert calls.model.newest == 1000
    calls.message(number, 1, at=50)
    assert calls.model.newest == 1050
    calls.end(number, elapsed=70)
    calls.begin(time=900)
    assert calls.model.newest == 1070


def test_calls_per_second_are_those_of_the_last_seconds() -> None:
    """Older ones do not count."""
    calls = Calls(LiveModel())
    for _ in range(10):
        calls.begin()
    assert calls.model.rate(1.0) == 2.0
    calls.now = 6.0
    for _ in range(5):
        calls.begin()
    assert calls.model.rate(6.0) == 1.0
    assert calls.model.rate(60.0) == 0.0


# -- room


def test_the_oldest_call_makes_room() -> None:
    """And it is counted."""
    calls = Calls(LiveModel(keep=2))
    for _ in range(3):
        calls.whole()
    assert numbers(calls.model) == [2, 3]
    assert calls.model.forgotten == 1
    assert calls.model.call_count == 2


def test_marked_and_open_calls_stay_longer() -> None:
    """Somebody wants them."""
    calls = Calls(LiveModel(keep=3))
    calls.begin()
    calls.whole()
    calls.model.refresh()
    calls.model.toggle_mark()
    calls.whole()
    calls.whole()
    assert numbers(calls.model) == [1, 2, 4]


def test_if_all_are_wanted_the_oldest_goes() -> None:
    """Memory is bounded in any case."""
    calls = Calls(LiveModel(keep=2))
    for _ in range(3):
        calls.begin()
    assert numbers(calls.model) == [2, 3]


def test_bytes_are_bounded_too() -> None:
    """A large message pushes out older calls, and itself if it is larger than everything allowed."""
    calls = Calls(LiveModel(keep_bytes=100))
    calls.whole(size=60)
    calls.whole(size=60)
    assert numbers(calls.model) == [2]
    calls.whole(size=200)
    assert numbers(calls.model) == []
    assert calls.model.forgotten == 3


# -- cursor


def test_the_cursor_follows_the_newest_call() -> None:
    """At the beginning."""
    calls = Calls(LiveModel())
    calls.whole()
    calls.whole()
    assert selected(calls.model) == 2
    assert calls.model.at == 1


def test_who_leaves_the_newest_call_does_not_follow_any_more() -> None:
    """What comes then does not move the cursor."""
    calls = Calls(LiveModel())
    calls.whole()
    calls.whole()
    calls.model.refresh()
    calls.model.move(-1)
    calls.whole()
    assert selected(calls.model) == 1
    assert not calls.model.follow


def test_follow_can_be_switched() -> None:
    """And takes the cursor to the newest call at once."""
    calls = Calls(LiveModel())
    calls.whole()
    calls.whole()
    calls.model.refresh()
    calls.model.go(0)
    calls.model.toggle_follow()
    assert selected(calls.model) == 2


def test_the_cursor_stays_inside() -> None:
    """However far it is moved, and in an empty list."""
    calls = Calls(LiveModel())
    calls.model.move(5)
    assert calls.model.selected is None
    calls.whole()
    calls.whole()
    calls.model.refresh()
    calls.model.move(-10)
    assert selected(calls.model) == 1
    calls.model.move(10)
    assert selected(calls.model) == 2
    calls.model.go(0)
    calls.model.go_last()
    assert selected(calls.model) == 2


def test_a_cursor_whose_call_is_gone_stays_at_its_place() -> None:
    """It takes the call that is there now."""
    calls = Calls(LiveModel(keep=3))
    for _ in range(3):
        calls.whole()
    calls.model.refresh()
    calls.model.go(0)
    calls.whole()
    assert selected(calls.model) == 2
    assert calls.model.at == 0


def test_following_a_sorted_list_finds_the_newest_call() -> None:
    """Wherever it is."""
    calls = Calls(LiveModel())
    calls.whole("Version")
    calls.whole("Attach")
    calls.model.next_order()
    assert calls.model.order is Order.METHOD
    assert selected(calls.model) == 2
    assert calls.model.at == 0


def test_following_backwards_is_at_the_top() -> None:
    """The newest first."""
    calls = Calls(LiveModel())
    calls.whole()
    calls.whole()
    calls.model.reverse()
    assert selected(calls.model) == 2
    assert calls.model.at == 0


# -- filter


def test_a_filter_hides_calls() -> None:
    """Those that were there and those that come."""
    calls = Calls(LiveModel())
    calls.whole("Version")
    calls.whole("Attach")
    calls.model.set_wanted(named("Attach"))
    calls.whole("Version")
    calls.whole("Attach")
    assert numbers(calls.model) == [2, 4]
    calls.model.set_wanted(None)
    assert numbers(calls.model) == [1, 2, 3, 4]


def test_a_filter_is_asked_again_when_a_call_goes_on() -> None:
    """A call that fails comes into the list of failures at its place."""
    calls = Calls(LiveModel())
    calls.model.set_wanted(lambda flow: flow.failed)
    first = calls.begin()
    calls.whole(code=1)
    assert numbers(calls.model) == [2]
    calls.end(first, code=2)
    assert numbers(calls.model) == [1, 2]


def test_a_slow_filter_takes_several_turns() -> None:
    """The newest calls are looked at first."""
    calls = Calls(LiveModel())
    for _ in range(3):
        calls.whole()
    calls.model.set_wanted(lambda flow: True)
    assert calls.model.refresh(lambda: True)
    assert [row.flow.number for row in calls.model.view] == [3]
    assert calls.model.unjudged == 2
    assert calls.model.refresh(lambda: False)
    assert numbers(calls.model) == [1, 2, 3]
    assert calls.model.unjudged == 0


def test_a_cursor_whose_call_is_hidden_goes_to_another() -> None:
    """The nearest there is."""
    calls = Calls(LiveModel())
    calls.whole("Attach")
    calls.whole("Version")
    calls.model.refresh()
    calls.model.toggle_follow()
    calls.model.set_wanted(named("Attach"))
    assert selected(calls.model) == 1


# -- pause


def test_a_paused_list_holds_still() -> None:
    """What comes is counted and joins later; what is there goes on."""
    calls = Calls(LiveModel())
    first = calls.begin()
    calls.model.toggle_pause()
    calls.whole()
    calls.end(first)
    assert numbers(calls.model) == [1]
    assert calls.model.waiting == 1
    assert not calls.model.view[0].open
    calls.model.toggle_pause()
    assert numbers(calls.model) == [1, 2]
    assert calls.model.waiting == 0


def test_what_waits_makes_room_first() -> None:
    """The list that somebody looks at stays."""
    calls = Calls(LiveModel(keep=2))
    calls.whole()
    calls.model.toggle_pause()
    calls.whole()
    calls.whole()
    assert [row.flow.number for row in calls.model.rows()] == [1, 3]
    assert (calls.model.waiting, calls.model.missed, calls.model.forgotten) == (1, 1, 0)


# -- order


def test_calls_can_be_sorted() -> None:
    """By each column; by numbers the largest first."""
    calls = Calls(LiveModel())
    calls.whole("Version", elapsed=5, size=10)
    calls.whole("Attach", elapsed=50, code=5, size=5)
    calls.begin("Exec")
    for row, name in zip(calls.model.rows(), ("b", "c", "a"), strict=True):
        row.flow.subject = Subject(pod=name)
    found = {}
    for _ in Order:
        calls.model.next_order()
        found[calls.model.order] = numbers(calls.model)
    assert found == {
        Order.METHOD: [2, 3, 1],
        Order.SUBJECT: [3, 1, 2],
        Order.STATUS: [2, 1, 3],
        Order.DURATION: [3, 2, 1],
        Order.SIZE: [1, 2, 3],
        Order.TIME: [1, 2, 3],
    }


# -- marks and clearing


def test_marks_can_be_set_and_taken_away() -> None:
    """One by one and all at once."""
    calls = Calls(LiveModel())
    calls.model.toggle_mark()  # there is nothing to mark
    calls.whole()
    calls.model.refresh()
    calls.model.toggle_mark()
    assert [row.flow.number for row in calls.model.marked()] == [1]
    calls.model.toggle_mark()
    assert calls.model.marked() == []
    calls.model.toggle_mark()
    calls.model.unmark_all()
    assert calls.model.marked() == []


def test_clearing_can_spare_marked_calls() -> None:
    """And takes everything otherwise, what waits included."""
    calls = Calls(LiveModel())
    calls.whole(size=10)
    calls.model.refresh()
    calls.model.toggle_mark()
    calls.model.toggle_pause()
    calls.whole()
    calls.model.clear(but_marked=True)
    assert numbers(calls.model) == [1]
    assert calls.model.waiting == 0
    calls.model.clear()
    assert numbers(calls.model) == []
    assert calls.model.selected is None


def test_calls_of_a_source_that_is_gone_are_cut_off() -> None:
    """Nobody will see them end; those that had ended are as they were."""
    calls = Calls(LiveModel())
    calls.begin()
    calls.whole()
    calls.model.cut_off()
    assert [row.cut for row in calls.model.rows()] == [True, False]
    assert not any(row.open for row in calls.model.rows())
    calls.model.cut_off()
    assert calls.model.cut == 1
