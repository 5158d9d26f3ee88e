"""The network of pods, with plugins that are small programs. With the real ones: tests/integration/test_cni.py."""

import json
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.network.cni import CniNetwork
from interpose.node.runtime.network.plugins import CONTAINER_ID
from interpose.node.runtime.network.types import NetworkError
from interpose.node.runtime.state import orphans

CONFIG = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", namespace="ns", uid="u"))
PLUGIN = """#!{python} -IS
import json, os, sys
document = json.load(sys.stdin)
call = dict(name=os.path.basename(sys.argv[0]), document=document, env=dict(os.environ))
with open({log!r}, "a") as log:
    log.write(json.dumps(call) + "\\n")
command = os.environ["CNI_COMMAND"]
if document.get("fail") == command:
    print(json.dumps(dict(code=7, msg="no room", details=command)))
    sys.exit(1)
if document.get("hang") == command:
    import time
    time.sleep(1000)
if command == "ADD":
    print(document.get("says") or json.dumps(dict(cniVersion="1.0.0", ips=[dict(address="10.1.0.2/24")])))
"""


class Place:
    """A folder with plugins, configurations and what the plugins were told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("conf", "bin"):
            (root / name).mkdir()
        for name in ("first", "second"):
            program = root / "bin" / name
            program.write_text(PLUGIN.format(python=sys.executable, log=str(root / "log")))
            program.chmod(0o755)

    def configure(self, *plugins: dict[str, Any], version: str = "1.0.0") -> None:
        document = {"name": "net", "cniVersion": version, "plugins": list(plugins)}
        (self.root / "conf/10.conflist").write_text(json.dumps(document))

    def network(self, timeout: float = 20.0) -> CniNetwork:
        folders = [str(self.root / "none"), str(self.root / "bin")]
        return CniNetwork(str(self.root / "conf"), folders, self.root / "cache", timeout=timeout)

    def calls(self) -> list[dict[str, Any]]:
        file = self.root / "log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def verbs(self) -> list[tuple[str, str]]:
        return [(call["env"]["CNI_COMMAND"], call["name"]) for call in self.calls()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_chain_there_and_back(place: Place) -> None:
    """Each is told what the one before said; the way back is in reverse with the last result."""
    place.configure({"type": "first"}, {"type": "second"})
    network = place.network()
    result = await network.setup("s1", "/ns", CONFIG)
    assert result.ip == "10.1.0.2"
    await network.teardown("s1", "/ns", CONFIG)
    assert place.verbs() == [("ADD", "first"), ("ADD", "second"), ("DEL", "second"), ("DEL", "first")]
    previous = [call["document"].get("prevResult") for call in place.calls()]
    assert previous[0] is None
    assert all(one["ips"][0]["address"] == "10.1.0.2/24" for one in previous[1:])


async def test_what_a_plugin_is_told(place: Place) -> None:
    """In its environment; nothing else of ours is in there."""
    place.configure({"type": "first"})
    await place.network().setup("s1", "/ns", CONFIG)
    env = place.calls()[0]["env"]
    assert (env["CNI_CONTAINERID"], env["CNI_NETNS"], env["CNI_IFNAME"]) == ("s1", "/ns", "eth0")
    assert "K8S_POD_NAME=web" in env["CNI_ARGS"]
    assert env["CNI_PATH"].endswith("/bin")
    assert {name for name in env if not name.startswith("CNI_")} <= {"PATH", "LC_CTYPE"}


async def test_older_plugins_get_no_result_on_the_way_back(place: Place) -> None:
    """They would not know what it is."""
    place.configure({"type": "first"}, version="0.3.1")
    network = place.network()
    await network.setup("s1", "/ns", CONFIG)
    await network.teardown("s1", "/ns", CONFIG)
    assert "prevResult" not in place.calls()[-1]["document"]


async def test_teardown_twice_and_of_nothing(place: Place) -> None:
    """Without a note and without a namespace nobody is asked; with one the plugins are, to be sure."""
    place.configure({"type": "first"})
    network = place.network()
    await network.teardown("s1", "", CONFIG)
    await network.teardown("s1", "/ns")
    assert place.verbs() == []
    await network.teardown("s1", "/ns", CONFIG)
    assert place.verbs() == [("DEL", "first")]


async def test_a_failure_undoes_the_whole_chain(place: Place) -> None:
    """In the plugin's own words; nothing is noted any more."""
    place.configure({"type": "first"}, {"type": "second", "fail": "ADD"})
    network = place.network()
    with pytest.raises(NetworkError, match=r"'second' failed \(ADD\): no room: ADD"):
        await network.setup("s1", "/ns", CONFIG)
    assert place.verbs()[2:] == [("DEL", "second"), ("DEL", "first")]
    assert await network.find_orphans([]) == []


