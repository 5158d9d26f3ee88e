"""Records as documents."""

import json

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.state.records import (
    ContainerPhase,
    ContainerRecord,
    ContainerUser,
    NetworkMode,
    RecordError,
    SandboxPhase,
    SandboxRecord,
    UsedImage,
    decode,
    encode,
)
from interpose.testing.pods import container_config, pod_config

SANDBOX = SandboxRecord(
    id="a" * 64,
    config=pod_config("web"),
    created_at=5,
    phase=SandboxPhase.READY,
    place=NetworkMode.POD,
    network_held=True,
    ip="10.0.0.2",
    additional_ips=("fd00::2",),
    overhead=cri.LinuxContainerResources(cpu_shares=3),
)
CONTAINER = ContainerRecord(
    id="b" * 64,
    sandbox_id="a" * 64,
    name="main_web",
    config=container_config(pod_config("web"), "main"),
    image=UsedImage(id="sha256:1", name="x:1"),
    created_at=6,
    phase=ContainerPhase.EXITED,
    exit_code=3,
    message="words",
    user=ContainerUser(uid=1, gid=2, groups=(3, 4)),
)


def test_there_and_back() -> None:
    """Nothing is lost, bytes in variables included."""
    CONTAINER.config.envs.add(key="A", value=b"\xff\x00")
    assert decode(SandboxRecord, encode(SANDBOX)) == SANDBOX
    assert decode(ContainerRecord, encode(CONTAINER)) == CONTAINER


def test_what_a_younger_version_added_is_left_out() -> None:
    """And what an older one did not have has its default."""
    document = json.loads(encode(SANDBOX))
    document["shiny"] = True
    del document["ip"]
    assert decode(SandboxRecord, json.dumps(document).encode()).ip == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"format": 2}',
        b'{"format": 1}',
        encode(SANDBOX).replace(b'"ready"', b'"odd"'),
        json.dumps({**json.loads(encode(SANDBOX)), "config": "!!"}).encode(),
        json.dumps({**json.loads(encode(SANDBOX)), "config": "/////w=="}).encode(),
        json.dumps({**json.loads(encode(SANDBOX)), "created_at": None}).encode(),
        json.dumps({**json.loads(encode(SANDBOX)), "ip": ["10.0.0.2"]}).encode(),
        json.dumps({**json.loads(encode(SANDBOX)), "additional_ips": [1]}).encode(),
    ],
)
def test_what_is_no_record(data: bytes) -> None:
    """An error, never something half read."""
    with pytest.raises(RecordError):
        decode(SandboxRecord, data)


def test_names() -> None:
    """A name has the attempt in it."""
    uid = SANDBOX.config.metadata.uid
    assert SANDBOX.name == f"web_default_{uid}_0"
    assert SANDBOX.ready
    assert not CONTAINER.running
