"""Who gets a connection when there are many: shares of processes and users, and who has to go."""

from typing import NamedTuple

import pytest

from interpose.net.grpc.connection_limit import ConnectionLimit


class Peer(NamedTuple):
    """A peer with the credentials of a test."""

    uid: int
    pid: int


def filled(limit: int, *links: tuple[str, Peer | None], users: int = 1) -> ConnectionLimit[str]:
    """A limit with these connections; names that begin with "busy" are at work."""
    found = ConnectionLimit[str](limit, lambda link: not link.startswith("busy"), users=users)
    for link, peer in links:
        assert found.admit(link, peer), link
    return found


def many(peer: Peer | None, count: int, name: str = "idle") -> list[tuple[str, Peer | None]]:
    """Connections of one peer, oldest first."""
    return [(f"{name}-{peer.uid if peer else 0}-{peer.pid if peer else 0}-{n}", peer) for n in range(count)]


KUBELET, CROWD, OTHER = Peer(0, 10), Peer(0, 66), Peer(7, 77)


def test_a_process_leaves_a_quarter_to_others() -> None:
    """Its own oldest idle connection is what it may have instead."""
    limit = filled(8, *many(CROWD, 6))
    assert not limit.admit("one more", CROWD)
    assert limit.victim(CROWD) == "idle-0-66-0"
    assert limit.victim(KUBELET) is None
    assert limit.admit("kubelet", KUBELET)


def test_a_user_leaves_an_eighth_to_other_users() -> None:
    """However many processes it has, and only where there are other users."""
    crowd = [(f"idle-{n}", Peer(7, 100 + n)) for n in range(7)]
    limit = filled(8, *crowd, users=2)
    assert not limit.admit("one more", Peer(7, 200))
    assert limit.victim(Peer(7, 200)) == "idle-0"
    assert limit.admit("kubelet", KUBELET)
    assert filled(8, *crowd).admit("one more", Peer(7, 200))


def test_who_has_the_most_makes_room() -> None:
    """The newcomer's own connections are safe as long as others have more."""
    limit = filled(8, ("first", KUBELET), *many(CROWD, 5), *many(OTHER, 2))
    assert limit.victim(KUBELET) == "idle-0-66-0"
    limit.remove("idle-0-66-0")
    assert limit.admit("second", KUBELET)


def test_who_is_at_work_stays() -> None:
    """Others go instead, and if all are at work the newcomer does."""
    limit = filled(4, *many(CROWD, 3, "busy"), ("idle", KUBELET))
    assert limit.victim(OTHER) == "idle"
    limit.remove("idle")
    assert limit.admit("busy kubelet", KUBELET)
    assert limit.victim(OTHER) is None
    assert not limit.admit("newcomer", OTHER)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_small_limit_has_no_shares(size: int) -> None:
    """One client may have all there is."""
    limit = filled(size, *many(CROWD, size), users=2)
    assert not limit.admit("one more", CROWD)


def test_peers_that_nobody_identified_share_everything() -> None:
    """There is no process to count by."""
    limit = filled(8, *many(None, 8))
    assert not limit.admit("one more", None)
    assert limit.victim(None) == "idle-0-0-0"


def test_what_is_gone_is_gone_once() -> None:
    """A victim is removed when it is chosen, and again when its connection has ended."""
    limit = filled(1, ("one", KUBELET))
    limit.remove("one")
    limit.remove("one")
    assert limit.admit("two", KUBELET)


def test_connections_of_one_process() -> None:
    """Its own, while it is there."""
    limit = filled(8, ("one", KUBELET), ("two", CROWD), ("three", KUBELET))
    assert limit.processes == 2
    assert sorted(limit.siblings("one")) == ["one", "three"]
    limit.remove("one")
    assert sorted(limit.siblings("one")) == []
