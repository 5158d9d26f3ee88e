"""The program: `run`, `exec`, `kill`, `delete`, `update`, `state`, `features`, with runc's flags.

It runs one command and exits. Errors go to standard error, and to the log file as JSON if one is named.
"""

import json
import os
import sys
import time

from interpose.node.runtime.plain import filesystem
from interpose.node.runtime.plain.cgroup import Cgroup
from interpose.node.runtime.plain.commandline import CommandLine, UsageError, parse
from interpose.node.runtime.plain.isolation import not_isolated
from interpose.node.runtime.plain.start import (
    PlainStartError,
    StartPlan,
    namespaces_of_process,
    parse_namespaces,
    start,
)
from interpose.node.runtime.plain.state import PlainState, StateError, start_time
from interpose.node.runtime.shim import syscalls
from interpose.node.runtime.shim.atomic_file import replace_file

_ROOT = "/run/interpose/plain"
_CGROUPS = "/sys/fs/cgroup"
_VERSION = "1.0.2"


def main() -> None:
    """Run the command line; exit code 0, or 1 with an error."""
    log = ""
    try:
        words = parse(sys.argv[1:])
        log = words.flags.get("log", "")
        _VERBS[words.verb](words)
    except UsageError as error:
        _fail(log, str(error))
    except (PlainStartError, StateError) as error:
        _fail(log, f"{error}")
    except OSError as error:
        _fail(log, f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror or error))
    except (ValueError, KeyError, TypeError) as error:
        _fail(log, f"{type(error).__name__}: {error}")


def _run(words: CommandLine) -> None:
    bundle = os.path.abspath(words.flags.get("bundle", "."))  # noqa: PTH100
    config = _document(os.path.join(bundle, "config.json"))  # noqa: PTH118
    linux = _table(config, "linux")
    path = str(linux.get("cgroupsPath") or "")
    state = _state(words)
    state.create()
    cgroup = _cgroup(words, path)
    try:
        cgroup.make(_table(linux, "resources"))
        plan = StartPlan(
            container=words.container(),
            process=_table(config, "process"),
            rootfs=os.path.join(bundle, str(_table(config, "root").get("path", "rootfs"))),  # noqa: PTH118
            cgroup=cgroup,
            console=words.flags.get("console-socket", ""),
        )
        if plan.isolated:
            plan.join, plan.make = parse_namespaces(config)
            plan.make |= syscalls.CLONE_NEWNS
            plan.enter = lambda: filesystem.enter(config, bundle)
        pid = start(plan)
    except BaseException:
        state.kill_and_wait()
        cgroup.remove()
        state.remove()
        raise
    state.write({"pid": pid, "started": start_time(pid), "bundle": bundle, "rootfs": plan.rootfs, "cgroup": path})
    _write_pid(words, pid)


def _exec(words: CommandLine) -> None:
    state = _state(words)
    pid = state.pid()
    if not pid:
        raise StateError("cannot exec in a stopped container")
    known = state.read()
    plan = StartPlan(
        container=words.container(),
        process=_document(words.flag("process")),
        rootfs=str(known["rootfs"]),
        cgroup=_cgroup(words, str(known["cgroup"])),
        console=words.flags.get("console-socket", ""),
    )
    if plan.isolated:
        plan.join = namespaces_of_process(pid)
    _write_pid(words, start(plan))


def _kill(words: CommandLine) -> None:
    state = _state(words)
    number = int(words.rest[1]) if len(words.rest) > 1 else 15
    if "all" in words.flags:
        state.read()
        state.kill_all(number)
        return
    pid = state.pid()
    if not pid:
        raise StateError("container not running")
    os.kill(pid, number)


def _delete(words: CommandLine) -> None:
    state = _state(words)
    try:
        known = state.read()
    except StateError:
        if "force" in words.flags:
            return
        raise
    if state.pid() and "force" not in words.flags:
        raise StateError(f"cannot delete container {words.container()} that is not stopped: running")
    state.kill_and_wait()
    _cgroup(words, str(known.get("cgroup", ""))).remove()
    state.remove()


def _update(words: CommandLine) -> None:
    known = _state(words).read()
    source = words.flag("resources")
    resources = json.load(sys.stdin) if source == "-" else _document(source)
    _cgroup(words, str(known.get("cgroup", ""))).limit(resources)


def _show(words: CommandLine) -> None:
    state = _state(words)
    known, pid = state.read(), state.pid()
    status = {"ociVersion": _VERSION, "id": words.container(), "status": "running" if pid else "stopped", "pid": pid}
    print(json.dumps({**status, "bundle": known.get("bundle", ""), "rootfs": known.get("rootfs", "")}))  # noqa: T201


def _features(_words: CommandLine) -> None:
    print(json.dumps({"ociVersionMax": _VERSION, "not_isolated": not_isolated(syscalls.may_isolate())}))  # noqa: T201


_VERBS = {
    "run": _run,
    "exec": _exec,
    "kill": _kill,
    "delete": _delete,
    "update": _update,
    "state": _show,
    "features": _features,
}


def _state(words: CommandLine) -> PlainState:
    return PlainState(words.flags.get("root", _ROOT), words.container())


def _cgroup(words: CommandLine, path: str) -> Cgroup:
    return Cgroup(words.flags.get("cgroup-root", _CGROUPS), path)


def _document(path: str) -> dict[str, object]:
    with open(path) as file:  # noqa: PTH123
        value = json.load(file)
    if not isinstance(value, dict):
        raise TypeError(f"{path} is not an object")
    return value


def _table(config: dict[str, object], key: str) -> dict[str, object]:
    value = config.get(key) or {}
    if not isinstance(value, dict):
        raise TypeError(f"{key} is not an object")
    return value


def _write_pid(words: CommandLine, pid: int) -> None:
    path = words.flags.get("pid-file")
    if path:
        replace_file(path, str(pid))


def _fail(log: str, message: str) -> None:
    if log:
        entry = {"level": "error", "msg": message, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        try:
            with open(log, "a") as file:  # noqa: PTH123
                file.write(json.dumps(entry) + "\n")
        except OSError:
            pass
    sys.stderr.write(message + "\n")
    sys.exit(1)
