"""What an answer changes: by key, only what is meant, whole or not at all."""

from typing import Any

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.dispatch.merge import FieldChange, HookAnswerError, MergeResult, apply_changes, merge

BURSTABLE: dict[str, Any] = {
    "cpu_period": 100_000,
    "cpu_shares": 102,
    "memory_limit_in_bytes": 1 << 28,
    "oom_score_adj": 987,
}


def container(**resources: Any) -> hook.ContainerResourceHookRequest:
    """A request about a container as a kubelet's leads to one."""
    return hook.ContainerResourceHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="web", uid="u-1"),
        container_annotations={"io.kubernetes.container.hash": "1f", "team": "blue"},
        container_envs={"PATH": "/bin", "MODE": "fast"},
        pod_cgroup_parent="/kubepods/burstable/pod1",
        container_resources=hook.LinuxContainerResources(**resources),
    )


def pod(**fields: Any) -> hook.PodSandboxHookRequest:
    """A request about a pod with a label of the kubelet and one of its own."""
    return hook.PodSandboxHookRequest(labels={"io.kubernetes.pod.uid": "u-1", "app": "web"}, **fields)


def echo(sent: hook.ContainerResourceHookRequest, **resources: Any) -> hook.ContainerResourceHookResponse:
    """An answer as a koordlet gives it: everything copied, then some fields set. None clears."""
    answer = hook.ContainerResourceHookResponse(
        container_annotations=sent.container_annotations,
        container_envs=sent.container_envs,
        pod_cgroup_parent=sent.pod_cgroup_parent,
        container_resources=sent.container_resources,
    )
    for name, value in resources.items():
        if value is None:
            answer.container_resources.ClearField(name)
        else:
            setattr(answer.container_resources, name, value)
    return answer


def partial(clear: tuple[str, ...] = (), **resources: Any) -> hook.ContainerResourceHookResponse:
    """An answer that names only what it wants."""
    return hook.ContainerResourceHookResponse(
        container_resources=hook.LinuxContainerResources(**resources), clear=list(clear)
    )


def changed(merged: MergeResult) -> dict[str, Any]:
    """Path and new value of each change."""
    return {change.path.removeprefix("container_resources."): change.after for change in merged.changes}


# ---- By key ----------------------------------------------------------------------------------------------------------


def test_an_empty_answer_changes_nothing() -> None:
    """A plugin that only looks answers with an empty message."""
    assert merge(container(**BURSTABLE), hook.ContainerResourceHookResponse()) == MergeResult()
    assert merge(pod(), hook.PodSandboxHookResponse()) == MergeResult()


def test_maps_merge_by_key() -> None:
    """Another value changes, a new key is added, a missing key means nothing."""
    answer = hook.ContainerResourceHookResponse(
        container_envs={"MODE": "slow", "NEW": ""}, container_annotations={"team": "blue"}
    )
    assert merge(container(), answer).changes == (
        FieldChange("container_envs[MODE]", "fast", "slow"),
        FieldChange("container_envs[NEW]", None, ""),
    )


def test_changes_of_a_pod() -> None:
    """All kinds of fields, in the order of the table and then of the keys."""
    sent = pod(annotations={"x": "1"}, cgroup_parent="/old", resources=hook.LinuxContainerResources(cpu_shares=2))
    answer = hook.PodSandboxHookResponse(
        labels={"z": "1", "a": "1"},
        annotations={"x": "2"},
        cgroup_parent="/new",
        resources=hook.LinuxContainerResources(
            cpu_quota=-1,
            memory_swap_limit_in_bytes=-1,
            unified={"memory.high": "max"},
            hugepage_limits=[hook.HugepageLimit(page_size="2MB", limit=0)],
        ),
    )
    assert merge(sent, answer).changes == (
        FieldChange("labels[a]", None, "1"),
        FieldChange("labels[z]", None, "1"),
        FieldChange("annotations[x]", "1", "2"),
        FieldChange("cgroup_parent", "/old", "/new"),
        FieldChange("resources.cpu_quota", None, -1),
        FieldChange("resources.hugepage_limits[2MB]", None, 0),
        FieldChange("resources.unified[memory.high]", None, "max"),
        FieldChange("resources.memory_swap_limit_in_bytes", None, -1),
    )


