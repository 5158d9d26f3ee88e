"""What a round would do, as people and programs see it."""

import json
from typing import Any

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.qos import QosClass
from interpose.hooks.server.plugin import Kernel, Resctrl
from interpose.hooks.server.plugins.core_sched import CoreSchedPlugin
from interpose.hooks.server.plugins.group_identity import GroupIdentity, GroupIdentityRule
from interpose.hooks.server.plugins.oom_score import OomScoreAdj
from interpose.hooks.server.plugins.resctrl import ResctrlPlugin
from interpose.hooks.server.reconcile.plan import PlanAction, PlanItem
from interpose.hooks.server.reconcile.report import (
    ReportedProblem,
    as_json,
    idle_plugins,
    missing_parameters,
    render,
    value_text,
)
from interpose.hooks.server.targets import ActuatorTarget

GIB = 1 << 30
BE_DIRECTORY = "kubepods.slice/kubepods-besteffort.slice"
SPARK = f"{BE_DIRECTORY}/kubepods-besteffort-podu1.slice"
NODE = ActuatorTarget(level=Level.NODE, key="")
BEST_EFFORT = ActuatorTarget(level=Level.QOS, key=BE_DIRECTORY, directory=BE_DIRECTORY, name="BestEffort")
APP = ActuatorTarget(level=Level.HOST_APP, key="ls/nginx", directory="ls/nginx", name="nginx")
POD = ActuatorTarget(level=Level.POD, key="s1", directory=SPARK, name="batch/spark", pod_uid="u1")
SANDBOX = ActuatorTarget(level=Level.SANDBOX, key="s1", directory=f"{SPARK}/s1", name="batch/spark", pod_uid="u1")
MAIN = ActuatorTarget(level=Level.CONTAINER, key="c1", directory=f"{SPARK}/c1", name="batch/spark/main", pod_uid="u1")
EVIL = ActuatorTarget(level=Level.CONTAINER, key="c2", name="batch/spark/log\x1b[2J", pod_uid="u1", running=False)
NAMELESS = ActuatorTarget(level=Level.CONTAINER, key="0123456789abcdef", pod_uid="u2")


def item(
    target: ActuatorTarget,
    parameter: Parameter,
    now: Value | None,
    wanted: Value | None,
    action: PlanAction,
    **more: str,
) -> PlanItem:
    """A value that GroupIdentity wants, unless something else is said."""
    return PlanItem(
        target=target,
        parameter=parameter,
        now=now,
        wanted=wanted,
        action=action,
        plugin=more.get("plugin", "GroupIdentity"),
        reason=more.get("why", "class BE"),
        note=more.get("note", ""),
    )


