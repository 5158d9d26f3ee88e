"""Which classes belong to which hook point, against the wire table."""

import json
from pathlib import Path

import pytest

from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.messages import request_class, response_class

TABLE = json.loads((Path(__file__).parents[3] / "data/wire/runtime-hook-v1alpha1.json").read_text())
RPCS = {row["rpc"]: row for row in TABLE["services"]["RuntimeHookService"]}


@pytest.mark.parametrize("point", HookPoint)
def test_classes_of_a_hook_point(point: HookPoint) -> None:
    """A hook point's classes are those the table names for its method."""
    row = RPCS[point.rpc.decode().rpartition("/")[2]]
    assert request_class(point).DESCRIPTOR.name == row["request"]
    assert response_class(point).DESCRIPTOR.name == row["response"]
