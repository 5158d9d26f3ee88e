"""Slices of pods, with a systemd and a kernel in memory."""

import errno
import logging

import pytest

from interpose.core.model.cgroup import UNLIMITED, Parameter
from interpose.core.model.quantity import parse_quantity
from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cgroups import systemd_slices
from interpose.node.pods.cgroups.paths import layout_of
from interpose.node.pods.cgroups.systemd_slices import PodSlices, ask_systemd, properties
from interpose.node.pods.cri_config.resources import ResourceRules
from interpose.node.pods.spec import PodSpec, ResourceRequirements
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.node.managed_node import container, pod

RULES = ResourceRules(memory=1 << 30, cgroup_version=2)
LAYOUT = layout_of(Driver.SYSTEMD)
MIB = 1 << 20
NONE = str((1 << 64) - 1)
GUARANTEED = "kubepods.slice/kubepods-podg.slice"
CLASS = "kubepods.slice/kubepods-burstable.slice"


class FakeSystemd:
    """Makes and stops slices in a kernel, and notes what it was told. `refuse`: words of what it does not do."""

    def __init__(self, kernel: FakeKernel) -> None:
        self.kernel = kernel
        self.told: list[tuple[str, str, dict[str, str]]] = []
        self.refuse: set[str] = set()

    def __call__(self, words: tuple[str, ...]) -> str:
        method = words[2] if words[0] == "systemctl" else words[5]
        if method in self.refuse:
            return "no such luck"
        if words[0] == "systemctl":
            name, given = words[4], {}
        else:
            name = words[7]
            values = words[10:] if method == "SetUnitProperties" else words[10:-1]
            assert int(words[9]) * 3 == len(values)
            given = {key: value for key, kind, value in zip(*[iter(values)] * 3, strict=True) if kind == "t"}
        self.told.append((method, name, given))
        directory = _directory(name)
        if method == "stop":
            self.kernel.remove(directory)
        elif method != "revert":
            self.kernel.make(directory)
            if weight := given.get("CPUWeight"):
                self.kernel.write(self.kernel.path(directory, "cpu.weight"), weight)
            if limit := given.get("MemoryMax"):
                self.kernel.write(self.kernel.path(directory, "memory.max"), "max" if limit == NONE else limit)
            if quota := given.get("CPUQuotaPerSecUSec"):
                text = f"{'max' if quota == NONE else int(quota) // 10} 100000"
                self.kernel.write(self.kernel.path(directory, "cpu.max"), text)
        return ""


def _directory(name: str) -> str:
    parts = name.removesuffix(".slice").split("-")
    return "/".join("-".join(parts[: end + 1]) + ".slice" for end in range(len(parts)))


@pytest.fixture
def systemd() -> FakeSystemd:
    """With cgroup v2."""
    return FakeSystemd(FakeKernel(2, root="/fake"))


def slices(systemd: FakeSystemd) -> PodSlices:
    """As a process that has just started has them."""
    return PodSlices(LAYOUT, "/fake", systemd.kernel, systemd)


def amounts(cpu: str, memory: str = "", limit: str = "") -> ResourceRequirements:
    requests = {"cpu": parse_quantity(cpu)} | ({"memory": parse_quantity(memory)} if memory else {})
    return ResourceRequirements(requests=requests, limits={"cpu": parse_quantity(limit)} if limit else {})


def guaranteed(cpu: str = "500m", memory: str = "64Mi") -> PodSpec:
    limits = {"cpu": parse_quantity(cpu), "memory": parse_quantity(memory)}
    return pod(container(resources=ResourceRequirements(requests={}, limits=limits)), uid="g")


def burstable(uid: str, cpu: str) -> PodSpec:
    return pod(container(resources=amounts(cpu)), uid=uid)


def test_a_slice_is_started_with_its_limits_and_told_once(systemd: FakeSystemd) -> None:
    """A manager looks at its pods every second."""
    made = slices(systemd)
    for _ in range(3):
        made.apply(guaranteed(), RULES)
    limits = {"CPUWeight": "20", "CPUQuotaPerSecUSec": "500000", "MemoryMax": str(64 * MIB)}
    assert systemd.told == [("StartTransientUnit", "kubepods-podg.slice", limits)]


def test_a_slice_that_is_there_is_told_by_the_next_process(systemd: FakeSystemd) -> None:
    """It does not know what the one before it said; a runtime may have made it, too."""
    systemd.kernel.make(GUARANTEED)
    slices(systemd).apply(guaranteed(), RULES)
    assert [told[:2] for told in systemd.told] == [("SetUnitProperties", "kubepods-podg.slice")]


def test_a_slice_that_came_meanwhile_is_told(systemd: FakeSystemd) -> None:
    """systemd starts nothing twice."""
    systemd.refuse.add("StartTransientUnit")
    slices(systemd).apply(guaranteed(), RULES)
    assert [told[0] for told in systemd.told] == ["SetUnitProperties"]


def test_a_slice_that_went_is_started_again(systemd: FakeSystemd) -> None:
    """With everything."""
    made = slices(systemd)
    made.apply(guaranteed(), RULES)
    systemd.kernel.remove(GUARANTEED)
    made.apply(guaranteed(), RULES)
    assert systemd.told[0] == systemd.told[1]


def test_what_grows_grows_before_and_what_shrinks_after(systemd: FakeSystemd) -> None:
    """A resize: only what is another than before is told."""
    made = slices(systemd)
    made.apply(guaranteed("500m", "64Mi"), RULES)
    resized = guaranteed("1", "32Mi")
    made.apply(resized, RULES, grow_only=True)
    made.apply(resized, RULES)
    name = "kubepods-podg.slice"
    assert systemd.told[1:] == [
        ("SetUnitProperties", name, {"CPUWeight": "39", "CPUQuotaPerSecUSec": "1000000"}),
        ("SetUnitProperties", name, {"MemoryMax": str(32 * MIB)}),
    ]


