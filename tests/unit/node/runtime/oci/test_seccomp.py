"""The filter of system calls."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci import capabilities
from interpose.node.runtime.oci.seccomp import (
    ALLOWED,
    ARCHITECTURES,
    BY_CAPABILITY,
    BY_MACHINE,
    choose_profile,
    default_profile,
    profile_file,
    requested_profile,
)
from interpose.node.runtime.oci.spec_types import HostFacts, SpecError

X86 = ARCHITECTURES["x86_64"]
HOST = HostFacts(architectures=X86)
KINDS = cri.SecurityProfile


def _context(**fields: Any) -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(**fields)


def _allowed(profile: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [rule for rule in profile["syscalls"] if name in rule["names"] and rule["action"] == "SCMP_ACT_ALLOW"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (1, "")),
        ({"seccomp": KINDS(profile_type=KINDS.RuntimeDefault)}, (0, "")),
        ({"seccomp": KINDS(profile_type=KINDS.Unconfined)}, (1, "")),
        ({"seccomp": KINDS(profile_type=KINDS.Localhost, localhost_ref="/p")}, (2, "/p")),
        ({"seccomp_profile_path": "runtime/default"}, (0, "")),
        ({"seccomp_profile_path": "docker/default"}, (0, "")),
        ({"seccomp_profile_path": "unconfined"}, (1, "")),
        ({"seccomp_profile_path": "localhost//p"}, (2, "localhost//p")),
    ],
)
def test_what_is_asked_for(fields: dict[str, Any], expected: tuple[int, str]) -> None:
    """By the newer field, else by the older one."""
    assert requested_profile(_context(**fields)) == expected


@pytest.mark.parametrize("fields", [{"seccomp": KINDS(profile_type=9)}, {"seccomp_profile_path": "mine"}])  # type: ignore[arg-type]
def test_what_nobody_knows(fields: dict[str, Any]) -> None:
    """An error that names it."""
    with pytest.raises(SpecError, match="seccomp"):
        requested_profile(_context(**fields))


def test_a_file_is_read_only_where_it_is_used() -> None:
    """Not for other kinds, nor for privileged containers; a relative name is refused."""
    local = KINDS(profile_type=KINDS.Localhost, localhost_ref="localhost//p.json")
    assert profile_file(_context(seccomp=local)) == "/p.json"
    assert profile_file(_context(seccomp=local, privileged=True)) is None
    assert profile_file(_context()) is None
    with pytest.raises(SpecError, match="absolute"):
        profile_file(_context(seccomp=KINDS(profile_type=KINDS.Localhost, localhost_ref="p.json")))


def test_the_profile_of_each_kind() -> None:
    """None, ours, the file's."""
    local = _context(seccomp=KINDS(profile_type=KINDS.Localhost, localhost_ref="/p"))
    default = _context(seccomp=KINDS())
    assert choose_profile(_context(), HOST, (), None) is None
    assert choose_profile(default, HOST, (), None) == default_profile(X86, ())
    assert choose_profile(local, HOST, (), {"defaultAction": "x"}) == {"defaultAction": "x"}


@pytest.mark.parametrize("document", [None, {}])
def test_a_file_that_is_no_profile(document: dict[str, Any] | None) -> None:
    """It is refused before the OCI runtime sees it."""
    local = _context(seccomp=KINDS(profile_type=KINDS.Localhost, localhost_ref="/p"))
    with pytest.raises(SpecError, match="'/p' is not a profile"):
        choose_profile(local, HOST, (), document)


def test_a_kernel_without_filters() -> None:
    """The default is done without, what was asked for by name is an error."""
    without = HostFacts(seccomp=False)
    assert choose_profile(_context(seccomp=KINDS()), without, (), None) is None
    with pytest.raises(SpecError, match="no seccomp"):
        choose_profile(_context(seccomp=KINDS(profile_type=KINDS.Localhost, localhost_ref="/p")), without, (), {})


def test_the_default_refuses_what_it_does_not_name() -> None:
    """With EPERM; ordinary calls are allowed, dangerous ones are not."""
    profile = default_profile(X86, capabilities.DEFAULT)
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert profile["architectures"] == list(X86)
    for name in ("read", "openat", "execve", "arch_prctl", "chroot"):
        assert _allowed(profile, name)
    for name in ("mount", "bpf", "kexec_load", "init_module", "io_uring_setup", "keyctl", "setns", "unshare", "reboot"):
        assert not _allowed(profile, name)


def test_a_capability_opens_its_calls() -> None:
    """And those alone."""
    profile = default_profile(X86, {"CAP_SYS_TIME"})
    assert _allowed(profile, "clock_settime")
    assert not _allowed(profile, "chroot")


def test_new_namespaces_need_the_capability() -> None:
    """Without it clone is allowed only without such flags, and clone3 is said not to be there."""
    profile = default_profile(X86, ())
    (clone,) = _allowed(profile, "clone")
    assert clone["args"] == [{"index": 0, "value": 0x7E020000, "op": "SCMP_CMP_MASKED_EQ", "valueTwo": 0}]
    (clone3,) = [rule for rule in profile["syscalls"] if "clone3" in rule["names"]]
    assert (clone3["action"], clone3["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    (free,) = _allowed(default_profile(X86, {"CAP_SYS_ADMIN"}), "clone")
    assert "args" not in free


def test_clone_has_its_flags_elsewhere_on_mainframes() -> None:
    """The second argument there."""
    (clone,) = _allowed(default_profile(ARCHITECTURES["s390x"], ()), "clone")
    assert clone["args"][0]["index"] == 1
    assert default_profile((), ())["architectures"] == []


def test_sockets_of_virtual_machines_are_refused() -> None:
    """All other families are allowed."""
    (rule,) = _allowed(default_profile(X86, ()), "socket")
    assert rule["args"] == [{"index": 0, "value": 40, "op": "SCMP_CMP_NE"}]


def test_the_tables_are_clean() -> None:
    """No name twice, capabilities and machines that exist, nothing allowed to all that a capability is to open."""
    assert len(ALLOWED) == len(set(ALLOWED))
    assert set(BY_CAPABILITY) <= set(capabilities.ALL)
    assert set(BY_MACHINE) <= set(ARCHITECTURES)
    assert not {name for names in BY_CAPABILITY.values() for name in names} & set(ALLOWED)
