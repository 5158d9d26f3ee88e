"""The filter of system calls for a container: our default one, one from a file, or none. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from interpose.node.runtime.oci.seccomptable import ALLOWED, ARCHITECTURES, BY_CAPABILITY, BY_MACHINE
from interpose.node.runtime.oci.spec_types import (
    PROFILE_LOCALHOST,
    PROFILE_RUNTIME_DEFAULT,
    PROFILE_UNCONFINED,
    HostFacts,
    SpecError,
)

_ALLOW: Final = "SCMP_ACT_ALLOW"
_REFUSE: Final = "SCMP_ACT_ERRNO"
_EPERM: Final = 1
_ENOSYS: Final = 38
_EQUAL: Final = "SCMP_CMP_EQ"
_NOT_EQUAL: Final = "SCMP_CMP_NE"
_MASKED: Final = "SCMP_CMP_MASKED_EQ"
# All CLONE_NEW*: new namespaces are for those who may mount.
_NEW_NAMESPACES: Final = 0x7E020000
# Linux, Linux with 32 bit addresses (two ways), and "what is it now?".
_PERSONALITIES: Final = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
_AF_VSOCK: Final = 40
_SWAPPED: Final = "SCMP_ARCH_S390X"  # clone takes its flags second there
_WHERE: Final = "linux.security_context.seccomp"
_LOCALHOST: Final = "localhost/"


def wanted(context: Any) -> tuple[int, str]:
    """Kind of profile and its name, from either of CRI's fields; nothing said is unconfined."""
    if context.HasField("seccomp"):
        kind, name = context.seccomp.profile_type, context.seccomp.localhost_ref
        if kind not in (PROFILE_RUNTIME_DEFAULT, PROFILE_UNCONFINED, PROFILE_LOCALHOST):
            raise SpecError(_WHERE, f"profile type {kind} is not known")
        return kind, name
    path = context.seccomp_profile_path
    if path in ("runtime/default", "docker/default"):
        return PROFILE_RUNTIME_DEFAULT, ""
    if path in ("", "unconfined"):
        return PROFILE_UNCONFINED, ""
    if not path.startswith(_LOCALHOST):
        raise SpecError(
            f"{_WHERE}_profile_path", f"{path!r} is not a profile: localhost/FILE, runtime/default, unconfined"
        )
    return PROFILE_LOCALHOST, path


def profile_file(context: Any) -> str | None:
    """The file a profile has to be read from; None if there is none to be read."""
    kind, name = wanted(context)
    if context.privileged or kind != PROFILE_LOCALHOST:
        return None
    path = name.removeprefix(_LOCALHOST)
    if not path.startswith("/"):
        raise SpecError(_WHERE, f"{name!r} is not an absolute path of a profile")
    return path


def choose(
    context: Any, host: HostFacts, capabilities: Collection[str], from_file: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """`linux.seccomp` of the specification; None for no filter."""
    kind, name = wanted(context)
    if kind == PROFILE_UNCONFINED:
        return None
    if kind == PROFILE_LOCALHOST:
        if not host.seccomp:
            raise SpecError(_WHERE, f"profile {name!r} is asked for, but this kernel has no seccomp")
        if from_file is None or "defaultAction" not in from_file:
            raise SpecError(_WHERE, f"{name!r} is not a profile: it has no defaultAction")
        return dict(from_file)
    return default_profile(host.architectures, capabilities) if host.seccomp else None


def default_profile(architectures: Sequence[str], capabilities: Collection[str]) -> dict[str, Any]:
    """The filter for somebody with these capabilities."""
    machines = [machine for machine, names in ARCHITECTURES.items() if names[0] in architectures]
    names = [*ALLOWED, *(name for machine in machines for name in BY_MACHINE.get(machine, ()))]
    names += [name for capability, more in BY_CAPABILITY.items() if capability in capabilities for name in more]
    rules: list[dict[str, Any]] = [{"names": list(dict.fromkeys(names)), "action": _ALLOW}]
    rules += [_rule("personality", _argument(0, value, _EQUAL)) for value in _PERSONALITIES]
    rules.append(_rule("socket", _argument(0, _AF_VSOCK, _NOT_EQUAL)))
    if "CAP_SYS_ADMIN" not in capabilities:
        flags = 1 if architectures and architectures[0] == _SWAPPED else 0
        rules.append(_rule("clone", _argument(flags, _NEW_NAMESPACES, _MASKED) | {"valueTwo": 0}))
        # Its flags are behind a pointer, out of a filter's sight; "not there" makes libraries take clone instead.
        rules.append({"names": ["clone3"], "action": _REFUSE, "errnoRet": _ENOSYS})
    return {
        "defaultAction": _REFUSE,
        "defaultErrnoRet": _EPERM,
        "architectures": list(architectures),
        "syscalls": rules,
    }


def _rule(name: str, argument: dict[str, Any]) -> dict[str, Any]:
    return {"names": [name], "action": _ALLOW, "args": [argument]}


def _argument(index: int, value: int, operator: str) -> dict[str, Any]:
    return {"index": index, "value": value, "op": operator}
