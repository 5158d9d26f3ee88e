"""The table of hook points against the CRI methods and the wire table of the hook protocol."""

import json
from pathlib import Path

import pytest

from interpose.cri.methods import METHODS
from interpose.hooks.api.hookpoint import HOOKED_METHODS, SERVICE, HookPoint, method_of

TABLE = json.loads((Path(__file__).parents[3] / "data/wire/runtime-hook-v1alpha1.json").read_text())


def test_every_rpc_of_the_protocol_is_a_hook_point() -> None:
    """No method of the hook service is missing, none is invented."""
    paths = {f"/{SERVICE}/{row['rpc']}".encode() for row in TABLE["services"]["RuntimeHookService"]}
    assert {point.rpc for point in HookPoint} == paths


def test_every_hook_point_belongs_to_one_unary_cri_method() -> None:
    """Each hook point is in the table once, with a method that can be intercepted."""
    points = [point for row in HOOKED_METHODS.values() for point in (row.pre, row.post) if point is not None]
    assert sorted(points) == sorted(HookPoint)
    assert [name for name in HOOKED_METHODS if METHODS[name].server_streaming] == []


@pytest.mark.parametrize("point", HookPoint)
def test_name_tells_method_and_stage(point: HookPoint) -> None:
    """The stage is the prefix, the method the rest."""
    row = HOOKED_METHODS[method_of(point)]
    assert point.value == ("Post" if point.is_post else "Pre") + method_of(point)
    assert (row.post if point.is_post else row.pre) is point
    assert point.about_pod == ("Pod" in point.value)
