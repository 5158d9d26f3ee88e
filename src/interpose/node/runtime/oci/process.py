"""The process of a container: arguments, user, environment and confinement. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from interpose.node.runtime.oci.resources import check_oom_score
from interpose.node.runtime.oci.spec_types import (
    PROFILE_LOCALHOST,
    PROFILE_RUNTIME_DEFAULT,
    PROFILE_UNCONFINED,
    HostFacts,
    ImageDefaults,
    SandboxFacts,
    SpecError,
)
from interpose.node.runtime.oci.users import ResolvedUser

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOCALHOST: Final = "localhost/"
_APPARMOR: Final = "linux.security_context.apparmor"


def process(
    config: Any,
    sandbox: SandboxFacts,
    image: ImageDefaults,
    user: ResolvedUser,
    *,
    host: HostFacts,
    capabilities: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """`process` of the specification; `capabilities` are the sets by kind."""
    context = config.linux.security_context
    document: dict[str, Any] = {
        "terminal": config.tty,
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups)},
        "args": arguments(config, image),
        "env": environment(config, sandbox, image, host),
        "cwd": config.working_dir or image.working_dir or "/",
        "capabilities": {kind: list(names) for kind, names in capabilities.items()},
        "noNewPrivileges": context.no_new_privs,
        "oomScoreAdj": _oom_score(config.linux.resources.oom_score_adj, host),
    }
    if (profile := _apparmor(context, host)) and not context.privileged:
        document["apparmorProfile"] = profile
    if label := _selinux(context, host):
        document["selinuxLabel"] = label
    return document


def arguments(config: Any, image: ImageDefaults) -> list[str]:
    """The command line: a command replaces entrypoint and arguments of the image, arguments only its arguments."""
    command, args = list(config.command), list(config.args)
    if not command:
        command = list(image.entrypoint)
        args = args or list(image.cmd)
    if not (line := command + args):
        raise SpecError("command", "is empty, and the image has none of its own")
    if any("\0" in word for word in line):
        raise SpecError("command", "has a zero byte in it")
    return line


def environment(config: Any, sandbox: SandboxFacts, image: ImageDefaults, host: HostFacts) -> list[str]:
    """The image's variables, then the configuration's; the last value of a name counts, at its first position."""
    found = {"PATH": DEFAULT_PATH, "HOSTNAME": sandbox.config.hostname or host.hostname}
    if config.tty:
        found["TERM"] = "xterm"
    found |= dict(_pairs(image.env))
    for number, env in enumerate(config.envs):
        value = env.value.decode("utf-8", "surrogateescape") if isinstance(env.value, bytes) else env.value
        if not env.key or "=" in env.key or "\0" in env.key + value:
            raise SpecError(f"envs[{number}]", f"{env.key!r} is not a variable: a name without =, and no zero bytes")
        found[env.key] = value
    return [f"{name}={value}" for name, value in found.items()]


def _pairs(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        name, found, value = line.partition("=")
        if name and found:
            yield name, value


def _oom_score(wanted: int, host: HostFacts) -> int:
    check_oom_score(wanted)
    return max(wanted, host.lowest_oom_score)


def _apparmor(context: Any, host: HostFacts) -> str:
    """The name of a loaded AppArmor profile; empty for the default, of which this runtime has none."""
    if context.HasField("apparmor"):
        kind, name = context.apparmor.profile_type, context.apparmor.localhost_ref
    else:
        kind, name = _deprecated(context.apparmor_profile)
    if kind in (PROFILE_RUNTIME_DEFAULT, PROFILE_UNCONFINED):
        return ""
    if kind != PROFILE_LOCALHOST or not name:
        raise SpecError(_APPARMOR, f"profile type {kind} with name {name!r} is not known")
    if not host.apparmor:
        raise SpecError(_APPARMOR, f"profile {name!r} is asked for, but this machine has no AppArmor")
    return str(name).removeprefix(_LOCALHOST)


def _deprecated(profile: str) -> tuple[int, str]:
    if profile in ("", "runtime/default"):
        return PROFILE_RUNTIME_DEFAULT, ""
    if profile == "unconfined":
        return PROFILE_UNCONFINED, ""
    if not profile.startswith(_LOCALHOST):
        raise SpecError(
            f"{_APPARMOR}_profile", f"{profile!r} is not a profile: localhost/NAME, runtime/default, unconfined"
        )
    return PROFILE_LOCALHOST, profile


def _selinux(context: Any, host: HostFacts) -> str:
    options = context.selinux_options
    if not host.selinux or context.privileged or not options.type:
        return ""
    return ":".join((options.user or "system_u", options.role or "system_r", options.type, options.level or "s0"))