def test_huge_pages_merge_by_size() -> None:
    """The order of sizes means nothing, and a size that is not named stays."""
    pages = [hook.HugepageLimit(page_size="2MB", limit=1), hook.HugepageLimit(page_size="1GB", limit=2)]
    sent = container(hugepage_limits=pages)
    assert changed(merge(sent, partial(hugepage_limits=[pages[1], pages[0]]))) == {}
    wanted = [hook.HugepageLimit(page_size="1GB", limit=3)]
    assert merge(sent, partial(hugepage_limits=wanted)).changes == (
        FieldChange("container_resources.hugepage_limits[1GB]", 2, 3),
    )


def test_unknown_fields_are_ignored() -> None:
    """A plugin of a later protocol may say more than we understand."""
    answer = hook.ContainerResourceHookResponse.FromString(b"\xfa\x3f\x03abc")
    assert merge(container(**BURSTABLE), answer) == MergeResult()


# ---- What belongs to the kubelet -------------------------------------------------------------------------------------


def test_keys_of_the_kubelet_are_refused_and_the_rest_counts() -> None:
    """Changing, adding and clearing them; a repeated one is not even mentioned."""
    answer = hook.PodSandboxHookResponse(
        labels={"io.kubernetes.pod.uid": "other", "app": "x"},
        annotations={"io.kubernetes.new": "1"},
    )
    merged = merge(pod(), answer)
    assert merged.changes == (FieldChange("labels[app]", "web", "x"),)
    assert [line.split()[0] for line in merged.refused] == [
        "labels[io.kubernetes.pod.uid]",
        "annotations[io.kubernetes.new]",
    ]
    cleared = merge(pod(), hook.PodSandboxHookResponse(clear=["labels"]))
    assert cleared.changes == (FieldChange("labels[app]", "web", None),)
    assert len(cleared.refused) == 1
    assert merge(pod(), hook.PodSandboxHookResponse(labels=pod().labels)) == MergeResult()


# ---- Echo or partial -------------------------------------------------------------------------------------------------


def test_an_exact_echo_changes_nothing() -> None:
    """Also with values that a check would refuse: they are the kubelet's."""
    sent = container(
        **BURSTABLE | {"oom_score_adj": -5000},
        cpuset_cpus="odd",
        unified={"a/b": "1"},
        hugepage_limits=[hook.HugepageLimit(page_size="2MB", limit=n) for n in (1, 2)],
    )
    sent.container_envs["A=B"] = ""
    assert merge(sent, echo(sent)) == MergeResult()


def test_a_partial_answer_loses_nothing() -> None:
    """The bug of old: a plugin that set shares reset the OOM score and the CPU set."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3", cpu_quota=5000)
    assert changed(merge(sent, partial(cpu_shares=2048))) == {"cpu_shares": 2048}


def test_a_partial_answer_with_one_repeated_value_loses_nothing() -> None:
    """As long as a firm field is missing, what is missing was not meant."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3")
    answer = partial(cpu_shares=102, cpu_period=100_000, memory_limit_in_bytes=1 << 28)
    assert changed(merge(sent, answer)) == {}


def test_a_strong_echo_clears_everything_missing() -> None:
    """It repeats all that is around and more than it leaves out."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3")
    answer = echo(sent, cpuset_cpus=None, memory_limit_in_bytes=None, cpu_quota=7000)
    assert merge(sent, answer).changes == (
        FieldChange("container_resources.cpu_quota", None, 7000),
        FieldChange("container_resources.memory_limit_in_bytes", 1 << 28, None),
        FieldChange("container_resources.cpuset_cpus", "0-3", None),
    )


@pytest.mark.parametrize("name", ["container_annotations", "container_envs", "pod_cgroup_parent"])
def test_an_echo_that_lacks_something_around_is_not_strong(name: Any) -> None:
    """It keeps the memory limit, and without it also the rest."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3")
    answer = echo(sent, cpuset_cpus=None, memory_limit_in_bytes=None)
    answer.ClearField(name)
    assert changed(merge(sent, answer)) == {}


