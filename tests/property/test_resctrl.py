"""Laws of resctrl: every schemata we make is one the kernel takes, and arrives as it was meant."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.pod import Pod
from interpose.hooks.server.actuators.resctrl import ResctrlActuator
from interpose.hooks.server.context import PodContext
from interpose.hooks.server.plugin import Resctrl
from interpose.hooks.server.plugins.resctrl import ANNOTATION, ResctrlPlugin, ResctrlRule
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.resctrl import ResctrlTree, parse_schemata, render_schemata
from tests.support.hooks.fake_resctrl import FakeResctrl

VENDORS = {"GenuineIntel": 100, "AuthenticAMD": 2048}
TARGET = ActuatorTarget(level=Level.POD, key="s", directory="pod", pod_uid="u")

ranges = st.tuples(st.integers(0, 99), st.integers(1, 100)).filter(lambda pair: pair[0] < pair[1]).map(list)
percents = st.integers(1, 100)


class OneThread:
    """A pod with one thread."""

    def children(self, directory: str) -> list[str]:
        """No containers."""
        return []

    def processes(self, directory: str) -> list[int]:
        """Nobody asks."""
        raise NotImplementedError

    def threads(self, directory: str) -> list[int]:
        """The one."""
        return [1]


def settings(key: str, values: st.SearchStrategy[Any], caches: list[int]) -> st.SearchStrategy[Any]:
    """One part of an annotation."""
    single = st.fixed_dictionaries({"cacheID": st.sampled_from(caches), key: values})
    return st.fixed_dictionaries(
        {}, optional={"schemata": st.fixed_dictionaries({key: values}), "schemataPerCache": st.lists(single)}
    )


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Resctrl, dict[str, Any], dict[str, Any]]:
    """A processor and two annotations for it."""
    caches = draw(st.lists(st.integers(0, 64), min_size=1, max_size=4, unique=True))
    kernel = Resctrl(
        cbm_mask=(1 << draw(st.integers(1, 20))) - 1,
        l3_ids=tuple(caches),
        mb_ids=tuple(caches),
        vendor=draw(st.sampled_from(sorted(VENDORS))),
    )
    annotation = st.fixed_dictionaries(
        {}, optional={"llc": settings("range", ranges, caches), "mb": settings("percent", percents, caches)}
    )
    return kernel, draw(annotation), draw(annotation)


def wanted(kernel: Resctrl, annotation: dict[str, Any]) -> str | None:
    """What a pod with this annotation gets."""
    context = PodContext(request=Pod(id="p", annotations={ANNOTATION: json.dumps(annotation)}))
    ResctrlPlugin().pod(ResctrlRule(kernel=kernel), context)
    wish = context.response.wishes.get(Parameter.RESCTRL)
    return None if wish is None else str(wish.value)


@given(nodes())
def test_every_annotation_is_taken_by_the_kernel(node: tuple[Resctrl, dict[str, Any], dict[str, Any]]) -> None:
    """Also over what an earlier one left; and the same text twice changes nothing."""
    kernel, *annotations = node
    files = FakeResctrl(
        cbm_mask=kernel.cbm_mask, caches=kernel.l3_ids, bandwidth=VENDORS[kernel.vendor], vendor=kernel.vendor
    )
    files.spawn(1)
    actuator = ResctrlActuator(OneThread(), ResctrlTree(files))
    for text in (wanted(kernel, annotation) for annotation in annotations):
        if text is None:
            continue
        actuator.write(TARGET, Parameter.RESCTRL, text)
        assert actuator.same(Parameter.RESCTRL, actuator.read(TARGET, Parameter.RESCTRL), text)
        written = len(files.writes)
        actuator.write(TARGET, Parameter.RESCTRL, text)
        assert len(files.writes) == written


@given(
    st.dictionaries(
        st.sampled_from(["L3", "L2", "MB", "L3CODE", "SMBA"]),
        st.dictionaries(st.integers(0, 300), st.integers(0, 1 << 32), min_size=1, max_size=5),
    )
)
def test_schemata_survive_being_written_and_read(schemata: dict[str, dict[int, int]]) -> None:
    """Nothing is lost between the two forms."""
    assert parse_schemata(render_schemata(schemata)) == schemata


@given(st.text(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_schemata_or_a_value_error(text: str) -> None:
    """Annotations are written by people."""
    context = PodContext(request=Pod(id="p", annotations={ANNOTATION: text}))
    rule = ResctrlRule(kernel=Resctrl(cbm_mask=0xFF, l3_ids=(0,), mb_ids=(0,), vendor="GenuineIntel"))
    try:
        ResctrlPlugin().pod(rule, context)
        problem = ""
    except ValueError as error:
        problem = str(error)
    assert not problem or ANNOTATION in problem
