"""Requests are made to fit another place and time."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.dump.replay.adapt import TargetOptions, adapt, free_suffix, uids
from interpose.testing.pods import container_config, create_request, pod_config, run_request

UID = "11111111-2222-3333-4444-555555555555"


def nothing(_path: str) -> bool:
    """A machine without any of the files."""
    return False


def everything(_path: str) -> bool:
    """The machine of the recording."""
    return True


def request(*, systemd: bool = False) -> cri.CreateContainerRequest:
    """A container of a pod."""
    pod = pod_config("web", uid=UID, systemd=systemd)
    return create_request("p", pod, container_config(pod))


@pytest.mark.parametrize("systemd", [False, True])
def test_a_suffix_is_put_behind_the_uid_everywhere(systemd: bool) -> None:
    """In the name of the pod, in labels, and in the paths of cgroup and logs; systemd writes it its own way."""
    found = request(systemd=systemd)
    adapt(found, TargetOptions(exists=everything, suffix="-r1"))
    config = found.sandbox_config
    uid = UID.replace("-", "_") + "_r1" if systemd else f"{UID}-r1"
    assert config.metadata.uid == f"{UID}-r1"
    assert f"pod{uid}" in config.linux.cgroup_parent
    assert config.log_directory.endswith(f"{UID}-r1")
    assert config.labels["io.kubernetes.pod.uid"] == f"{UID}-r1"
    assert found.config.labels["io.kubernetes.pod.uid"] == f"{UID}-r1"
    assert f"/{UID}/" in found.config.mounts[0].host_path
    assert config.metadata.name == "web"


def test_a_uid_without_dashes_is_written_the_same_way_everywhere() -> None:
    """Both ways to write it are the same then, but those of the suffix are not."""
    pod = run_request(pod_config("web", uid="abc123"))
    adapt(pod, TargetOptions(exists=everything, suffix="-r1"))
    assert pod.config.linux.cgroup_parent == "/kubepods/burstable/podabc123-r1"
    pod = run_request(pod_config("web", uid="abc123", systemd=True))
    adapt(pod, TargetOptions(exists=everything, suffix="-r1"))
    assert pod.config.linux.cgroup_parent.endswith("-podabc123_r1.slice")


def test_a_pod_without_uid_keeps_none() -> None:
    """Not everybody is a kubelet."""
    found = cri.RunPodSandboxRequest(config=cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="a")))
    found.config.linux.cgroup_parent = "/a"
    adapt(found, TargetOptions(exists=everything, suffix="-r1"))
    assert found.config.metadata.uid == ""
    assert found.config.linux.cgroup_parent == "/a"
    assert uids(found) == set()


def test_without_need_nothing_is_changed() -> None:
    """On the machine of the recording a request stays as it was."""
    found = request()
    done = adapt(found, TargetOptions(exists=everything))
    assert found == request()
    assert (done.redacted, done.dropped_mounts, done.missing_mounts, done.dropped_logs) == (0, [], [], [])


def test_a_suffix_is_found_that_makes_uids_free() -> None:
    """None if none is needed; the same for all pods."""
    assert free_suffix({"a", "b"}, {"c"}) == ""
    assert free_suffix({"a", "b"}, {"b"}) == "-r1"
    assert free_suffix({"a", "b"}, {"b", "a-r1"}) == "-r2"


def test_mounts_of_nothing_are_told_or_left_out() -> None:
    """As asked for; mounts without a file of the host stay."""
    found = request()
    found.config.mounts.add(container_path="/image", image=cri.ImageSpec(image="data"))
    hosts = found.config.mounts[0].host_path
    assert adapt(found, TargetOptions(exists=nothing)).missing_mounts == [hosts]
    assert len(found.config.mounts) == 2
    done = adapt(found, TargetOptions(exists=nothing, drop_mounts=True))
    assert (done.dropped_mounts, done.missing_mounts) == ([hosts], [])
    assert [one.container_path for one in found.config.mounts] == ["/image"]


def test_logs_are_not_kept_where_their_directory_is_missing() -> None:
    """A runtime would refuse to start the container."""
    found = request()
    directory = found.sandbox_config.log_directory
    assert adapt(found, TargetOptions(exists=nothing)).dropped_logs == [directory]
    assert (found.sandbox_config.log_directory, found.config.log_path) == ("", "")


def test_logs_go_below_a_directory() -> None:
    """With the suffix of the pod, and with the directories that a runtime expects."""
    found = request()
    done = adapt(found, TargetOptions(exists=nothing, logs="/logs", suffix="-r1"))
    assert found.sandbox_config.log_directory == f"/logs/default_web_{UID}-r1"
    assert found.config.log_path == "app/0.log"
    assert done.directories == [f"/logs/default_web_{UID}-r1/app"]
    pod = run_request(pod_config("web", uid=UID))
    assert adapt(pod, TargetOptions(exists=nothing, logs="/logs")).directories == [f"/logs/default_web_{UID}"]


def test_a_pod_without_logs_has_none() -> None:
    """Nothing to be made, nothing to be told."""
    found = request()
    found.sandbox_config.ClearField("log_directory")
    done = adapt(found, TargetOptions(exists=nothing, logs="/logs"))
    assert (done.directories, done.dropped_logs) == ([], [])


def test_redacted_values_are_counted() -> None:
    """Texts and bytes."""
    found = request()
    found.config.envs.add(key="A", value=b"<redacted>")
    found.config.args.append("--token=<redacted>")
    assert adapt(found, TargetOptions(exists=everything)).redacted == 2
