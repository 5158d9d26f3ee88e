"""Why a container has the CPUs it has, as a short report: asked for, choices, got, written, and what is there now.

The answer comes from a relay that may be of another version: a key that is missing is a dash, never an error.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from interpose.cli.render.assignments import candidates_lines, state_text
from interpose.cli.render.text import WIDTH, amount, cpu_amount, flat, group, groups, or_dash, table, words, wrapped
from interpose.core.model.cgroup import Parameter
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.humanize import format_size
from interpose.core.policy.decision import NO_QUOTA
from interpose.host.cgroup.parameters import same_by_runtime

_LABEL: Final = 14
_INDENT: Final = " " * _LABEL
_HISTORY: Final = 5  # older decisions that are shown

_SOURCES: Final[Mapping[str, str]] = {
    "annotation": "as the pod's annotation says",
    "estimate": "estimated from CPU shares, quota and OOM score",
    "resize": "as it was last resized",
    "manifest": "as its manifest says",
}
# Of a topology hint.
_PLACES: Final[Mapping[str, str]] = {"nodes": "NUMA node", "packages": "package", "cpus": "CPUs"}


class _Value(NamedTuple):
    """A value that is written: its title, its key in what is wanted and written, and the cgroup's name for it."""

    title: str
    key: str
    file: str


_VALUES: Final = (
    _Value("CPUs", "cpus", "cpuset.cpus"),
    _Value("memory nodes", "mems", "cpuset.mems"),
    _Value("CPU shares", "shares", "cpu.shares"),
    _Value("CFS quota", "quota", "cpu.cfs_quota_us"),
)
_POD_QUOTA: Final = _Value("CFS quota of pod", "pod_quota", "pod")
_UNLIMITED: Final = "unlimited"


def explain_text(answer: object, width: int = WIDTH) -> str:
    """The report on the CPUs of one container."""
    about = group(answer)
    decision = group(about.get("decision"))
    lines = [f"{or_dash(about.get('container'))}  ({', '.join(_identity(about))})", ""]
    if refused := group(about.get("refused")):
        lines += _labelled("Refused", _refused(refused), width)
    request = group(decision.get("request"))
    lines += _labelled("Asked for", _requested(request), width)
    for hint in groups(request.get("hints")):
        lines += _labelled("Near", _near(hint), width, "/")
    candidates = groups(decision.get("candidates"))
    if candidates:
        lines += ["Choices", *candidates_lines(candidates, "  ", width)]
    if not refused:
        lines += _labelled("Got", _granted(decision), width)
    refusal = group(decision.get("refusal"))
    lines += _labelled("Why", or_dash(refusal.get("message") or decision.get("reason")), width)
    changed = words(decision.get("changed"))
    if changed:
        lines += _labelled("Others", f"changed for {amount(len(changed), 'container')}: {', '.join(changed)}", width)
    if memory := group(about.get("memory")):
        nodes = f"nodes {memory['nodes']}" if memory.get("nodes") else "more nodes"
        text = f"may use {nodes} since {or_dash(memory.get('at'))}: {or_dash(memory.get('why'))}"
        lines += _labelled("Memory", text, width)
    if not refused:
        lines += ["", *_values(about, width), "", *_writer(about, width), *_history(about, width)]
    return "\n".join(lines)


def _refused(about: Mapping[str, Any]) -> str:
    times = about.get("times")
    often = f", the last of {times} times" if isinstance(times, int) and times > 1 else ""
    return f"at {or_dash(about.get('at'))}{often}; it does not run"


def _identity(about: Mapping[str, Any]) -> Iterator[str]:
    if about.get("id") or not about.get("refused"):
        yield f"id {or_dash(about.get('id'))[:13]}"
    if about.get("state"):
        yield state_text(about)


def _labelled(label: str, text: str, width: int, mark: str = " ") -> list[str]:
    first, *rest = wrapped(text, width - _LABEL, mark)
    return [f"{label:<{_LABEL}}{first}", *(_INDENT + line for line in rest)]


def _requested(request: Mapping[str, Any]) -> str:
    if not request:
        return "-"
    parts = [or_dash(request.get("qos")), *_amounts(request)]
    parts += [f"{or_dash(name)} {or_dash(count)}" for name, count in group(request.get("extended")).items()]
    pod = group(request.get("pod"))
    as_a_whole = [f"its pod as a whole {', '.join(_amounts(pod))}"] if pod else []
    source = str(request.get("source"))
    return "; ".join([", ".join(parts), *as_a_whole, _SOURCES.get(source, or_dash(source))])


def _amounts(request: Mapping[str, Any]) -> Iterator[str]:
    limit = request.get("cpu_limit_milli")
    yield f"CPU {cpu_amount(request.get('cpu_milli'))}" + (f" (limit {cpu_amount(limit)})" if limit else "")
    memory, most = request.get("memory"), request.get("memory_limit")
    if isinstance(memory, int) or isinstance(most, int):
        text = format_size(memory) if isinstance(memory, int) else "not known"
        yield f"memory {text}" + (f" (limit {format_size(most)})" if isinstance(most, int) else "")


