"""Variables that name GPUs."""

import json
from typing import Any

import pytest

from interpose.core.model.cgroup import Level
from interpose.core.model.pod import Container, Pod
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import NodeInputs
from interpose.hooks.server.plugins.gpu import GpuEnv

KEY = "scheduling.koordinator.sh/device-allocated"
HAMI = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
LIBRARY = "/usr/local/vgpu/libvgpu.so"
GI = 1 << 30
PLUGIN = GpuEnv()


def gpu(minor: int, **amounts: str) -> dict[str, Any]:
    """A device; core, memory and ratio as the scheduler writes them."""
    names = {"core": "gpu-core", "memory": "gpu-memory", "ratio": "gpu-memory-ratio"}
    return {"minor": minor, "resources": {f"koordinator.sh/{names[key]}": value for key, value in amounts.items()}}


def context(
    *gpus: dict[str, Any],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    envs: tuple[tuple[str, bytes], ...] = (),
    level: Level = Level.CONTAINER,
) -> ContainerContext:
    """A container of a pod with these devices."""
    pod = Pod(id="p", labels=labels or {}, annotations={KEY: json.dumps({"gpu": gpus}), **(annotations or {})})
    return ContainerContext(pod=pod, request=Container(id="c", name="main", envs=envs), level=level)


def envs_of(subject: ContainerContext, plugin: GpuEnv = PLUGIN) -> dict[str, str]:
    """The variables it gets."""
    plugin.container(plugin.rule(NodeInputs(), None), subject)
    return {name: value for name, (value, _) in subject.response.envs.items()}


def test_devices_are_named_by_minor() -> None:
    """In the scheduler's order."""
    assert envs_of(context(gpu(3), gpu(1))) == {"NVIDIA_VISIBLE_DEVICES": "3,1"}


def test_pod_without_devices_gets_no_variable() -> None:
    """Neither an empty one, which would hide all devices."""
    assert envs_of(context()) == {}
    assert envs_of(ContainerContext(pod=Pod(id="p"), request=Container(id="c"))) == {}


def test_shared_device_has_limits_for_hami() -> None:
    """Memory in bytes, computing power in percent, and the library that enforces them."""
    assert envs_of(context(gpu(0, core="50", memory="8Gi", ratio="50"), labels=HAMI)) == {
        "NVIDIA_VISIBLE_DEVICES": "0",
        "CUDA_DEVICE_MEMORY_LIMIT": str(8 * GI),
        "CUDA_DEVICE_SM_LIMIT": "50",
        "LD_PRELOAD": LIBRARY,
    }


def test_without_a_core_limit_there_is_no_variable_for_it() -> None:
    """Memory alone can be limited."""
    assert "CUDA_DEVICE_SM_LIMIT" not in envs_of(context(gpu(0, memory="8Gi", ratio="50"), labels=HAMI))


@pytest.mark.parametrize("labels", [{}, {"koordinator.sh/gpu-isolation-provider": "other"}])
def test_other_providers_limit_by_themselves(labels: dict[str, str]) -> None:
    """Only the devices are named."""
    subject = context(gpu(0, core="50", memory="8Gi", ratio="50"), labels=labels)
    assert envs_of(subject) == {"NVIDIA_VISIBLE_DEVICES": "0"}


def test_whole_devices_need_no_limit() -> None:
    """Nor anything else that limits have."""
    assert envs_of(context(gpu(0, ratio="100"), gpu(1, ratio="100"), labels=HAMI)) == {"NVIDIA_VISIBLE_DEVICES": "0,1"}


def test_equal_devices_share_one_variable() -> None:
    """It counts for each of them."""
    part = {"core": "50", "memory": "8Gi", "ratio": "50"}
    envs = envs_of(context(gpu(0, **part), gpu(1, **part), labels=HAMI))
    assert [name for name in envs if "LIMIT" in name] == ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"]


def test_different_devices_have_a_variable_each() -> None:
    """By their place among the visible ones, not by minor."""
    envs = envs_of(
        context(gpu(5, core="25", memory="4Gi", ratio="25"), gpu(2, core="50", memory="8Gi", ratio="50"), labels=HAMI)
    )
    assert {name: value for name, value in envs.items() if "LIMIT" in name} == {
        "CUDA_DEVICE_MEMORY_LIMIT": str(4 * GI),
        "CUDA_DEVICE_MEMORY_LIMIT_0": str(4 * GI),
        "CUDA_DEVICE_MEMORY_LIMIT_1": str(8 * GI),
        "CUDA_DEVICE_SM_LIMIT": "25",
        "CUDA_DEVICE_SM_LIMIT_0": "25",
        "CUDA_DEVICE_SM_LIMIT_1": "50",
    }