def test_an_answer_that_leaves_out_as_much_as_it_repeats_is_not_strong() -> None:
    """Then the weight of evidence is missing."""
    sent = container(**BURSTABLE)
    assert changed(merge(sent, echo(sent, memory_limit_in_bytes=None, oom_score_adj=None))) == {}


def test_with_nothing_around_there_is_no_strong_echo() -> None:
    """Repeating nothing at all proves nothing."""
    sent = hook.ContainerResourceHookRequest(container_resources=hook.LinuxContainerResources(**BURSTABLE))
    assert changed(merge(sent, echo(sent, oom_score_adj=None))) == {}


def test_a_weak_echo_clears_loose_fields_only() -> None:
    """Resources copied without what is around: a CPU set and a quota go, an unnamed unified key stays."""
    sent = container(**BURSTABLE, cpu_quota=5000, cpuset_cpus="0-3", cpuset_mems="0", unified={"a": "1", "b": "2"})
    answer = partial(**BURSTABLE, unified={"a": "3"})
    assert changed(merge(sent, answer)) == {
        "cpu_quota": None,
        "cpuset_cpus": None,
        "cpuset_mems": None,
        "unified[a]": "3",
    }


def test_changing_all_firm_fields_is_no_echo() -> None:
    """One of them has to be repeated as it was."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3")
    answer = partial(**{name: value - 1 for name, value in BURSTABLE.items()})
    assert set(changed(merge(sent, answer))) == set(BURSTABLE)


def test_an_echo_removes_keys_from_maps_it_has() -> None:
    """Of unified files and page sizes, those the answer's own map or list lacks."""
    pages = [hook.HugepageLimit(page_size=size, limit=1) for size in ("2MB", "1GB")]
    sent = container(**BURSTABLE, unified={"a": "1", "b": "2"}, hugepage_limits=pages)
    answer = echo(sent)
    del answer.container_resources.unified["a"]
    del answer.container_resources.hugepage_limits[1]
    assert changed(merge(sent, answer)) == {"unified[a]": None, "hugepage_limits[1GB]": None}


def test_an_echo_without_a_map_keeps_it() -> None:
    """The plugin may have been built before the map existed."""
    pages = [hook.HugepageLimit(page_size="2MB", limit=1)]
    sent = container(**BURSTABLE, unified={"a": "1"}, hugepage_limits=pages, cpuset_cpus="0-3")
    answer = echo(sent, unified=None, hugepage_limits=None, cpuset_cpus=None)
    assert changed(merge(sent, answer)) == {"cpuset_cpus": None}


def test_an_echo_never_removes_what_is_around_resources() -> None:
    """A label or variable is only taken away by name."""
    sent = container(**BURSTABLE)
    answer = echo(sent)
    del answer.container_envs["MODE"]
    assert merge(sent, answer) == MergeResult()


# ---- clear -----------------------------------------------------------------------------------------------------------


def test_clear_takes_away_by_path() -> None:
    """Without an echo, and nothing else goes with it."""
    sent = container(**BURSTABLE, unified={"memory.high": "1", "memory.low": "2"}, cpuset_cpus="0-3")
    sent.container_annotations["a[0].b"] = "1"
    answer = partial(
        clear=(
            "container_resources.oom_score_adj",
            "container_resources.unified[memory.high]",
            "container_envs[PATH]",
            "container_annotations[a[0].b]",
            "pod_cgroup_parent",
        )
    )
    assert merge(sent, answer).changes == (
        FieldChange("container_annotations[a[0].b]", "1", None),
        FieldChange("pod_cgroup_parent", "/kubepods/burstable/pod1", None),
        FieldChange("container_envs[PATH]", "/bin", None),
        FieldChange("container_resources.oom_score_adj", 987, None),
        FieldChange("container_resources.unified[memory.high]", "1", None),
    )


def test_clear_of_a_map_takes_all_keys() -> None:
    """A path without a key stands for all of them."""
    sent = container(unified={"a": "1", "b": "2"})
    assert changed(merge(sent, partial(clear=("container_resources.unified",)))) == {
        "unified[a]": None,
        "unified[b]": None,
    }


