"""Messages as JSON values."""

from interpose.cri.message_json import message_to_json
from interpose.cri.messages import cri


def test_names_of_the_protocol() -> None:
    """Nested messages, lists, maps, enums as numbers, bytes as text; what is not set is left out."""
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="a"),
        command=["sh", "-c"],
        labels={"k": "v"},
        envs=[cri.KeyValue(key="A", value=b"\xff1")],
        mounts=[cri.Mount(container_path="/x", propagation=cri.PROPAGATION_BIDIRECTIONAL)],
    )
    assert message_to_json(config) == {
        "metadata": {"name": "a"},
        "command": ["sh", "-c"],
        "labels": {"k": "v"},
        "envs": [{"key": "A", "value": "\ufffd1"}],
        "mounts": [{"container_path": "/x", "propagation": 2}],
    }
