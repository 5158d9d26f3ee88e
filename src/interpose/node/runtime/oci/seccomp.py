"""The seccomp profile of a container: our default, one from a file, or none. Pure.

The default is an allow list: a system call that is not in it fails with EPERM. OCI runtimes skip names that a kernel or
libseccomp does not know, so one list serves all machines. Left out are calls that reach beyond the container (modules,
clocks, keys, reboot, swap ...) or that were mostly used to break out (bpf, userfaultfd, io_uring ...).
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from interpose.node.runtime.oci.spec_types import (
    PROFILE_LOCALHOST,
    PROFILE_RUNTIME_DEFAULT,
    PROFILE_UNCONFINED,
    HostFacts,
    SpecError,
)

_ALLOWED: Final = """
accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32 clock_adjtime
clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep
clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1
epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit
exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2
fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait
futex_waitv futex_wake futimesat getcpu getcwd getdents getdents64 getegid getegid32 geteuid geteuid32 getgid
getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid
getresgid32 getresuid getresuid32 getrlimit get_robust_list getrusage getsid getsockname getsockopt
get_thread_area gettid gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init
inotify_init1 inotify_rm_watch io_cancel ioctl io_destroy io_getevents io_pgetevents io_pgetevents_time64
ioprio_get ioprio_set io_setup io_submit ipc kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
lchown lchown32 lgetxattr link linkat listen listmount listxattr listxattrat llistxattr _llseek lremovexattr lseek
lsetxattr lstat lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod
mknodat mlock mlock2 mlockall mmap mmap2 mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync
munlock munlockall munmap name_to_handle_at nanosleep newfstatat _newselect open openat openat2 pause pidfd_open
pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv
preadv2 prlimit64 process_mrelease pselect6 pselect6_time64 pwrite64 pwritev pwritev2 read readahead readlink
readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename
renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_getaffinity
sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min sched_getscheduler
sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64 send sendfile
sendfile64 sendmmsg sendmsg sendto setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32
setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32
setrlimit set_robust_list setsid setsockopt set_thread_area set_tid_address setuid setuid32 setxattr setxattrat
shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask sigreturn socketcall socketpair
splice stat stat64 statfs statfs64 statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill
time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64
timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate truncate64
ugetrlimit umask uname unlink unlinkat uretprobe utime utimensat utimensat_time64 utimes vfork vmsplice wait4
waitid waitpid write writev process_vm_readv process_vm_writev ptrace
"""
ALLOWED: Final[tuple[str, ...]] = tuple(_ALLOWED.split())
# By machine, as the kernel calls it.
BY_MACHINE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "x86_64": ("arch_prctl", "modify_ldt"),
        "i686": ("modify_ldt",),
        "aarch64": (
            "arm_fadvise64_64",
            "arm_sync_file_range",
            "sync_file_range2",
            "breakpoint",
            "cacheflush",
            "set_tls",
        ),
        "riscv64": ("riscv_flush_icache",),
        "ppc64le": ("sync_file_range2", "swapcontext"),
        "s390x": ("s390_pci_mmio_read", "s390_pci_mmio_write", "s390_runtime_instr"),
    }
)
# More calls for containers with a capability.
BY_CAPABILITY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "CAP_DAC_READ_SEARCH": ("open_by_handle_at",),
        "CAP_SYS_ADMIN": (
            *("bpf", "clone", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick", "lookup_dcookie"),
            *("mount", "mount_setattr", "move_mount", "open_tree", "perf_event_open", "quotactl", "quotactl_fd"),
            *("setdomainname", "sethostname", "setns", "syslog", "umount", "umount2", "unshare"),
        ),
        "CAP_SYS_BOOT": ("reboot",),
        "CAP_SYS_CHROOT": ("chroot",),
        "CAP_SYS_MODULE": ("delete_module", "init_module", "finit_module"),
        "CAP_SYS_PACCT": ("acct",),
        "CAP_SYS_PTRACE": ("kcmp", "pidfd_getfd", "process_madvise"),
        "CAP_SYS_RAWIO": ("iopl", "ioperm"),
        "CAP_SYS_TIME": ("settimeofday", "stime", "clock_settime", "clock_settime64"),
        "CAP_SYS_TTY_CONFIG": ("vhangup",),
        "CAP_SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
        "CAP_SYSLOG": ("syslog",),
        "CAP_BPF": ("bpf",),
        "CAP_PERFMON": ("perf_event_open",),
    }
)
# Seccomp's names of machines: the machine's own, and those whose programs it can also run.
ARCHITECTURES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
        "i686": ("SCMP_ARCH_X86",),
        "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
        "armv7l": ("SCMP_ARCH_ARM",),
        "riscv64": ("SCMP_ARCH_RISCV64",),
        "ppc64le": ("SCMP_ARCH_PPC64LE",),
        "s390x": ("SCMP_ARCH_S390X", "SCMP_ARCH_S390"),
    }
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


def requested_profile(context: Any) -> tuple[int, str]:
    """Type and name of the profile, from either of CRI's fields; unconfined if neither is set."""
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
    """The file of a localhost profile; None for other profiles."""
    kind, name = requested_profile(context)
    if context.privileged or kind != PROFILE_LOCALHOST:
        return None
    path = name.removeprefix(_LOCALHOST)
    if not path.startswith("/"):
        raise SpecError(_WHERE, f"{name!r} is not an absolute path of a profile")
    return path


def choose_profile(
    context: Any, host: HostFacts, capabilities: Collection[str], from_file: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """`linux.seccomp` of the specification; None for no filter."""
    kind, name = requested_profile(context)
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
    """The default filter for a container with these capabilities."""
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
