"""The documents of the API."""

from tests.support.docker.fake import documents
from tests.support.docker.fake.containers import EXITED, RUNNING, Container, Image, made
from tests.support.docker.fake.wire import encode

IMAGE = Image(id="sha256:1", tags=("x:1",))


def container() -> Container:
    """One that was made and not started."""
    return made("1" * 64, "web", b'{"Image":"x:1","Labels":{"b":"c"}}', IMAGE, 0.5)


def test_inspect_tells_the_state() -> None:
    """Times in Go's form; what never was is the year 1."""
    one = container()
    document = documents.inspected(one, "/root")
    assert (document["Name"], document["Path"], document["Args"]) == ("/web", "/bin/sleep", ["1000000000"])
    assert document["Created"] == "1970-01-01T00:00:00.500000000Z"
    assert document["State"]["StartedAt"] == "0001-01-01T00:00:00Z"
    assert (document["State"]["Status"], document["State"]["Running"]) == ("created", False)
    one.status, one.pid = RUNNING, 7
    assert documents.inspected(one, "/root")["State"]["Pid"] == 7


def test_list_tells_the_state_in_words() -> None:
    """As `docker ps` shows them."""
    one = container()
    assert documents.listed(one)["Status"] == "Created"
    one.status = RUNNING
    assert documents.listed(one)["Status"].startswith("Up")
    one.status, one.exit_code = EXITED, 3
    assert documents.listed(one)["Status"].startswith("Exited (3)")


def test_events_carry_labels_in_order() -> None:
    """Sorted, with what the action adds."""
    event = documents.event(container(), "die", 2.5, {"exitCode": "1"})
    assert list(event["Actor"]["Attributes"]) == ["b", "exitCode", "image", "name"]
    assert (event["time"], event["timeNano"], event["status"]) == (2, 2_500_000_000, "die")


def test_long_answers_are_long() -> None:
    """The one about the daemon comes in chunks, as dockerd's."""
    assert len(encode(documents.info([], 2, "systemd"))) > 2048
    assert documents.info([container()], 2, "systemd")["CgroupDriver"] == "systemd"
    assert documents.version()["ApiVersion"] == "1.41"


def test_images() -> None:
    """By tag, and with what they bring along."""
    assert documents.image_listed(IMAGE)["RepoTags"] == ["x:1"]
    assert documents.image_inspected(IMAGE)["Config"]["Env"] == ["PATH=/bin"]
