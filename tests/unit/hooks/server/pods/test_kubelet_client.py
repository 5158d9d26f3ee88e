"""Settings of the kubelet source, and lists in files. Sockets are in tests/integration/test_kubelet_pods.py."""

import json
import logging
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.hooks.server.pods.kubelet_client import KubeletPods, KubeletUrl, Scheme, parse_url


def write_pods(path: Path, *uids: str) -> None:
    """A list in a file."""
    path.write_text(json.dumps({"items": [{"metadata": {"uid": uid}} for uid in uids]}))


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("http://127.0.0.1:10255/pods", KubeletUrl(scheme=Scheme.HTTP, host="127.0.0.1", port=10255)),
        (
            "https://127.0.0.1:10250/pods/",
            KubeletUrl(scheme=Scheme.HTTPS, host="127.0.0.1", port=10250, target="/pods/"),
        ),
        ("https://[::1]", KubeletUrl(scheme=Scheme.HTTPS, host="::1", port=10250)),
        ("http://node/", KubeletUrl(scheme=Scheme.HTTP, host="node", port=10255)),
        ("http://node/a?b=c", KubeletUrl(scheme=Scheme.HTTP, host="node", port=10255, target="/a?b=c")),
        ("http://node/p\u00f6ds x", KubeletUrl(scheme=Scheme.HTTP, host="node", port=10255, target="/p%C3%B6ds%20x")),
        ("unix:///run/kubelet.sock", KubeletUrl(scheme=Scheme.UNIX, host="/run/kubelet.sock")),
        ("file:///tmp/a%20b.json", KubeletUrl(scheme=Scheme.FILE, host="/tmp/a b.json")),
    ],
)
def test_urls(url: str, source: KubeletUrl) -> None:
    """Port and path have the usual defaults."""
    assert parse_url(url) == source


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://x", "begins with none of http://, https://, unix://, file://"),
        ("/pods", "begins with none of"),
        ("http://:10255/pods", "names no host"),
        ("http://node:port/pods", "Port could not be cast"),
        ("http://[::1/pods", "Invalid IPv6 URL"),
        ("https://me:secret@node/pods", "can have neither a user nor a fragment"),
        ("unix://run/kubelet.sock", "needs an absolute path after unix://"),
        ("file://", "needs an absolute path after file://"),
    ],
)
def test_urls_that_cannot_be_used(url: str, message: str) -> None:
    """Refused at start, with the URL."""
    with pytest.raises(ConfigError) as caught:
        parse_url(url)
    assert message in str(caught.value)
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize(
    ("url", "more", "message"),
    [
        ("http://node/pods", {"token_file": "/t"}, "token file /t: http://node/pods would send it unencrypted"),
        ("http://node/pods", {"ca_file": "/ca"}, "only for https://"),
        ("unix:///s", {"insecure": True}, "only for https://"),
        ("https://node/pods", {"insecure": True, "ca_file": "/ca"}, "CA file /ca: is of no use"),
    ],
)
def test_settings_that_do_not_go_together(url: str, more: dict[str, object], message: str) -> None:
    """A secret is not sent by accident, and a check that does not happen is not pretended."""
    with pytest.raises(ConfigError) as caught:
        KubeletPods(url, **more)  # type: ignore[arg-type]
    assert message in str(caught.value)


async def test_last_good_list_stays_and_trouble_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And so is its end; both are counted."""
    file, times = tmp_path / "pods.json", iter((5.0, 9.0))
    source = KubeletPods(f"file://{file}", now=lambda: next(times))
    caplog.set_level(logging.INFO)
    write_pods(file, "u1", "u2")
    assert await source.refresh()
    assert (set(source.pods), source.refreshed_at) == ({"u1", "u2"}, 5.0)
    file.write_text("{")
    assert not await source.refresh()
    file.unlink()
    assert not await source.refresh()
    assert (set(source.pods), source.refreshed_at, source.failures) == ({"u1", "u2"}, 5.0, 2)
    assert "No such file" in source.problem
    write_pods(file, "u3")
    assert await source.refresh()
    assert (set(source.pods), source.refreshed_at, source.refreshes, source.problem) == ({"u3"}, 9.0, 2, "")
    assert [one.message for one in caplog.records] == [
        "Kubelet does not list its pods, the last list stays",
        "Kubelet lists its pods again",
    ]


async def test_list_is_bounded(tmp_path: Path) -> None:
    """A file that grows for ever is not read to its end."""
    file = tmp_path / "pods.json"
    write_pods(file, "u1")
    source = KubeletPods(f"file://{file}", limit=20)
    assert not await source.refresh()
    assert source.problem == "the list is larger than 20 bytes"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff", b"a\nb", b"x" * 70_000])
async def test_file_without_a_token(tmp_path: Path, content: bytes) -> None:
    """The message names the file, never what is in it."""
    token = tmp_path / "token"
    token.write_bytes(content)
    source = KubeletPods("https://127.0.0.1:1/pods", token_file=str(token))
    assert not await source.refresh()
    assert source.problem == f"kubelet token file {token}: holds no token"


async def test_missing_token_file(tmp_path: Path) -> None:
    """It may appear later."""
    source = KubeletPods("https://127.0.0.1:1/pods", token_file=str(tmp_path / "token"))
    assert not await source.refresh()
    assert source.problem == f"kubelet token file {tmp_path}/token: No such file or directory"


async def test_missing_ca_file(tmp_path: Path) -> None:
    """Named in the trouble."""
    source = KubeletPods("https://127.0.0.1:1/pods", ca_file=str(tmp_path / "ca"))
    assert not await source.refresh()
    assert source.problem.startswith(f"kubelet CA file {tmp_path}/ca: ")
