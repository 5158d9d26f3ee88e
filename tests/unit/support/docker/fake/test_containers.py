"""Containers made of requests, and frames of output."""

from tests.support.docker.fake.containers import STDERR, STDOUT, Image, framed, made, unframed

IMAGE = Image(id="sha256:1", tags=("x:1",), env=("PATH=/bin", "B=image"), labels=(("role", "test"), ("a", "image")))


def test_an_image_fills_what_the_request_leaves_open() -> None:
    """Its variables come last, its labels first, its command only if there is none."""
    container = made("1" * 64, "web", b'{"Image":"x:1","Env":["A=1","B=2"],"Labels":{"a":"b"}}', IMAGE, 5.0)
    assert container.config["Env"] == ["A=1", "B=2", "PATH=/bin"]
    assert container.labels == {"role": "test", "a": "b"}
    assert container.argv == ["/bin/sleep", "1000000000"]
    assert container.config["Hostname"] == "1" * 12


def test_a_request_that_says_everything() -> None:
    """Entrypoint and command, memory and what swap becomes of it."""
    body = b'{"Image":"x:1","Entrypoint":["a"],"Cmd":"b","HostConfig":{"memory":100000000,"CgroupParent":"/p"}}'
    container = made("1" * 64, "web", body, IMAGE, 5.0)
    assert container.argv == ["a", "b"]
    assert (container.host["Memory"], container.host["MemorySwap"]) == (100_000_000, 200_000_000)
    assert (container.host["CgroupParent"], container.host["CpuShares"]) == ("/p", 0)
    assert container.body == body


def test_frames() -> None:
    """With a head, unless a terminal is at the other end."""
    both = framed(STDOUT, b"abc", tty=False) + framed(STDERR, b"", tty=False)
    assert both == b"\x01\0\0\0\0\0\0\x03abc\x02\0\0\0\0\0\0\0"
    assert unframed(both) == [(STDOUT, b"abc"), (STDERR, b"")]
    assert framed(STDOUT, b"abc", tty=True) == b"abc"