def test_clear_of_what_is_not_there_changes_nothing() -> None:
    """The wish is fulfilled already."""
    paths = (
        "container_resources.cpu_quota",
        "container_envs[NONE]",
        "container_resources.unified",
        "pod_cgroup_parent",
    )
    assert merge(hook.ContainerResourceHookRequest(), partial(clear=paths)) == MergeResult()


def test_clear_counts_as_said_when_looking_for_an_echo() -> None:
    """A firm field that is cleared by name is not a missing one."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3")
    answer = partial(**BURSTABLE | {"oom_score_adj": 0}, clear=("container_resources.oom_score_adj",))
    assert changed(merge(sent, answer)) == {"oom_score_adj": None, "cpuset_cpus": None}


def test_clear_beside_a_repeated_value_clears() -> None:
    """A plugin that copies everything and then names what shall go means the latter."""
    sent = container(**BURSTABLE)
    answer = echo(sent)
    answer.clear.append("container_envs[MODE]")
    assert merge(sent, answer).changes == (FieldChange("container_envs[MODE]", "fast", None),)


# ---- Answers that make no sense --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (partial(oom_score_adj=5000), "container_resources.oom_score_adj: 5000 is not within -1000 to 1000"),
        (partial(cpu_shares=-5), "container_resources.cpu_shares: -5 is below 0"),
        (partial(cpuset_cpus="0-3\n"), r"container_resources.cpuset_cpus: '0-3\n' is not a list"),
        (partial(unified={"../x": "1"}), "container_resources.unified[../x]: 1 is not for a file name"),
        (hook.ContainerResourceHookResponse(pod_cgroup_parent="../up"), 'pod_cgroup_parent: ../up has ".."'),
        (partial(clear=("container_resources.nonsense",)), "clear: container_resources.nonsense is not something"),
        (partial(clear=("resources.cpu_quota",)), "clear: resources.cpu_quota is not something"),
        (partial(clear=("pod_cgroup_parent[x]",)), "clear: pod_cgroup_parent[x] is not something"),
        (partial(clear=("container_envs[x",)), "clear: container_envs[x: the bracket is not closed"),
        (partial(clear=("container_resources.cpu_quota",), cpu_quota=5), "cpu_quota is set to 5 and cleared"),
        (partial(clear=("container_resources.unified",), unified={"new": "1"}), "unified[new] is set to 1 and cleared"),
        (
            partial(hugepage_limits=[hook.HugepageLimit(page_size="2MB", limit=n) for n in (1, 1)]),
            "container_resources.hugepage_limits[2MB] is there 2 times",
        ),
    ],
)
def test_an_answer_that_makes_no_sense(answer: Any, text: str) -> None:
    """It is refused with path and value, so that its author finds the place."""
    with pytest.raises(HookAnswerError) as caught:
        merge(container(), answer)
    assert text in str(caught.value)


@pytest.mark.parametrize(("key", "clear"), [("A=B", []), ("", []), ("N\0", []), ("A", ["container_envs[A]"])])
def test_no_value_of_a_variable_in_an_error(key: str, clear: list[str]) -> None:
    """Errors are logged and returned to the caller; variables hold passwords."""
    answer = hook.ContainerResourceHookResponse(container_envs={key: "hunter2"}, clear=clear)
    with pytest.raises(HookAnswerError) as caught:
        merge(container(), answer)
    assert "hunter2" not in str(caught.value)
    assert "\0" not in str(caught.value)
    assert "container_envs[" in str(caught.value)


def test_a_long_value_is_cut_in_an_error() -> None:
    """A log line stays a line."""
    with pytest.raises(HookAnswerError) as caught:
        merge(container(), partial(cpuset_cpus="x" * 10_000))
    assert len(str(caught.value)) < 250


# ---- apply_changes ---------------------------------------------------------------------------------------------------


def test_advance_shows_the_next_plugin_the_result() -> None:
    """Every kind of change, and nothing else."""
    pages = [hook.HugepageLimit(page_size=size, limit=1) for size in ("2MB", "1GB")]
    sent = container(**BURSTABLE, unified={"a": "1"}, hugepage_limits=pages)
    apply_changes(
        sent,
        [
            FieldChange("container_annotations[new]", None, "1"),
            FieldChange("pod_cgroup_parent", "/kubepods/burstable/pod1", None),
            FieldChange("container_envs[PATH]", "/bin", None),
            FieldChange("container_resources.cpu_shares", 102, 2),
            FieldChange("container_resources.oom_score_adj", 987, None),
            FieldChange("container_resources.hugepage_limits[2MB]", 1, 7),
            FieldChange("container_resources.hugepage_limits[1GB]", 1, None),
            FieldChange("container_resources.hugepage_limits[64KB]", None, 0),
            FieldChange("container_resources.unified[a]", "1", None),
        ],
    )
    wanted = container(
        cpu_period=100_000,
        cpu_shares=2,
        memory_limit_in_bytes=1 << 28,
        hugepage_limits=[
            hook.HugepageLimit(page_size="2MB", limit=7),
            hook.HugepageLimit(page_size="64KB", limit=0),
        ],
    )
    wanted.container_annotations["new"] = "1"
    wanted.pod_cgroup_parent = ""
    del wanted.container_envs["PATH"]
    assert sent == wanted


def test_advance_makes_no_empty_resources() -> None:
    """Clearing where there are none leaves none."""
    sent = hook.PodSandboxHookRequest()
    apply_changes(sent, [FieldChange("resources.cpu_quota", 1, None), FieldChange("resources.unified[a]", "1", None)])
    assert not sent.HasField("resources")


def test_answer_of_absurd_size_is_bad() -> None:
    """The time of a merge is bounded by what was sent, not by what a hook server makes up."""
    many = hook.ContainerResourceHookResponse(container_annotations={f"k{number}": "" for number in range(300)})
    with pytest.raises(HookAnswerError, match=r"container_annotations has 300 keys where 2 were sent"):
        merge(container(), many)
    sizes = [hook.HugepageLimit(page_size=f"{number}MB", limit=1) for number in range(1, 40)]
    with pytest.raises(HookAnswerError, match=r"hugepage_limits has 39 page sizes"):
        merge(container(), partial(hugepage_limits=sizes))


def test_answer_may_repeat_as_much_as_was_sent() -> None:
    """However much that is."""
    sent = container()
    sent.container_envs.update({f"k{number}": "v" for number in range(1000)})
    assert changed(merge(sent, echo(sent, cpu_shares=2))) == {"cpu_shares": 2}


# ---- Values in force that were not sent ------------------------------------------------------------------------------

HELD: dict[str, int | str | None] = {"container_resources.cpu_shares": 2, "container_resources.cpuset_cpus": "0-1"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (partial(cpu_shares=102), [FieldChange("container_resources.cpu_shares", 2, 102)]),
        (partial(cpu_shares=7), [FieldChange("container_resources.cpu_shares", 2, 7)]),
        (partial(("container_resources.cpuset_cpus",)), [FieldChange("container_resources.cpuset_cpus", "0-1", None)]),
        (partial(("container_resources.cpu_shares",)), [FieldChange("container_resources.cpu_shares", 2, None)]),
        (
            partial(("container_resources.cpu_shares",), cpu_shares=102),
            [FieldChange("container_resources.cpu_shares", 2, None)],
        ),
        (partial(memory_limit_in_bytes=1 << 28), []),
        (echo(container(**BURSTABLE)), []),
    ],
)
def test_what_is_said_outright_of_a_value_in_force_counts(answer: Any, expected: list[FieldChange]) -> None:
    """To have it as it was asked for, or not at all; an echo repeats everything and says nothing of it."""
    assert list(merge(container(**BURSTABLE), answer, in_force=HELD).changes) == expected


def test_a_value_in_force_does_not_excuse_nonsense() -> None:
    """Set to something new and cleared in one answer."""
    with pytest.raises(HookAnswerError, match="cleared in one answer"):
        merge(container(**BURSTABLE), partial(("container_resources.cpu_shares",), cpu_shares=9), in_force=HELD)


def test_an_echo_next_to_values_in_force_still_clears_by_leaving_out() -> None:
    """A koordlet clears a CPU set that way."""
    sent = container(**BURSTABLE, cpuset_cpus="0-3")
    held: dict[str, int | str | None] = {"container_resources.cpuset_cpus": "0-1"}
    assert changed(merge(sent, echo(sent, cpuset_cpus=None), in_force=held)) == {"cpuset_cpus": None}
