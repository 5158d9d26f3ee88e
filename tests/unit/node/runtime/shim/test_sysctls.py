"""Which kernel settings a pod may have."""

import pytest

from interpose.node.runtime.shim.sysctls import sysctl_path, sysctl_problem


@pytest.mark.parametrize(
    "name",
    [
        "net.ipv4.ip_forward",
        "net/ipv4/conf/eth0.100/forwarding",
        "kernel.shmmax",
        "kernel.msgmnb",
        "kernel.sem",
        "fs.mqueue.msg_max",
        "kernel.shm_rmid_forced",
    ],
)
def test_those_of_its_own_namespaces(name: str) -> None:
    """Network and IPC."""
    assert sysctl_problem(name, network=True, ipc=True) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kernel.panic", "not in a namespace"),
        ("vm.swappiness", "not in a namespace"),
        ("kernel.shmmax.x", "not in a namespace"),
        ("net/../kernel/panic", "not a name"),
        ("net..x", "not a name"),
        ("", "not a name"),
    ],
)
def test_no_others(name: str, words: str) -> None:
    """They would change the machine."""
    assert words in (sysctl_problem(name, network=True, ipc=True) or "")


@pytest.mark.parametrize(("name", "words"), [("net.core.somaxconn", "network namespace"), ("kernel.sem", "IPC")])
def test_not_those_of_the_host(name: str, words: str) -> None:
    """A pod in the host's namespaces would change the host."""
    assert words in (sysctl_problem(name, network=False, ipc=False) or "")


@pytest.mark.parametrize(
    ("name", "path"), [("net.ipv4.ip_forward", "net/ipv4/ip_forward"), ("net/ipv4/conf/e.1/x", "net/ipv4/conf/e.1/x")]
)
def test_their_files(name: str, path: str) -> None:
    """Dots are slashes, unless slashes are."""
    assert sysctl_path(name) == path