def test_device_without_a_core_limit_does_not_get_that_of_the_first() -> None:
    """Zero is no limit as well. A whole device next to a shared one keeps all of its memory."""
    envs = envs_of(
        context(
            gpu(0, core="25", memory="4Gi", ratio="25"),
            gpu(1, core="0", memory="16Gi", ratio="100"),
            gpu(2, memory="16Gi", ratio="100"),
            labels=HAMI,
        )
    )
    assert [envs[f"CUDA_DEVICE_SM_LIMIT_{place}"] for place in range(3)] == ["25", "100", "100"]
    assert envs["CUDA_DEVICE_MEMORY_LIMIT_1"] == str(16 * GI)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"/opt/a.so", f"{LIBRARY}:/opt/a.so"),
        (b"/opt/a.so /opt/b.so", f"{LIBRARY}:/opt/a.so:/opt/b.so"),
        (b"", LIBRARY),
        (f"/opt/a.so:{LIBRARY}".encode(), f"{LIBRARY}:/opt/a.so"),
    ],
)
def test_preloaded_libraries_of_the_container_stay(before: bytes, after: str) -> None:
    """Ours comes first, and once."""
    subject = context(gpu(0, memory="8Gi", ratio="50"), labels=HAMI, envs=(("A", b"1"), ("LD_PRELOAD", before)))
    assert envs_of(subject)["LD_PRELOAD"] == after


def test_last_of_several_variables_counts() -> None:
    """As it does for the program."""
    envs = (("LD_PRELOAD", b"/opt/a.so"), ("LD_PRELOAD", b"/opt/b.so"))
    subject = context(gpu(0, memory="8Gi", ratio="50"), labels=HAMI, envs=envs)
    assert envs_of(subject)["LD_PRELOAD"] == f"{LIBRARY}:/opt/b.so"


def test_library_can_be_elsewhere() -> None:
    """Where the node has it."""
    subject = context(gpu(0, memory="8Gi", ratio="50"), labels=HAMI)
    assert envs_of(subject, GpuEnv(library="/lib/x.so"))["LD_PRELOAD"] == "/lib/x.so"


@pytest.mark.parametrize(
    ("device", "envs", "message"),
    [
        (gpu(4, memory="8Gi"), (), "gpu 4 has no koordinator.sh/gpu-memory-ratio, which HAMi-core needs"),
        (gpu(4, ratio="50"), (), "gpu 4 has no koordinator.sh/gpu-memory, which HAMi-core needs"),
        (gpu(4, ratio="50", memory="0"), (), "gpu 4: koordinator.sh/gpu-memory is zero"),
        (gpu(4, ratio="half", memory="8Gi"), (), "'half'"),
        ({"resources": {}}, (), "minor: is missing"),
        (
            gpu(4, ratio="50", memory="8Gi"),
            (("LD_PRELOAD", b"\xff"),),
            "variable LD_PRELOAD of container main is not UTF-8",
        ),
    ],
)
def test_error_leaves_no_variable_behind(
    device: dict[str, Any], envs: tuple[tuple[str, bytes], ...], message: str
) -> None:
    """All or nothing: a container that sees a shared device without its limits would take all of it."""
    subject = context(device, labels=HAMI, envs=envs)
    with pytest.raises(ValueError, match=message):
        envs_of(subject)
    assert subject.response.envs == {}


@pytest.mark.parametrize(("names", "named"), [("main", True), ("worker, main", True), ("worker", False), ("", False)])
def test_pod_can_say_which_containers_get_them(names: str, named: bool) -> None:
    """A sidecar has no business with GPUs."""
    assert bool(envs_of(context(gpu(0), annotations={"interpose/gpu-containers": names}))) is named


def test_a_list_of_containers_that_nobody_needs_is_refused() -> None:
    """It is looked through for every container."""
    with pytest.raises(ValueError, match="annotation interpose/gpu-containers: has 20000 characters, more than 16384"):
        envs_of(context(gpu(0), annotations={"interpose/gpu-containers": "," * 20_000}))


def test_sandbox_gets_nothing() -> None:
    """It runs no program of the user."""
    assert envs_of(context(gpu(0), level=Level.SANDBOX)) == {}


def test_variables_are_part_of_the_verdict() -> None:
    """The plugin serves nothing but variables, and is asked all the same."""
    rules = make_rules([PLUGIN], NodeInputs(), PluginRules())
    verdict = PluginChain([PLUGIN], rules).container(context(gpu(0)))
    assert verdict.envs == {"NVIDIA_VISIBLE_DEVICES": ("GPUEnvInject", "0", f"annotation {KEY}")}
    assert verdict.failures == []
