"""What containers want, by their class, amounts, annotations and the options."""

from collections.abc import Mapping

import pytest

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.topology_aware.options import PoolLevel, TopologyAwareOptions
from interpose.core.policy.topology_aware.preferences import ContainerWish, CpuOffer, WishReader, find_unused
from interpose.core.topology.topology import MemoryKind

DRAM, PMEM, HBM = MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM
FAMILY = "resource-policy.nri.io"


def ask(
    milli: int = 0,
    qos: KubeQos = KubeQos.GUARANTEED,
    notes: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    limit: int | None = None,
    pod_milli: int | None = None,
) -> Request:
    """A container named app; `notes` have no domain."""
    keys = {}
    for name, text in (notes or {}).items():
        plain, slash, scope = name.partition("/")
        keys[f"{plain}.{FAMILY}{slash}{scope}"] = text
    return Request(
        key=Key("pod", "app"),
        namespace=namespace,
        qos=qos,
        amounts=Amounts(milli=milli, limit_milli=limit),
        pod_amounts=None if pod_milli is None else Amounts(milli=pod_milli),
        pod_annotations=keys,
    )


def read(
    request: Request, options: TopologyAwareOptions | None = None, *, kinds: frozenset[MemoryKind] = frozenset((DRAM,))
) -> ContainerWish:
    """What it wants on a machine with this memory."""
    return WishReader(options or TopologyAwareOptions(), kinds).read(request, own_left=2)


YES, NO = {"prefer-isolated-cpus": "true"}, {"prefer-isolated-cpus": "false"}
SHARE, ALONE = {"prefer-shared-cpus": "true"}, {"prefer-shared-cpus": "false"}


@pytest.mark.parametrize(
    ("milli", "notes", "expected"),  # CPUs of its own, the share, whether isolated ones are preferred
    [
        (999, {}, (0, 999, False)),
        (999, YES, (0, 999, False)),
        (1000, {}, (1, 0, True)),
        (1000, NO, (1, 0, False)),
        (1000, SHARE, (0, 1000, False)),
        (1500, {}, (1, 500, True)),
        (1500, ALONE, (1, 500, True)),
        (1500, SHARE, (0, 1500, False)),
        (2000, {}, (2, 0, False)),  # several isolated ones only if the pod says so
        (2000, YES, (2, 0, True)),
        (2000, SHARE, (0, 2000, False)),
        (2500, {}, (0, 2500, False)),
        (2500, ALONE, (2, 500, False)),
        (2500, ALONE | YES, (2, 500, True)),
        (2500, SHARE, (0, 2500, False)),
    ],
)
def test_guaranteed_containers(milli: int, notes: Mapping[str, str], expected: tuple[int, int, bool]) -> None:
    """Whole CPUs of their own where the amount and the pod allow it."""
    cpu = read(ask(milli, notes=notes)).cpu
    assert (cpu.full, cpu.part, cpu.isolate) == expected
    assert cpu.offer is CpuOffer.NORMAL


@pytest.mark.parametrize("qos", [KubeQos.BURSTABLE, KubeQos.BEST_EFFORT])
def test_other_containers_share(qos: KubeQos) -> None:
    """Whatever they ask for; with nothing at all it is a thousandth."""
    assert (read(ask(2000, qos)).cpu.full, read(ask(2000, qos)).cpu.milli) == (0, 2000)
    assert (read(ask(0, qos)).cpu.part, read(ask(0, qos)).cpu.milli) == (0, 1)


def test_options_say_what_annotations_do_not() -> None:
    """Shared CPUs, no isolated ones."""
    options = TopologyAwareOptions(prefer_shared=True, prefer_isolated=False)
    assert read(ask(2000), options).cpu.full == 0
    cpu = read(ask(1000, notes=ALONE), options).cpu
    assert (cpu.full, cpu.isolate) == (1, False)


@pytest.mark.parametrize(
    ("notes", "expected"),  # preferred, required
    [
        ({"require-isolated-cpus": "true"}, (True, True)),
        ({"require-isolated-cpus": "false"}, (False, False)),
        ({"require-isolated-cpus": "true"} | NO, (True, True)),  # of the same scope the stronger one
        ({"require-isolated-cpus": "true", "prefer-isolated-cpus/container.app": "false"}, (False, False)),
        ({"require-isolated-cpus/container.app": "true"} | NO, (True, True)),
    ],
)
def test_isolated_cpus_can_be_required(notes: Mapping[str, str], expected: tuple[bool, bool]) -> None:
    """The more specific annotation counts."""
    cpu = read(ask(2000, notes=notes)).cpu
    assert (cpu.isolate, cpu.isolated_only) == expected


def test_older_spellings_of_isolated_cpus_count() -> None:
    """Those of cri-resource-manager's first releases."""
    request = Request(
        key=Key("pod", "app"),
        qos=KubeQos.GUARANTEED,
        amounts=Amounts(milli=2000),
        pod_annotations={"cri-resource-manager.intel.com/prefer-isolated-cpus": "{app: true}"},
    )
    assert read(request).cpu.isolate


@pytest.mark.parametrize(
    ("notes", "namespace", "expected"),
    [
        ({}, "kube-system", CpuOffer.RESERVED),
        ({}, "infra-dns", CpuOffer.RESERVED),  # by the pattern of the options
        ({"prefer-reserved-cpus": "true"}, "default", CpuOffer.RESERVED),
        ({"prefer-reserved-cpus": "false"}, "kube-system", CpuOffer.NORMAL),
        ({"cpu.preserve": "true"}, "kube-system", CpuOffer.PRESERVED),
        ({"cpu.preserve": "false"}, "default", CpuOffer.NORMAL),
    ],
)
def test_supplies(notes: Mapping[str, str], namespace: str, expected: CpuOffer) -> None:
    """The system, and pods that say so, have the reserved CPUs, or are left alone."""
    options = TopologyAwareOptions(reserved_namespaces=("infra-*",))
    assert read(ask(1000, notes=notes, namespace=namespace), options).cpu.offer is expected


