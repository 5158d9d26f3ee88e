"""docs/support.md from docs/support.json: which runtimes the end-to-end stories ran on, and what came of them.

The results are written by `tools/e2e_matrix.py`; `support_page.py --check` says whether the page is theirs.
"""

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outputs import settle, wants_check

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "docs/support.json"
PAGE = "docs/support.md"
NOTICE = (
    "<!-- Generated from support.json by tools/support_page.py; `make e2e-matrix` runs the stories and writes both. -->"
)

# Which files of tests/e2e tell it.
STORIES: Mapping[str, tuple[str, ...]] = {
    "relay": (
        "test_containerd",
        "test_container_events",
        "test_streaming_containerd",
        "test_faults",
        "test_store",
    ),
    "hooks": ("test_hooks", "test_hook_plugins"),
    "hook server": ("test_hookserver", "test_hookserver_kills", "test_hookserver_standalone"),
    "policies": (
        "test_policy",
        "test_policy_config",
        "test_policy_pools",
        "test_policy_quota",
        "test_policy_restarts",
        "test_policy_starts",
        "test_cri_resmgr",
    ),
    "dump": ("test_dump_recording", "test_dump_text", "test_dump_faults", "test_dump_replay"),
    "pods": ("test_pod_chain", "test_pod_parity"),
    "agent and webhook": ("test_agent", "test_agent_nodeslo", "test_agent_restarts", "test_webhook"),
}

INTRO = """\
What was run with real runtimes, and with which versions. Every test of a story starts the runtime with a configuration
as nodes of its version have it, runs pods through the relay, and looks at what the kernel says of their containers.
Machine: {machine}."""

STORIES_INTRO = """\
| Story | What it is about |
| --- | --- |
| relay | calls, streams, events, faults and upgrades of the relay; answers are those of the runtime, byte by byte |
| hooks | hook servers of others: what they are told, what their answers change, failure policies |
| hook server | `interpose hookserver` behind hook calls and standalone: BE and LS values, restoring, kills |
| policies | exclusive CPUs, pools, resizes, restarts of relay and runtime, configuration while pods run |
| dump | recordings, texts, replay, and what is left of them after faults |
| pods | `interpose pod` on the runtime: the whole chain, and the same pods as on our own runtime |
| agent and webhook | a cluster's configuration and annotations down to the CPUs of a container |"""

KNOW = """\
## What to know of the versions

- **containerd 1.6** has no `GetContainerEvents`; kubelets and `interpose pod` ask for lists.
- **containerd 1.7** gives each event to one subscriber only. A kubelet with evented PLEG is to be the only one there:
  the relay never subscribes itself, but `interpose pod` does.
- **containerd 2** has no `runtime.v1alpha2`; kubelets before 1.23 need containerd 1. A new subscriber of events first
  hears what happened in the minutes before.
- **crun** refuses to work where cgroup v2 has controllers beside those of v1; the tests do not let it see v2 there.
  Below containerd, processes of an exec have the OOM score of the shim, not of the container.
- **CRI-O** is in no suite that the tests can use, so it is not part of this table.

## Run it

As root, on a machine with apt; versions that are not the machine's are unpacked below `build`, never installed:

```
make e2e-matrix
make e2e-matrix ARGS='--only containerd-2 -k policy'
```

With options for pytest nothing is written down. Every `make test` runs one story on each version: pods of
`interpose pod` through a relay with a hook server, a policy and a recording, and the events of containers."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of the tests of a story on one runtime; those that did not run are counted by reason."""

    passed: int
    failed: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    seconds: int = 0

    def cell(self) -> str:
        """In the table."""
        words = [f"**{self.failed} failed**"] if self.failed else []
        words += [f"{self.passed} passed"] if self.passed else []
        words += [f"{skipped} skipped"] if (skipped := sum(self.skipped.values())) else []
        return ", ".join(words)


@dataclass(frozen=True, kw_only=True)
class RuntimeResult:
    """One runtime with the outcome of each story."""

    name: str
    versions: str
    stories: Mapping[str, Outcome]

    def skipped(self) -> Counter[str]:
        """Tests that did not run, by reason."""
        return sum((Counter(one.skipped) for one in self.stories.values()), Counter())


@dataclass(frozen=True, kw_only=True)
class Results:
    """The last run of each runtime."""

    machine: str
    runtimes: Sequence[RuntimeResult]

    def text(self) -> str:
        """As a file."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


def read_results(file: Path) -> Results:
    """What `Results.text` wrote; nothing if it never did."""
    document: Any = json.loads(file.read_text()) if file.exists() else {"machine": "", "runtimes": []}
    runtimes = [
        RuntimeResult(
            name=one["name"],
            versions=one["versions"],
            stories={name: Outcome(**outcome) for name, outcome in one["stories"].items()},
        )
        for one in document["runtimes"]
    ]
    return Results(machine=document["machine"], runtimes=runtimes)


def support_page(results: Results) -> str:
    """The whole page."""
    lines = [["Story", *(one.versions for one in results.runtimes)], ["---"] * (len(results.runtimes) + 1)]
    for story in STORIES:
        cells = [one.stories[story].cell() if story in one.stories else "not run" for one in results.runtimes]
        lines.append([story, *cells])
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    skips = [
        f"- {one.versions}: {reason} ({count})"
        for one in results.runtimes
        for reason, count in sorted(one.skipped().items())
    ]
    parts = [NOTICE, "# Supported runtimes", INTRO.format(machine=results.machine), table, STORIES_INTRO]
    if skips:
        parts += ["## What was skipped", "\n".join(skips)]
    return "\n\n".join([*parts, KNOW]) + "\n"


def main() -> int:
    """Write or check the page."""
    check = wants_check("Write docs/support.md from docs/support.json.")
    page = support_page(read_results(ROOT / RESULTS))
    return settle({PAGE: page}, check=check, remedy="python tools/support_page.py")


if __name__ == "__main__":
    sys.exit(main())
