"""Update bodies as CRI and back."""

import json
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.relay.docker.translate.create import UpdateBody, read_update, update_body
from interpose.relay.docker.translate.json_edit import UnreadableBodyError

GOLDEN = (Path(__file__).parents[4] / "data/docker/update.json").read_bytes()


def filled(update: UpdateBody) -> cri.UpdateContainerResourcesRequest:
    """The message of it."""
    message = cri.UpdateContainerResourcesRequest()
    update.fill(message, "c1")
    return message


def test_an_update_as_cri_has_it() -> None:
    """Zero and empty say nothing."""
    message = filled(read_update(GOLDEN))
    assert message == cri.UpdateContainerResourcesRequest(
        container_id="c1", linux=cri.LinuxContainerResources(cpu_shares=512, cpuset_cpus="2-3")
    )


def test_an_update_of_something_else() -> None:
    """A patch that sets nothing dockerd looks at is one all the same."""
    message = filled(read_update(b'{"RestartPolicy":{"Name":"no"},"OomScoreAdj":3,"CgroupParent":"/x"}'))
    assert message.HasField("linux")
    assert not message.linux.ByteSize()


def test_an_unchanged_update_is_the_same_object() -> None:
    """Not a byte is written."""
    update = read_update(GOLDEN)
    edited = update.edited(filled(update), filled(update))
    assert edited.body is GOLDEN
    assert edited.without_effect == ()


def test_only_touched_keys_change() -> None:
    """Those that are there keep their place."""
    update = read_update(b'{ "cpushares" : 2, "X" : 1.0 }')
    after = filled(update)
    after.linux.cpu_shares = 9
    after.linux.cpuset_cpus = "0"
    edited = update.edited(filled(update), after)
    assert edited.body == b'{ "cpushares" : 9, "X" : 1.0,"CpusetCpus":"0" }'


def test_what_an_update_cannot_say() -> None:
    """Named, and the rest goes on."""
    update = read_update(b"{}")
    after = filled(update)
    after.annotations["a"] = "b"
    after.linux.oom_score_adj = 3
    after.linux.unified["memory.high"] = "1"
    assert update.edited(filled(update), after) == (b"{}", ("unified", "oom_score_adj", "annotations"))


@pytest.mark.parametrize("body", [b"", b"null", b'{"Memory":"1g"}', b'{"Memory":1,"memory":2}'])
def test_what_cannot_be_read(body: bytes) -> None:
    """dockerd refuses most of it, too."""
    with pytest.raises(UnreadableBodyError):
        read_update(body)


def test_an_update_of_our_own() -> None:
    """Only what is set, and no swap with a memory limit."""
    message = cri.UpdateContainerResourcesRequest(container_id="c1")
    message.linux.cpuset_cpus = "0-3"
    message.linux.memory_limit_in_bytes = 1 << 30
    message.linux.unified["memory.high"] = "1"
    body, without_effect = update_body(message)
    assert json.loads(body) == {"CpusetCpus": "0-3", "Memory": 1 << 30, "MemorySwap": 1 << 30}
    assert without_effect == ("unified",)
