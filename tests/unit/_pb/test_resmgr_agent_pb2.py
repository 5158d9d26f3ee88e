"""The generated classes of the agent's service against the table of the wire format."""

import json
from pathlib import Path

from interpose._pb import resmgr_agent_pb2
from tests.support.wire_tables import spelled_file

TABLE = Path(__file__).parents[2] / "data/wire/resmgr-agent-v1.json"
FILE = resmgr_agent_pb2.DESCRIPTOR


def test_everything_is_as_in_the_table() -> None:
    """Package, messages with number, name and type of each field, and methods, all of them unary; nothing is added."""
    assert spelled_file(FILE) == json.loads(TABLE.read_text())


def test_the_name_of_the_file_is_our_own() -> None:
    """In the pool of descriptors, where another program's classes may be too."""
    assert FILE.name == "interpose/_pb/resmgr_agent.proto"
