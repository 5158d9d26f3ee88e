"""Policies that look back at a recording. It is read once, whatever their number."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from interpose.cli.dump.replay_policy import Reader
from interpose.cli.policy.make import chosen_policy
from interpose.cli.policy.topology import machine_of
from interpose.cli.render.machine import summary
from interpose.cli.render.occupancy import occupancy_text
from interpose.cli.render.text import WIDTH
from interpose.cli.render.whatif import hindsight_text
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.names import NAMES
from interpose.dump.recording.reader import open_recording
from interpose.resmgr.whatif.replay import Hindsight
from interpose.resmgr.whatif.report import outcome_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which policies on which machine; `details` are those of `policy_flags`."""

    policies: tuple[str, ...]
    topology: str | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What they would have decided."""

    document: Mapping[str, Any]
    online: CpuSet

    @property
    def refused(self) -> bool:
        """Whether one of them has refused anything."""
        summaries = [one["summary"] for one in self.document["policies"]]
        return any(one["refused"] or one["resizes_refused"] for one in summaries)

    def json(self) -> str:
        """For scripts."""
        return json.dumps(self.document, indent=2)

    def text(self, *, verbose: bool, width: int | None) -> str:
        """For people."""
        return hindsight_text(self.document, verbose=verbose, width=width or WIDTH)

    def pictures(self, *, width: int | None, ascii_only: bool) -> str:
        """Who had which CPUs alone, along time; one picture for each policy."""
        drawn = []
        for one in self.document["policies"]:
            span = one["summary"]["began_ns"], one["summary"]["ended_ns"]
            title = f"Policy {one['policy']}: who had which CPUs alone, times in UTC"
            picture = occupancy_text(one["stays"], self.online, *span, width=width or WIDTH, ascii_only=ascii_only)
            drawn.append(f"{title}\n{picture}")
        return "\n\n".join(drawn)


def decide_anew(paths: Sequence[str], wanted: Wanted, *, alone: bool = False) -> Decided:
    """Let policies decide about the calls of recordings. ConfigError as for the relay."""
    machine = machine_of(wanted.topology)
    memory = sum(node.memory_bytes for node in machine.nodes)
    names: list[str | None] = list(dict.fromkeys(NAMES[name] for name in wanted.policies)) or [None]
    policies = [chosen_policy(machine, name, **wanted.details) for name in names]
    hindsights = [Hindsight(policy, capacity=memory) for policy in policies]
    reader = Reader()
    with open_recording(paths, alone=alone) as recording:
        for happening in reader.happenings(recording.frames()):
            for hindsight in hindsights:
                hindsight.feed(happening)
        for damage in recording.damage:
            click.echo(f"warning: {damage}", err=True)
    document = {
        "recording": ", ".join(paths),
        "machine": f"{machine.name}: {summary(machine)}" if machine.name else summary(machine),
        "notes": [*reader.notes(), *(f"policy {one.name}: {note}" for one in policies for note in one.notes)],
        "policies": [outcome_document(one.policy.name, one.outcome()) for one in hindsights],
    }
    return Decided(document=document, online=machine.online)