async def test_a_failure_that_cannot_be_undone_is_noted(place: Place) -> None:
    """The next teardown tries again."""
    place.configure({"type": "first", "fail": "DEL"}, {"type": "second", "fail": "ADD"})
    network = place.network()
    with pytest.raises(NetworkError, match="ADD"):
        await network.setup("s1", "/ns", CONFIG)
    assert await network.find_orphans(["s2"]) == ["s1"]
    with pytest.raises(NetworkError, match=r"failed \(DEL\)"):
        await network.teardown("s1", "", CONFIG)
    assert await network.find_orphans(["s1"]) == []


async def test_teardown_uses_what_was_in_force_at_setup(place: Place) -> None:
    """Although the configuration changed, and another process does it."""
    place.configure({"type": "first", "mark": 1})
    await place.network().setup("s1", "/ns", CONFIG)
    place.configure({"type": "second"})
    await place.network().teardown("s1", "")
    assert place.calls()[-1]["document"]["mark"] == 1
    assert place.calls()[-1]["env"]["CNI_NETNS"] == ""


async def test_a_plugin_that_hangs_is_ended(place: Place) -> None:
    """And named, with the time it had."""
    place.configure({"type": "first", "hang": "ADD"})
    with pytest.raises(NetworkError, match=r"'first' did not finish ADD in 0\.5 s"):
        await place.network(timeout=0.5).setup("s1", "/ns", CONFIG)


@pytest.mark.parametrize(("says", "problem"), [("[", "answered nonsense"), ("{}", "no address")])
async def test_answers_that_are_none(place: Place, says: str, problem: str) -> None:
    """The plugin or the network is named."""
    place.configure({"type": "first", "says": says})
    with pytest.raises(NetworkError, match=problem):
        await place.network().setup("s1", "/ns", CONFIG)


async def test_a_program_that_cannot_be_started(place: Place) -> None:
    """As the system says it."""
    (place.root / "bin/first").write_bytes(b"\x7fnothing")
    place.configure({"type": "first"})
    with pytest.raises(NetworkError, match="cannot be started"):
        await place.network().setup("s1", "/ns", CONFIG)


async def test_without_a_configuration(place: Place) -> None:
    """Pods share the host's network, and that is said."""
    network = place.network()
    assert not network.configured
    assert (network.ready.ready, network.ready.reason) == (True, "HostNetwork")
    assert "pods share the host's network" in network.ready.message
    with pytest.raises(NetworkError, match="no CNI configuration"):
        await network.setup("s1", "/ns", CONFIG)
    assert network.node_address()


async def test_with_a_broken_configuration(place: Place) -> None:
    """Somebody wanted a network: the host's is not given instead."""
    (place.root / "conf/10.conf").write_text("{")
    network = place.network()
    assert network.configured
    assert (network.ready.ready, network.ready.reason) == (False, "NetworkPluginNotReady")
    with pytest.raises(NetworkError, match=r"10\.conf"):
        await network.setup("s1", "/ns", CONFIG)


def test_with_a_plugin_that_is_missing(place: Place) -> None:
    """Named with the folders that were searched; it may come later."""
    place.configure({"type": "third"})
    network = place.network()
    assert not network.ready.ready
    assert "'third' is not in" in network.ready.message
    (place.root / "bin/first").rename(place.root / "bin/third")
    assert network.ready.ready


async def test_strays_of_settled_sandboxes_are_left_alone(place: Place) -> None:
    """What a plugin leaves running for a pod that is connected belongs to it; of another pod it is ended."""
    helper = 'import subprocess; subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=-3, stderr=-3)'
    program = place.root / "bin/first"
    program.write_text(program.read_text().replace('if command == "ADD":', f'if command == "ADD":\n    {helper}'))
    place.configure({"type": "first"})
    network, ids = place.network(), (secrets.token_hex(32), secrets.token_hex(32))  # the whole machine is looked at

    def helpers(sandbox_id: str) -> list[int]:
        return orphans.with_environment(CONTAINER_ID, [sandbox_id])

    try:
        for one in ids:
            await network.setup(one, "/proc/self/ns/net", CONFIG)
        assert all(helpers(one) for one in ids)
        await place.network().kill_orphan_plugins([ids[0]])
        assert (bool(helpers(ids[0])), bool(helpers(ids[1]))) == (True, False)
    finally:
        orphans.kill_all(lambda: orphans.with_environment(CONTAINER_ID, ids))
