"""The queue of bytes: order, sizes, and no copies."""

from interpose.net.h1.messages import Inbox


def filled(*pieces: bytes) -> Inbox:
    """A queue of these."""
    inbox = Inbox()
    for piece in pieces:
        inbox.add(piece)
    return inbox


def test_a_whole_piece_is_the_object_that_came() -> None:
    """Bodies are not copied."""
    piece = bytes(1000)
    inbox = filled(piece)
    assert inbox.take(5000) is piece
    assert inbox.size == 0


def test_at_most_so_many_bytes_are_taken() -> None:
    """The rest of the piece stays, and a piece is not joined with the next."""
    inbox = filled(b"hello", b"x" * 600)
    assert [inbox.take(2), inbox.take(9), inbox.take(9)] == [b"he", b"llo", b"x" * 9]


def test_empty_pieces_are_none() -> None:
    """They would look like an end."""
    assert filled(b"", b"").size == 0


def test_single_bytes_do_not_pile_up_as_pieces() -> None:
    """Where the first piece is at stays, and no byte is lost; pieces of some size stay what they are."""
    inbox = filled(b"hello")
    inbox.skip_to(2)
    for _ in range(1000):
        inbox.add(b"x")
    large = b"y" * 600
    inbox.add(large)
    assert inbox.size == 3 + 1000 + 600
    assert [len(inbox.take(5000)) for _ in range(2)] == [510, 493]
    assert inbox.take(5000) is large


def test_everything_can_be_taken() -> None:
    """Joined, from where the first piece is at."""
    inbox = filled(b"hello", b"world")
    inbox.skip_to(2)
    assert inbox.size == 8
    assert inbox.take_all() == b"lloworld"
    assert inbox.size == 0


def test_bytes_can_be_put_back() -> None:
    """They come first, also before a piece that was begun."""
    inbox = filled(b"hello")
    inbox.put_back(inbox.take(2))
    inbox.put_back(b"")
    assert inbox.size == 5
    assert inbox.take_all() == b"hello"


def test_bytes_can_be_put_back_before_a_whole_piece() -> None:
    """Nothing of it is lost."""
    inbox = filled(b"world")
    inbox.put_back(b"hello")
    assert inbox.first() == (b"hello", 0)
    assert inbox.take_all() == b"helloworld"
