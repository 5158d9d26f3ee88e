"""Percentages of a pod's annotation as schemata of this node."""

import json
from typing import Any

import pytest

from interpose.core.model.cgroup import Parameter
from interpose.core.model.pod import Pod
from interpose.hooks.server.context import PodContext
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import Kernel, NodeInputs, Resctrl
from interpose.hooks.server.plugins.resctrl import ResctrlPlugin, cache_mask

KEY = "node.koordinator.sh/resctrl"
INTEL = Resctrl(cbm_mask=0x7FF, l3_ids=(0, 1), mb_ids=(0, 1), vendor="GenuineIntel")
AMD = Resctrl(cbm_mask=0xFFFF, l3_ids=(0, 8), mb_ids=(0, 8), vendor="AuthenticAMD")
PLUGIN = ResctrlPlugin()


def wish(annotation: Any, kernel: Resctrl | None = INTEL) -> object:
    """The value for a pod with this annotation; text goes as it is, None is no annotation."""
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    pod = Pod(id="p", uid="u", annotations={} if annotation is None else {KEY: text})
    context = PodContext(request=pod)
    PLUGIN.pod(PLUGIN.rule(NodeInputs(kernel=Kernel(resctrl=kernel)), None), context)
    found = context.response.wishes.get(Parameter.RESCTRL)
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("full", "start", "end", "mask"),
    [(0x3FF, 10, 80, 0xFE), (0x7FF, 10, 50, 0x3C), (0x7FF, 0, 30, 0xF), (0xFFF, 20, 60, 0xF8), (0xFFF, 0, 100, 0xFFF)],
)
def test_mask_of_a_range(full: int, start: int, end: int, mask: int) -> None:
    """Both ends are rounded up to a way."""
    assert cache_mask(full.bit_length(), start, end) == mask


@pytest.mark.parametrize(("start", "end", "mask"), [(0, 1, 1), (10, 20, 1), (26, 30, 2), (99, 100, 8)])
def test_range_within_one_way_is_that_way(start: int, end: int, mask: int) -> None:
    """The kernel does not take an empty mask."""
    assert cache_mask(4, start, end) == mask


@pytest.mark.parametrize(("percent", "value"), [(1, 10), (10, 10), (15, 20), (99, 100), (100, 100)])
def test_bandwidth_of_intel_goes_in_steps_of_ten(percent: int, value: int) -> None:
    """Rounded up."""
    assert wish({"mb": {"schemata": {"percent": percent}}}) == f"MB:0={value};1={value};\n"


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (10, 16), (20, 32), (50, 80), (99, 158), (100, 2048)])
def test_bandwidth_of_amd_is_counted_in_eighths_of_a_gigabyte(percent: int, value: int) -> None:
    """All of it is the processor's own word for no limit."""
    assert wish({"mb": {"schemata": {"percent": percent}}}, AMD) == f"MB:0={value};8={value};\n"


def test_both_parts_are_lines_of_their_own() -> None:
    """For every cache of the node, under its real id."""
    annotation = {"llc": {"schemata": {"range": [0, 30]}}, "mb": {"schemata": {"percent": 20}}}
    assert wish(annotation) == "L3:0=f;1=f;\nMB:0=20;1=20;\n"
    assert wish(annotation, AMD) == "L3:0=1f;8=1f;\nMB:0=32;8=32;\n"


def test_one_cache_can_have_its_own_setting() -> None:
    """The others have the common one."""
    annotation = {
        "llc": {"schemata": {"range": [0, 30]}, "schemataPerCache": [{"cacheID": 1, "range": [10, 50]}]},
        "mb": {"schemata": {"percent": 20}, "schemataPerCache": [{"cacheID": 0, "percent": 40}]},
    }
    assert wish(annotation) == "L3:0=f;1=3c;\nMB:0=40;1=20;\n"


def test_caches_without_any_setting_are_not_restricted() -> None:
    """The setting of one is not lost because others have none. An empty common part is none, too."""
    annotation = {
        "llc": {"schemata": {}, "schemataPerCache": [{"cacheID": 0, "range": [0, 30]}]},
        "mb": {"schemataPerCache": [{"cacheID": 8, "percent": 50}]},
    }
    assert wish(annotation, AMD) == "L3:0=1f;8=ffff;\nMB:0=2048;8=80;\n"


def test_names_match_without_regard_to_case() -> None:
    """And unknown ones are nobody's business."""
    annotation = {
        "LLC": {"Schemata": {"RANGE": [0, 30]}, "SchemataPerCache": [{"cacheId": 1, "Range": [10, 50]}]},
        "x": 1,
    }
    assert wish(annotation) == "L3:0=f;1=3c;\n"