def test_a_class_weighs_what_is_in_it(systemd: FakeSystemd) -> None:
    """Burstable pods together, also when one is gone; BestEffort ones next to nothing."""
    made = slices(systemd)
    made.apply(burstable("a", "1"), RULES)
    made.apply(burstable("b", "500m"), RULES)
    made.apply(pod(uid="c"), RULES)
    assert systemd.kernel.get(CLASS, "cpu.weight") == "58"  # 1536 shares, but for what the first one's weight rounds
    assert systemd.kernel.get("kubepods.slice/kubepods-besteffort.slice", "cpu.weight") == "1"
    made.remove([f"{CLASS}/kubepods-burstable-poda.slice"])
    assert systemd.kernel.get(CLASS, "cpu.weight") == "20"


def test_slices_of_a_pod_are_stopped(systemd: FakeSystemd) -> None:
    """Those that are there; systemd would keep them."""
    made = slices(systemd)
    made.apply(guaranteed(), RULES)
    made.remove([GUARANTEED, f"{CLASS}/kubepods-burstable-podg.slice"])
    assert [told[:2] for told in systemd.told] == [
        ("StartTransientUnit", "kubepods-podg.slice"),
        ("stop", "kubepods-podg.slice"),
    ]


def test_what_systemd_keeps_of_a_slice_does_not_count_for_the_next_one(systemd: FakeSystemd) -> None:
    """The same pod again: limits that the first one was given later would be stronger than those it starts with."""
    systemd.kernel.put("/run/systemd/system.control/kubepods-podg.slice.d", "")
    made = slices(systemd)
    made.apply(guaranteed(), RULES)
    made.remove([GUARANTEED])
    assert [told[0] for told in systemd.told] == ["revert", "StartTransientUnit", "stop", "revert"]


def test_what_runs_is_not_ended(systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping a slice would end it. One that is about to end is waited for."""
    monkeypatch.setattr("interpose.node.pods.cgroups.systemd_slices.time.sleep", lambda _seconds: None)
    systemd.kernel.make(f"{GUARANTEED}/c.scope")
    systemd.kernel.spawn(f"{GUARANTEED}/c.scope", 77)
    with pytest.raises(OSError, match="kubepods-podg") as caught:
        slices(systemd).remove([GUARANTEED])
    assert caught.value.errno == errno.EBUSY
    assert systemd.told == []

    def end(_seconds: float) -> None:
        systemd.kernel.kill(77)
        systemd.kernel.remove(f"{GUARANTEED}/c.scope")

    monkeypatch.setattr("interpose.node.pods.cgroups.systemd_slices.time.sleep", end)
    slices(systemd).remove([GUARANTEED])
    assert [told[0] for told in systemd.told] == ["stop"]


def test_what_systemd_refuses_is_logged_and_tried_again(systemd: FakeSystemd, caplog: pytest.LogCaptureFixture) -> None:
    """The pod runs without it."""
    systemd.refuse = {"StartTransientUnit", "SetUnitProperties", "stop"}
    made = slices(systemd)
    with caplog.at_level(logging.WARNING):
        made.apply(guaranteed(), RULES)
        systemd.kernel.make(GUARANTEED)
        made.remove([GUARANTEED])
    assert [record.getMessage() for record in caplog.records] == ["Slice of a pod cannot be set"] * 2
    systemd.refuse = set()
    made.apply(guaranteed(), RULES)
    assert len(systemd.told) == 1


def test_without_cgroups_nobody_is_asked(systemd: FakeSystemd) -> None:
    """A machine that has none where they should be."""
    made = PodSlices(LAYOUT, "/elsewhere", systemd.kernel, systemd)
    made.apply(guaranteed(), RULES)
    made.remove([GUARANTEED])
    assert systemd.told == []


def test_a_neighbour_that_cannot_be_read_weighs_nothing(systemd: FakeSystemd) -> None:
    """It may be about to go."""
    systemd.kernel.make(f"{CLASS}/kubepods-burstable-podz.slice")
    systemd.kernel.fail(systemd.kernel.path(f"{CLASS}/kubepods-burstable-podz.slice", "cpu.weight"), errno.EIO, 9)
    slices(systemd).apply(burstable("a", "1"), RULES)
    assert systemd.kernel.get(CLASS, "cpu.weight") == "39"


@pytest.mark.parametrize(
    ("quota", "period", "told"),
    [
        (50_000, 100_000, "500000"),
        (50_000, 0, "500000"),
        (12_345, 100_000, "130000"),  # whole percents, never less than was asked for
        (1_000, 10_000, "100000"),
        (UNLIMITED, 100_000, NONE),
    ],
)
def test_quotas_in_whole_percents(quota: int, period: int, told: str) -> None:
    """Microseconds of a second."""
    found = properties({Parameter.CPU_QUOTA: quota, Parameter.CPU_PERIOD: period})
    assert found == {"CPUQuotaPerSecUSec": told}


def test_programs_are_run() -> None:
    """Their own words, or what became of them."""
    assert ask_systemd(("true",)) == ""
    assert ask_systemd(("sh", "-c", "echo no bus >&2; exit 1")) == "no bus"
    assert ask_systemd(("false",)) == "false ended with 1"
    assert "No such file" in ask_systemd(("/no/such/busctl",))


def test_a_program_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus that does not answer."""
    monkeypatch.setattr(systemd_slices, "_TIMEOUT", 0.05)
    assert "timed out" in ask_systemd(("sleep", "60"))
