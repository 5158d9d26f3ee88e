"""What was done for a sandbox, on the disk."""

from pathlib import Path

import pytest

from interpose.node.runtime.network.conf import parse
from interpose.node.runtime.network.result_cache import CachedAttachment, CniResultCache

NETWORK = parse('{"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "ptp"}]}', "f")
ENTRY = CachedAttachment(network=NETWORK, arguments="A=1", offered={"dns": {}}, result={"ips": []})


def test_an_entry_survives(tmp_path: Path) -> None:
    """Another process reads what one has written."""
    CniResultCache(tmp_path / "cache").write("s1", ENTRY)
    found = CniResultCache(tmp_path / "cache").read("s1")
    assert found is not None
    assert (found.network.plugins, found.arguments, found.offered, found.result) == (
        NETWORK.plugins,
        "A=1",
        {"dns": {}},
        {"ips": []},
    )


def test_what_is_not_there(tmp_path: Path) -> None:
    """None, and forgetting it is fine."""
    cache = CniResultCache(tmp_path / "cache")
    assert cache.read("s1") is None
    assert cache.sandboxes() == []
    cache.remove("s1")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"network": {}, "arguments": "", "offered": {}, "result": null}'])
def test_what_cannot_be_read(tmp_path: Path, text: str) -> None:
    """Is as if it were not there; it is listed all the same, to be cleaned up."""
    (tmp_path / "s1.json").write_text(text)
    assert CniResultCache(tmp_path).read("s1") is None
    assert CniResultCache(tmp_path).sandboxes() == ["s1"]


def test_all_sandboxes(tmp_path: Path) -> None:
    """Until they are removed."""
    cache = CniResultCache(tmp_path)
    for name in ("b", "a"):
        cache.write(name, ENTRY)
    (tmp_path / ".b.tmp").touch()
    assert cache.sandboxes() == ["a", "b"]
    cache.remove("a")
    assert cache.sandboxes() == ["b"]


def test_what_a_killed_writer_left_goes_with_the_entry(tmp_path: Path) -> None:
    """Its file is in the way of nobody, and nothing of the sandbox stays."""
    cache = CniResultCache(tmp_path)
    (tmp_path / ".s1.tmp").write_text('{"netw')
    cache.write("s1", ENTRY)
    assert [path.name for path in tmp_path.iterdir()] == ["s1.json"]
    (tmp_path / ".s1.tmp").write_text('{"netw')
    assert cache.sandboxes() == ["s1"]
    cache.remove("s1")
    assert list(tmp_path.iterdir()) == []


def test_ids_cannot_lead_out(tmp_path: Path) -> None:
    """Neither up nor into hidden files."""
    for name in ("", "../x", ".x"):
        with pytest.raises(ValueError, match="not an id"):
            CniResultCache(tmp_path).read(name)
