"""Generated classes in the spelling of tables."""

import pytest

from interpose._pb import cri_pb2, resmgr_agent_pb2
from tests.support.wire_tables import spelled_file, spelled_type


def test_types_in_words() -> None:
    """Text, maps of text, messages and lists of them."""
    fields = {
        field.name: spelled_type(field)
        for message in resmgr_agent_pb2.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert fields["node"] == "string"
    assert fields["capacities"] == "map<string,string>"
    assert fields["patches"] == "repeated JsonPatch"


def test_what_cannot_be_spelled_is_an_error() -> None:
    """Instead of a comparison that says nothing."""
    with pytest.raises(KeyError):
        spelled_type(cri_pb2.PodSandboxMetadata.DESCRIPTOR.fields_by_name["attempt"])
    with pytest.raises(ValueError, match=r"runtime\.v1\.RuntimeService\.\w+ is a stream"):
        spelled_file(cri_pb2.DESCRIPTOR)