ITEMS = [
    item(MAIN, Parameter.MEMORY_LIMIT, UNLIMITED, GIB, PlanAction.SET, plugin="BatchResource", why="limit 1Gi"),
    item(MAIN, Parameter.CPU_SHARES, 512, 512, PlanAction.KEEP, plugin="BatchResource", why="request 500"),
    item(EVIL, Parameter.CPUSET_CPUS, "0-3", CLEAR, PlanAction.GONE, plugin="CPUSetAllocator", why="evil\n\x07"),
    item(
        SANDBOX,
        Parameter.CPUSET_CPUS,
        "0,2,4,6,8,10,12,14,16,18",
        "0-19",
        PlanAction.SET,
        why="pools of all NUMA nodes",
    ),
    item(POD, Parameter.CPU_BVT, None, -1, PlanAction.UNSUPPORTED, note="this kernel has no such file"),
    item(POD, Parameter.MEMORY_LIMIT, UNLIMITED, 3 * GIB // 2, PlanAction.HELD, note="usage is above the limit"),
    item(APP, Parameter.CPU_BVT, 0, 2, PlanAction.SET, why="class LS"),
    item(BEST_EFFORT, Parameter.CPU_BVT, 0, -1, PlanAction.SET, why="directory of BE"),
    item(NODE, Parameter.SCHED_CORE, 1, 0, PlanAction.SET, why="cpuPolicy is groupIdentity"),
    item(NAMELESS, Parameter.CPU_BURST, 5000, None, PlanAction.RESTORE, why=""),
]
QOS = {"u1": QosClass.BE}

GOLDEN = """\
WHAT                       NOW               WANTED   ACTION       WHY

Node
  kernel.sched_core        1                 0        set          GroupIdentity: cpuPolicy is
                                                                   groupIdentity

QoS class BestEffort  kubepods.slice/kubepods-besteffort.slice
  cpu.bvt_warp_ns          0                 -1       set          GroupIdentity: directory of BE

Host application nginx  ls/nginx
  cpu.bvt_warp_ns          0                 2        set          GroupIdentity: class LS

batch/spark  BE, BestEffort
  cpu.bvt_warp_ns          -                 -1       unsupported  GroupIdentity: class BE (this
                                                                   kernel has no such file)
  memory.limit_in_bytes    unlimited         1536Mi   held         GroupIdentity: class BE (usage
                                                                   is above the limit)
  sandbox
    cpuset.cpus            0,2,4,6,8,10,12,  0-19     set          GroupIdentity: pools of all NUMA
                           14,16,18                                nodes
  log?[2J  does not run
    cpuset.cpus            0-3               cleared  gone         CPUSetAllocator: evil; ?
  main
    cpu.shares             512               512      ok           BatchResource: request 500
    memory.limit_in_bytes  unlimited         1Gi      set          BatchResource: limit 1Gi

u2
  0123456789ab
    cpu.cfs_burst_us       5000              cleared  restore      GroupIdentity

1 value as wanted, 5 to change, 1 to restore, 1 unsupported, 1 held back, 1 gone
"""


def test_the_report() -> None:
    """The node first, then pods with their containers; folded to the terminal; nothing moves the cursor."""
    assert render(ITEMS, qos=QOS) == GOLDEN


def test_what_was_done_is_told_as_done() -> None:
    """The same report, but for the words; what was to be done and was not is no success."""
    lines, before = render(ITEMS, qos=QOS, acted=True).splitlines(), GOLDEN.splitlines()
    assert lines[:-1] == before[:-1]
    assert lines[-1] == "1 value as wanted, 5 changed, 1 restored, 1 unsupported, 1 held back, 1 gone"
    text = render(ITEMS, qos=QOS, acted=True, undone=[ITEMS[7], ITEMS[9], ITEMS[9]], colour=True)
    assert text.count("\x1b[31mnot done\x1b[0m") == 2
    assert text.endswith("\n1 value as wanted, 4 changed, 0 restored, 1 unsupported, 1 held back, 1 gone, 2 not done\n")


def test_order_of_items_does_not_matter() -> None:
    """The same every time."""
    assert render(reversed(ITEMS), qos=QOS) == GOLDEN


def test_narrow_terminals_have_reasons_below() -> None:
    """No line is wider than the terminal; one that is too narrow for anything gets 60 columns."""
    lines = render(ITEMS[:2], width=70).splitlines()
    assert lines[:6] == [
        "WHAT                       NOW        WANTED  ACTION",
        "",
        "batch/spark  BestEffort",
        "  main",
        "    cpu.shares             512        512     ok",
        "      BatchResource: request 500",
    ]
    assert max(len(line) for line in render(ITEMS, width=0).splitlines()[:-1]) <= 66
    assert render(ITEMS, width=0) == render(ITEMS, width=60)


def test_failures_and_problems_come_after_the_values() -> None:
    """And are counted."""
    text = render(
        (),
        unchanged=7,
        failures=[ReportedProblem("BatchResource", "batch/x", "annotation a: 'y' is not a quantity")],
        problems={"GroupIdentity": "lsClass: 7 is not -1 to 2"},
    )
    assert text.splitlines() == [
        "Nothing to show: no plugin wants anything, and nothing is to be restored.",
        "",
        "Rules that cannot be made; what was in force stays:",
        "  GroupIdentity: lsClass: 7 is not -1 to 2",
        "",
        "Plugins that could not decide:",
        "  BatchResource on batch/x: annotation a: 'y' is not a quantity",
        "",
        "7 values as wanted, 0 to change, 0 to restore, 0 unsupported, 1 undecided",
    ]


@pytest.mark.parametrize("width", [70, 100])
def test_colour_changes_nothing_else(width: int) -> None:
    """Without its marks it is the same text, so columns are still aligned."""
    text = render(ITEMS, qos=QOS, width=width, colour=True)
    assert "\x1b[33mset\x1b[0m" in text
    assert "\x1b[1mbatch/spark\x1b[0m" in text
    for mark in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"):
        text = text.replace(mark, "")
    assert text == render(ITEMS, qos=QOS, width=width)


@pytest.mark.parametrize(
    ("parameter", "value", "text"),
    [
        (Parameter.MEMORY_LIMIT, 5 * GIB, "5Gi"),
        (Parameter.MEMORY_LIMIT, 3 << 19, "1536Ki"),
        (Parameter.MEMORY_LIMIT, 1 << 42, "4Ti"),
        (Parameter.MEMORY_LIMIT, GIB + 1, "1073741825"),
        (Parameter.MEMORY_LIMIT, 0, "0"),
        (Parameter.CPU_SHARES, 1024, "1024"),
        (Parameter.CPU_QUOTA, UNLIMITED, "unlimited"),
        (Parameter.CPUSET_CPUS, CLEAR, "cleared"),
        (Parameter.CPUSET_CPUS, "", "empty"),
        (Parameter.RESCTRL, "L3:0=ff\nMB:0=50\n", "L3:0=ff; MB:0=50"),
        (Parameter.RESCTRL, None, "-"),
    ],
)
def test_values_for_people(parameter: Parameter, value: Value | None, text: str) -> None:
    """Units only where nothing is lost, words where there is no number."""
    assert value_text(parameter, value) == text


def test_records_for_programs() -> None:
    """Everything, in the order of the report, with values as they are."""
    records = as_json(
        ITEMS[:3], failures=[ReportedProblem("A", "batch/x", "no")], problems={"C": "later", "B": "bad"}, qos=QOS
    )
    assert [one.get("parameter") for one in records] == [
        "cpuset.cpus", "cpu.shares", "memory.limit_in_bytes", None, None, None,
    ]  # fmt: skip
    expected: dict[str, Any] = {
        "kind": "value",
        "level": "container",
        "name": "batch/spark/main",
        "key": "c1",
        "pod_uid": "u1",
        "qos": "BE",
        "directory": f"{SPARK}/c1",
        "parameter": "memory.limit_in_bytes",
        "now": "unlimited",
        "wanted": GIB,
        "action": "set",
        "plugin": "BatchResource",
        "why": "limit 1Gi",
        "note": "",
    }
    assert records[2] == expected
    assert records[3:] == [
        {"kind": "failure", "plugin": "A", "name": "batch/x", "error": "no"},
        {"kind": "problem", "plugin": "B", "error": "bad"},
        {"kind": "problem", "plugin": "C", "error": "later"},
    ]
    assert json.loads(json.dumps(records)) == records


PLAIN = Kernel(parameters=frozenset((Parameter.CPU_SHARES, Parameter.CPU_IDLE)))
PLUGINS = (GroupIdentity(), OomScoreAdj(), CoreSchedPlugin(), ResctrlPlugin())


def test_what_a_kernel_does_not_have_is_known_by_plugin() -> None:
    """Of what they may set; a kernel with everything is missing nothing."""
    assert missing_parameters(PLUGINS, PLAIN) == {
        "GroupIdentity": (Parameter.CPU_BVT, Parameter.SCHED_GROUP_IDENTITY, Parameter.SCHED_CORE),
        "CoreSched": (Parameter.CORE_SCHED, Parameter.SCHED_GROUP_IDENTITY, Parameter.SCHED_CORE),
        "Resctrl": (Parameter.RESCTRL,),
    }
    rich = Kernel(
        parameters=frozenset(Parameter),
        group_identity=0,
        sched_core=1,
        core_sched=True,
        resctrl=Resctrl(cbm_mask=1),
    )
    assert missing_parameters(PLUGINS, rich) == {}
    assert missing_parameters(PLUGINS, Kernel()) == {}, "no cgroup was seen yet"


def test_plugins_that_want_nothing_say_why() -> None:
    """If their rule has a reason; rules may be anything."""
    rules = {
        "GroupIdentity": GroupIdentityRule(reason="no bvt"),
        "OOMScoreAdj": True,
        "odd": type("R", (), {"reason": 5}),
    }
    assert idle_plugins(rules) == {"GroupIdentity": "no bvt"}


def test_idle_plugins_and_the_kernel_come_before_the_summary() -> None:
    """For people and for programs."""
    missing = {"GroupIdentity": (Parameter.CPU_BVT, Parameter.SCHED_CORE)}
    text = render([], idle={"GroupIdentity": "no bvt\x1b"}, missing=missing)
    assert text.splitlines()[-8:-1] == [
        "",
        "Plugins that want nothing:",
        "  GroupIdentity: no bvt?",
        "",
        "What this kernel does not have:",
        "  cpu.bvt_warp_ns, kernel.sched_core (for GroupIdentity)",
        "",
    ]
    assert as_json([], idle={"GroupIdentity": "no bvt"}, missing=missing) == [
        {"kind": "idle", "plugin": "GroupIdentity", "why": "no bvt"},
        {"kind": "missing", "plugin": "GroupIdentity", "parameters": ["cpu.bvt_warp_ns", "kernel.sched_core"]},
    ]