def _near(hint: Mapping[str, Any]) -> str:
    places = [f"{title} {hint[key]}" for key, title in _PLACES.items() if hint.get(key)]
    return f"{', '.join(places)}: {or_dash(hint.get('provider'))}"


def _granted(decision: Mapping[str, Any]) -> str:
    grant = group(decision.get("grant"))
    if decision.get("refusal"):
        return f"nothing: refused ({or_dash(group(decision['refusal']).get('why'))})"
    if not grant:
        return "nothing"
    if grant.get("pinned") is False:
        parts = ["no CPUs are assigned"]
    else:
        own, pools = grant.get("exclusive"), words(grant.get("pools"))
        parts = [f"{'CPU' if str(own).isdecimal() else 'CPUs'} {or_dash(own)} of its own"] if own else []
        parts += [f"shares {'pool' if len(pools) == 1 else 'pools'} {' and '.join(pools)}"] if pools else []
    parts += [f"memory nodes {or_dash(grant['mems'])}"] if grant.get("mems") is not None else []
    parts += [f"CPU shares {or_dash(grant['shares'])}"] if grant.get("shares") is not None else []
    parts += ["no CFS quota"] if grant.get("quota") == NO_QUOTA else []
    known = (*words(grant.get("pools")), group(decision.get("assignment")).get("cpus"))  # is told already
    details = group(grant.get("details"))
    parts += [f"{or_dash(name)} {or_dash(value)}" for name, value in details.items() if value not in known]
    return "; ".join(parts)


def _values(about: Mapping[str, Any], width: int) -> list[str]:
    """What should be, what was written, what is: side by side, differences marked."""
    wanted, written, found = (group(about.get(key)) for key in ("wanted", "written", "cgroup"))
    rows = [["VALUE", "WANTED", "WRITTEN", "IN THE CGROUP", ""]]
    pod = group(about.get("pod_quota"))
    for value in (*_VALUES, *((_POD_QUOTA,) if pod else ())):
        is_there = found.get(value.file)
        want, sent = (about_value.get(value.key) for about_value in (wanted, written))
        if value is _POD_QUOTA:
            want, sent = pod.get("wanted"), pod.get("written")
        elif value.key == "quota" and (want, sent, is_there) == (None, None, None):
            continue  # a relay of an older version
        cells = [value.title, *(or_dash(_shown(value, cell)) for cell in (want, sent, is_there))]
        rows.append([*cells, "" if _same(value, want, is_there) else "<- differs"])
    lines = flat(table(rows, width=width, lists=(1, 2, 3)))
    if found.get("path"):
        lines += _labelled("cgroup", or_dash(found["path"]), width, "/")
    if found.get("error"):
        lines += _labelled("cgroup", f"cannot be read: {or_dash(found['error'])}", width)
    return lines


def _same(value: _Value, want: object, is_there: object) -> bool:
    """Whether the cgroup has what is wanted; nothing wanted or nothing known is no difference."""
    if want is None or is_there is None:
        return True
    try:
        if value.key == "shares":
            # The kernel keeps a weight on cgroup v2, which many numbers of shares have in common.
            return same_by_runtime(Parameter.CPU_SHARES, int(str(is_there)), int(str(want)), 2)
        if value.file in (_POD_QUOTA.file, Parameter.CPU_QUOTA):
            return _shown(value, want) == _shown(value, is_there)
        return CpuSet.parse(str(want)) == CpuSet.parse(str(is_there))
    except ValueError:
        return False


def _shown(value: _Value, cell: object) -> object:
    """A value as people read it."""
    if value.file not in (_POD_QUOTA.file, Parameter.CPU_QUOTA) or cell is None:
        return cell
    return _UNLIMITED if cell == NO_QUOTA else str(cell)


def _writer(about: Mapping[str, Any], width: int) -> list[str]:
    writer = group(about.get("writer"))
    if not writer:
        return []
    text = or_dash(writer.get("state"))
    if writer.get("error"):
        text += f" after {or_dash(writer.get('attempts'))} attempts: {or_dash(writer['error'])}"
    lines = _labelled("Writing", text, width)
    if error := group(about.get("pod_quota")).get("error"):
        lines += _labelled("Pod", f"its CFS quota cannot be changed: {or_dash(error)}", width)
    return lines


def _history(about: Mapping[str, Any], width: int) -> list[str]:
    """Decisions before the last one, newest first."""
    older = groups(about.get("history"))[:-1]
    shown = [*reversed(older)][:_HISTORY]
    lines = []
    for index, record in enumerate(shown):
        reason = group(record.get("refusal")).get("message") or record.get("reason")
        cpus = or_dash(group(record.get("assignment")).get("cpus"))
        when = f"{or_dash(record['at'])} " if record.get("at") else ""
        text = f"{when}{or_dash(record.get('action'))}, CPUs {cpus}: {or_dash(reason)}"
        lines += _labelled("" if index else "Before", text, width)
    return [*lines, *([_INDENT + f"and {len(older) - len(shown)} more"] if len(older) > len(shown) else [])]
