"""The page about what our runtime does of the CRI, from the table of points that the tests try."""

from collections.abc import Iterable, Mapping

from conformance.checks.differences import CONTAINERD, PLAIN
from conformance.points import Group, Kind, Point, Verdict, point_id
from conformance.table import GROUPS

INTRO = """\
What `interpose runtime` (with runc) does of the container runtime interface, point by point. Every point is tried by
a test over gRPC, with an independent client, and every verdict on this page is held by such a test: one that changes
fails it. The same points are tried over v1alpha2, with the plain executor, and on containerd 1.6, which shows that they
ask for what runtimes do and not for what ours happens to do; of those, every test run takes a part, a thorough one all.
Where systemd runs, the points about cgroups are tried with runc and crun and the driver `systemd`, too.

The points are our own reading of the interface, in the groups of critest, the conformance tests of Kubernetes'
cri-tools, and some more about what kubelets and crictl rely on. **From** says how many specs of critest are about the
same. **Not tried** are points that need what the machines of our own test runs do not have.

critest 1.36 and crictl 1.36 were run against it in the field. With a registry on loopback that has one busybox under
every name, 85 of critest's 107 specs passed. Two of the others were the specs about metrics, which the group
[Metrics](#metrics) now holds; the rest need what is in the real images. Where `critest` is on the PATH, the tests run
those of its specs that need no more than a shell (`tests/e2e/test_critest.py`), and are skipped with that reason
elsewhere."""

REFUSED_INTRO = """\
Refused means: with this status and a text that says what is not there. Nothing is done by halves."""

UNTRIED_INTRO = """\
The tests skip these, with the reason, where the machine does not have what they need."""

KNOW = """\
## What to know besides

- A pod without CNI configuration is in the node's network and has the node's address. The points about networks are
  tried with a configuration (ptp, host-local, portmap).
- AppArmor: profiles are known by the names they were loaded with. There is no profile of our own: `RuntimeDefault`
  confines nothing.
- `masked_paths` and `readonly_paths` are taken as they are, as containerd does it. Kubelets send the usual ones;
  whoever else creates containers should, too.
- An answer of `ExecSync` has at most 16 MiB in all, so that every client takes it.
- An `oom_score_adj` lower than the runtime's own is raised to it where the runtime may not lower it."""

PLAIN_INTRO = """\
Without runc or crun the plain executor starts the processes. As root it does the same but for these points; without
root it isolates hardly anything, and says so when it starts."""

CONTAINERD_INTRO = """\
What containerd 1.6 does at the points where it comes to something else. *Refused* is the status of the call, *differs*
that it answers and does otherwise. A runtime that is older than a field passes it over."""

RUN = """\
## Run it

As root, on a machine with runc, the CNI plugins and a static busybox, in a checkout; with containerd to compare:

```
.venv/bin/pytest tests/e2e/test_cri_conformance.py
.venv/bin/pytest tests/e2e/test_cri_conformance.py -k streaming
INTERPOSE_THOROUGH=1 .venv/bin/pytest tests/e2e/test_cri_conformance.py
```

Against any other runtime that is nobody's node (pods appear and go there), once it has the images:

```
.venv/bin/python -m conformance --images images.tar
ctr -n k8s.io images import images.tar
.venv/bin/python -m conformance /run/containerd/containerd.sock streaming idempotence
```

Where systemd makes the cgroups of that runtime, add `--systemd`. Pods with a network of their own need a CNI
configuration there. critest runs against our socket as against any, with `-registry-prefix` where its images come from
a registry of your own:

```
critest -runtime-endpoint unix:///var/run/interpose/runtime.sock
.venv/bin/pytest tests/e2e/test_critest.py
```"""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def untried(point: Point) -> bool:
    """Whether our own test machines cannot try it."""
    return point.need is not None and not point.need.usual


def verdict_text(verdict: Verdict) -> str:
    """In a cell."""
    return f"refused, `{verdict.code}`" if verdict.kind is Kind.REFUSED else verdict.kind.value


def summary_row(group: Group) -> list[str]:
    """One group in numbers."""
    points = group.points
    refused = sum(point.ours.kind is Kind.REFUSED for point in points)
    skipped = sum(untried(point) for point in points)
    of_containerd = sum(point_id(group, point) in CONTAINERD for point in points)
    numbers = (len(points), len(points) - refused - skipped, refused, skipped, of_containerd)
    name = f"[{group.name}](#{group.name.lower().replace(' ', '-')})"
    return [name, group.about, *(str(one) if one else "–" for one in numbers)]


def point_text(point: Point) -> str:
    """One line of a group."""
    remarks = []
    if point.need is not None:
        remarks.append(f"needs {point.need.words}")
    if point.ours.kind is not Kind.PASSES:
        remarks.append(verdict_text(point.ours))
    return f"- {point.name}" + (f" *({'; '.join(remarks)})*" if remarks else "")


def differing_rows(differences: Mapping[str, Verdict]) -> list[list[str]]:
    """Points at which somebody comes to something else."""
    return [
        [group.name, point.name, verdict_text(verdict), verdict.why]
        for group in GROUPS
        for point in group.points
        if (verdict := differences.get(point_id(group, point))) is not None
    ]


def conformance_page(notice: str) -> str:
    """The whole page."""
    pairs = [(group, point) for group in GROUPS for point in group.points]
    refused = [
        [group.name, point.name, f"`{point.ours.code}`", point.ours.why]
        for group, point in pairs
        if point.ours.kind is Kind.REFUSED
    ]
    skipped = [[group.name, point.name, point.need.words] for group, point in pairs if point.need and untried(point)]
    passed = len(pairs) - len(refused) - len(skipped)
    count = f"{len(pairs)} points: {passed} pass, {len(refused)} are refused, {len(skipped)} are not tried."
    header = ["Group", "From", "Points", "Pass", "Refused", "Not tried", "containerd 1.6 differs"]
    parts = [notice, "# CRI conformance", INTRO, count, table(header, map(summary_row, GROUPS))]
    parts += ["## What is refused", REFUSED_INTRO, table(["Group", "Point", "Status", "Why"], refused)]
    parts += ["## What is not tried", UNTRIED_INTRO, table(["Group", "Point", "Needs"], skipped), KNOW]
    parts += ["## Without runc", PLAIN_INTRO]
    parts += [table(["Group", "Point", "Plain executor", "Why"], differing_rows(PLAIN))]
    parts += ["## Where containerd 1.6 differs", CONTAINERD_INTRO]
    parts += [table(["Group", "Point", "containerd 1.6", "What it does"], differing_rows(CONTAINERD))]
    parts += [RUN, "## All points"]
    for group in GROUPS:
        parts += [f"### {group.name}", group.absent or "\n".join(map(point_text, group.points))]
    return "\n\n".join(parts) + "\n"
