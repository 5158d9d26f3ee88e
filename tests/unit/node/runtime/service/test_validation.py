"""Requests that are refused, and why."""

from collections.abc import Callable

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.service.validation import (
    check_command,
    check_container,
    check_sandbox,
    check_streams,
    check_update,
)
from interpose.testing.pods import container_config, pod_config


def change(path: str, value: object) -> Callable[[object], None]:
    """Sets a field by its path."""

    def apply(message: object) -> None:
        *parents, last = path.split(".")
        for name in parents:
            message = getattr(message, name)
        setattr(message, last, value)

    return apply


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda config: config.ClearField("metadata"), r"config\.metadata"),
        (change("metadata.name", ""), r"config\.metadata\.name"),
        (change("metadata.namespace", ""), r"config\.metadata\.namespace"),
        (change("hostname", "x" * 65), r"config\.hostname"),
        (change("hostname", "web\nevil"), r"config\.hostname: 'web\\nevil' is not one word"),
        (change("hostname", "web\0"), r"config\.hostname"),
        (change("log_directory", "logs"), r"config\.log_directory"),
        (change("log_directory", "/logs\0"), r"config\.log_directory"),
        (change("linux.cgroup_parent", "/a/" + "b" * 256), r"cgroup_parent"),
        (lambda config: config.windows.SetInParent(), r"config\.windows"),
        (change("linux.cgroup_parent", "/a/../b"), r"cgroup_parent"),
        (change("linux.cgroup_parent", "/x/" + "/".join(["d" * 200] * 30)), r"config\.linux\.cgroup_parent: .* bytes"),
        (lambda config: config.dns_config.servers.append("1.1.1.1\nevil"), r"config\.dns_config: servers"),
        (change("linux.security_context.namespace_options.pid", cri.TARGET), "target_id"),
        (change("linux.security_context.namespace_options.userns_options.mode", cri.POD), "user namespaces"),
    ],
)
def test_bad_sandboxes(spoil: Callable[[cri.PodSandboxConfig], object], words: str) -> None:
    """Each is refused by the name of its field."""
    config = pod_config("web")
    check_sandbox(config, "", ("runc",), "cgroupfs")
    spoil(config)
    with pytest.raises(RpcError, match=words) as caught:
        check_sandbox(config, "", ("runc",), "cgroupfs")
    assert caught.value.code in (Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED)


def test_handlers() -> None:
    """The one there is, or none."""
    check_sandbox(pod_config("web"), "runc", ("runc",), "cgroupfs")
    with pytest.raises(RpcError, match=r'runtime_handler.*"kata".*runc'):
        check_sandbox(pod_config("web"), "kata", ("runc",), "cgroupfs")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda config: config.ClearField("metadata"), r"config\.metadata"),
        (change("image.image", ""), r"config\.image"),
        (lambda config: config.windows.SetInParent(), r"config\.windows"),
        (lambda config: config.CDI_devices.add(name="a/b=c"), "CDI"),
        (change("log_path", "../../etc/passwd"), r"config\.log_path: .* must not have \.\."),
        (change("log_path", "a\0b"), r"config\.log_path: 'a\\x00b' has a zero byte in it$"),
        (change("log_path", "a/" * 100 + "x"), r"config\.log_path: is in more than 100 folders"),
        (change("log_path", "/".join(["d" * 200] * 20)), r"config\.log_path: has more than 4000 bytes"),
        (change("linux.resources.cpu_shares", -1), r"config\.linux\.resources\.cpu_shares: -1 is less than 0"),
        (change("linux.resources.oom_score_adj", 1001), r"config\.linux\.resources\.oom_score_adj: 1001"),
    ],
)
def test_bad_containers(spoil: Callable[[cri.ContainerConfig], object], words: str) -> None:
    """As sandboxes."""
    config = container_config(pod_config("web"), "main")
    check_container(config, "/logs")
    spoil(config)
    with pytest.raises(RpcError, match=words) as caught:
        check_container(config, "/logs")
    assert caught.value.code in (Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED)


def test_the_folder_of_a_log_counts() -> None:
    """Both together are the path; a hundred folders are fine."""
    config = container_config(pod_config("web"), "main")
    config.log_path = "a/" * 99 + "x"
    check_container(config, "/logs")
    with pytest.raises(RpcError, match=r"config\.log_path"):
        check_container(config, "/more/logs")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda request: request.windows.SetInParent(), "UNIMPLEMENTED.*windows"),
        (change("linux.cpu_period", -5), r"INVALID_ARGUMENT.*linux\.cpu_period: -5 is less than 0"),
        (change("linux.oom_score_adj", -1001), r"INVALID_ARGUMENT.*linux\.oom_score_adj: -1001 is not between"),
    ],
)
def test_bad_updates(spoil: Callable[[cri.UpdateContainerResourcesRequest], object], words: str) -> None:
    """By the names that their fields have in the update."""
    request = cri.UpdateContainerResourcesRequest()
    check_update(request)
    spoil(request)
    with pytest.raises(RpcError, match=words):
        check_update(request)


def test_streams_and_commands() -> None:
    """Something must be asked for, and a terminal has one output."""
    check_streams(cri.ExecRequest(stdout=True))
    check_streams(cri.AttachRequest(stdin=True, tty=True))
    for bad in (cri.ExecRequest(), cri.AttachRequest(tty=True, stderr=True)):
        with pytest.raises(RpcError, match="INVALID_ARGUMENT"):
            check_streams(bad)
    check_command(["true"])
    with pytest.raises(RpcError, match="cmd"):
        check_command([])