@pytest.mark.parametrize("annotation", [None, {}, {"llc": None, "mb": {}}, {"llc": {"schemataPerCache": []}}])
def test_pod_that_asks_for_nothing_gets_nothing(annotation: Any) -> None:
    """Groups are few."""
    assert wish(annotation) is None


def test_kernel_without_resctrl_has_no_wish() -> None:
    """Whatever the annotation says."""
    assert wish({"llc": {"schemata": {"range": [0, 30]}}}, None) is None


def test_part_the_processor_cannot_do_is_left_out() -> None:
    """The other one still counts."""
    annotation = {
        "llc": {"schemataPerCache": [{"cacheID": 0, "range": [0, 30]}]},
        "mb": {"schemata": {"percent": 20}},
    }
    assert wish(annotation, Resctrl(cbm_mask=0, mb_ids=(0,), vendor="GenuineIntel")) == "MB:0=20;\n"
    assert wish(annotation, Resctrl(cbm_mask=0x7FF, l3_ids=(0,), vendor="GenuineIntel")) == "L3:0=f;\n"
    assert wish(annotation, Resctrl(cbm_mask=0x7FF, l3_ids=(0,), mb_ids=(0,), vendor="Other")) == "L3:0=f;\n"
    assert wish(annotation, Resctrl(cbm_mask=0, l3_ids=(0,))) is None


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("", "is empty"),
        ("{", "line 1 column 2: is not valid JSON"),
        ("[]", "expected a group of keys, found a list"),
        ("[" * 10_000, "nested too deeply"),
        ("[" * 100_000, "has 100000 characters, more than 16384"),
        ('{"llc":{"schemataPerCache":[' + "{}," * 600 + "{}]}}", "has 600 commas, more than 512"),
        ({"llc": 5}, r": llc: expected a group of keys, found a whole number \('5'\)"),
        ({"llc": {"schemata": {"range": 5}}}, "llc.schemata.range: expected a list"),
        (
            {"llc": {"schemata": {"range": [20]}}},
            "llc.schemata.range: expected two percentages, start and end, found 1",
        ),
        ({"llc": {"schemata": {"range": [50, 20]}}}, "a start below the end, found 50 and 20"),
        ({"llc": {"schemata": {"range": [20, 20]}}}, "a start below the end"),
        ({"llc": {"schemata": {"range": [0, 101]}}}, r"llc.schemata.range\[1\]: .* from 0 to 100, found .*101"),
        ({"llc": {"schemata": {"range": [-1, 50]}}}, r"llc.schemata.range\[0\]: .*'-1'"),
        ({"llc": {"schemata": {"range": [0.5, 50]}}}, "found a number with a fraction"),
        ({"llc": {"schemataPerCache": [{"range": [0, 50]}]}}, r"schemataPerCache\[0\].cacheID: .*found nothing"),
        ({"llc": {"schemataPerCache": [{"cacheID": 0}]}}, r"schemataPerCache\[0\].range: expected two percentages"),
        ({"llc": {"schemataPerCache": [{"cacheID": 7, "range": [0, 50]}]}}, "no cache 7, it has 0, 1"),
        ({"mb": {"schemata": {"percent": 0}}}, "mb.schemata.percent: .* from 1 to 100, found .*'0'"),
        ({"mb": {"schemata": {"percent": "20"}}}, r"found text \('20'\)"),
        ({"mb": {"schemata": {"percent": True}}}, "found true"),
        ('{"mb":{"schemata":{"percent":' + "9" * 6000 + "}}}", "from 1 to 100, found a whole number"),
        ({"mb": {"schemataPerCache": [{"cacheID": 0}]}}, r"mb.schemataPerCache\[0\].percent: .* found nothing"),
    ],
)
def test_bad_annotation_is_named_with_place_and_value(annotation: Any, message: str) -> None:
    """Nothing of it is used."""
    with pytest.raises(ValueError, match=f"(?s)^annotation {KEY}.*{message}"):
        wish(annotation)


def test_mask_with_holes_makes_no_rule() -> None:
    """The rule in force stays, and the problem names the mask."""
    good = make_rules([PLUGIN], NodeInputs(kernel=Kernel(resctrl=INTEL)), PluginRules())
    bad = make_rules([PLUGIN], NodeInputs(kernel=Kernel(resctrl=Resctrl(cbm_mask=0x5))), good)
    assert bad.by_plugin == good.by_plugin
    assert bad.problems == {"Resctrl": "resctrl: cbm_mask 5 of the L3 cache has holes"}
