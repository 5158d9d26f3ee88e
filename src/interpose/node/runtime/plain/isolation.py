"""What the plain executor does not isolate, as sentences for the operator. No IO."""

ALWAYS = (
    "system calls are not filtered (no seccomp)",
    "device access is not limited by cgroup",
    "AppArmor and SELinux labels are not applied",
    "it is made for programs you trust: an image that means harm is not kept from the host's files",
)
WITHOUT_ROOT = (
    "containers see the host's file system; a program is looked for in the image first, then on the host",
    "volumes and other mounts are not made",
    "containers share processes, network, IPC and host name with the host",
    "containers run as the user of the runtime, with its rights",
    "CPU and memory limits are not enforced",
)


def not_isolated(root: bool) -> tuple[str, ...]:
    """A sentence for each kind of isolation that is missing, with or without root."""
    return ALWAYS if root else (*WITHOUT_ROOT, *ALWAYS)