@pytest.mark.parametrize(
    ("milli", "limit", "pod_milli", "full"),
    [
        (2000, 2000, 4000, 2),
        (3000, 3000, 4000, 0),  # more than the two that are left
        (1500, 1500, 4000, 0),
        (2000, 3000, 4000, 0),  # it may use more than it asks for
        (3000, 3000, None, 3),
    ],
)
def test_a_pod_with_amounts_of_its_own_limits_its_containers(
    milli: int, limit: int, pod_milli: int | None, full: int
) -> None:
    """Whole CPUs inside of what the pod has yet, else shared ones."""
    cpu = read(ask(milli, limit=limit, pod_milli=pod_milli)).cpu
    assert (cpu.full, cpu.part) == (full, 0 if full else milli)


@pytest.mark.parametrize(
    ("word", "expected"),
    [(None, CpuPriority.LOW), ("default", CpuPriority.LOW), ("high", CpuPriority.HIGH), ("none", CpuPriority.NONE)],
)
def test_priorities_are_about_cpus_of_ones_own(word: str | None, expected: CpuPriority) -> None:
    """Nobody else has one."""
    options = TopologyAwareOptions(cpu_priority=CpuPriority.LOW)
    notes = {} if word is None else {"prefer-cpu-priority": word}
    assert read(ask(1000, notes=notes), options).priority is expected
    assert read(ask(100, notes=notes), options).priority is CpuPriority.NONE


def test_burstable_containers_have_a_limit_or_a_level() -> None:
    """The level is that of the annotation, or of the options."""
    assert read(ask(500, KubeQos.BURSTABLE)).level is PoolLevel.PACKAGE
    assert read(ask(500, KubeQos.BURSTABLE, {"unlimited-burstable": "numa"})).level is PoolLevel.NUMA
    limited = read(ask(500, KubeQos.BURSTABLE, limit=2000))
    assert (limited.level, limited.limit) == (None, 2000)
    assert (read(ask(500)).level, read(ask(500, limit=500)).limit) == (None, None)


ALL = frozenset((DRAM, PMEM, HBM))


@pytest.mark.parametrize(
    ("text", "there_are", "expected"),
    [
        (None, ALL, {DRAM, PMEM}),
        (None, frozenset((DRAM,)), {DRAM}),
        ("hbm", ALL, {HBM}),
        ("HBM, dram", ALL, {HBM, DRAM}),
        ("mixed", ALL, ALL),
        ("mixed", frozenset((DRAM, PMEM)), {DRAM, PMEM}),
        ("hbm", frozenset((DRAM, PMEM)), {DRAM, PMEM}),  # the machine has none
    ],
)
def test_kinds_of_memory(text: str | None, there_are: frozenset[MemoryKind], expected: set[MemoryKind]) -> None:
    """Those that the pod names and the machine has."""
    notes = {} if text is None else {"memory-type": text}
    assert read(ask(notes=notes), kinds=there_are).memory.kinds == expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("{duration: 60s}", 60), ("duration: 1h", 3600), ("{duration: 1500ms}", 1.5)]
)
def test_cold_start(text: str, seconds: float) -> None:
    """Only where there is another kind of memory to start with."""
    assert read(ask(notes={"cold-start": text}), kinds=ALL).memory.cold_start == seconds
    assert read(ask(notes={"cold-start": text})).memory.cold_start == 0


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cold-start", "{duration: 2h}", "no duration above 0 and up to 3600 seconds"),
        ("cold-start", "{duration: 0s}", "no duration above 0"),
        ("cold-start", "{duration: soon}", "no duration such as 60s"),
        ("cold-start", "{duration: 60}", "no duration such as 60s"),
        ("cold-start", "60s", "not of the form"),
        ("cold-start", "{duration: 60s, more: 1}", "not of the form"),
        ("memory-type", "dram,tape", "'tape', which is none of dram, pmem, hbm, mixed"),
        ("prefer-cpu-priority", "urgent", "'urgent', which is none of high, normal, low, none, default"),
        ("hide-hyperthreads", "maybe", "'maybe' is neither true nor false"),
        ("prefer-isolated-cpus", "maybe", "neither true nor false"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_an_error(name: str, text: str, expected: str) -> None:
    """With its key and its text."""
    with pytest.raises(ValueError, match=expected) as error:
        read(ask(1000, notes={name: text}), kinds=ALL)
    assert f"annotation {name}.{FAMILY}" in str(error.value)


def test_other_wishes() -> None:
    """Flags, false if nothing is said."""
    names = ("hide-hyperthreads", "strict.topologyhints", "pick-resources-by-hints", "memory.preserve")
    wish, nothing = read(ask(notes=dict.fromkeys(names, "true"))), read(ask())
    for one, expected in ((wish, True), (nothing, False)):
        assert (one.hide_siblings, one.strict_hints, one.by_hints, one.memory.preserved) == (expected,) * 4


def test_annotations_without_effect_are_known() -> None:
    """They are about what nothing here sets."""
    assert find_unused(ask(notes={"cpu-class": "turbo", "rdtclass": "gold", "memory-type": "dram"})) == [
        "cpu-class.resource-policy.nri.io",
        "rdtclass.resource-policy.nri.io",
    ]
