"""A policy as a relay would make it of the same flags and document, for commands that run one without a node."""

from typing import Final

import click

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.policy import PolicyDocument
from interpose.config.documents.policy_objects import read_policy_file
from interpose.config.documents.yaml import MAX_FILE_BYTES, parse_document, read_text
from interpose.config.relay.settings import PolicySettings
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy
from interpose.core.policy.balloons.options import BalloonsOptions
from interpose.core.policy.constraints import ExcludedCpus, make_setup
from interpose.core.policy.external import ExternalOptions
from interpose.core.policy.names import NAMES
from interpose.core.policy.registry import make
from interpose.core.policy.static_pools.options import PoolsOptions
from interpose.core.topology.topology import Topology
from interpose.host.cpusets import resolve
from interpose.resmgr.config.merge import combine

# Settings that are given by flags; an empty one says nothing.
_GIVEN: Final = {
    "policy.reserved": "flag --reserved-resources",
    "policy.available": "flag --available-resources",
    "policy.pools_file": "flag --static-pools-conf-file",
    "policy.pools_dir": "flag --static-pools-conf-dir",
}


def make_policy(
    machine: Topology,
    policy: str | None,
    *,
    reserved: str = "",
    available: str = "",
    policy_config: str | None = None,
    pools_file: str = "",
    pools_dir: str = "",
) -> Policy:
    """The policy of that name or alias, by default the one of the document. ConfigError with all problems."""
    settings = PolicySettings(
        name=NAMES[policy] if policy else "none",
        reserved=reserved,
        available=available,
        pools_file=pools_file,
        pools_dir=pools_dir,
    )
    origins = {**_GIVEN, **({"policy.name": "flag --policy"} if policy else {})}
    draft = combine(settings, origins, _document(policy_config), f"file {policy_config}")
    for note in draft.notes:
        click.echo(f"warning: {note}", err=True)
    options = draft.options
    if isinstance(options, PoolsOptions):
        from interpose.resmgr.config.pool_files import load_pools  # only one policy has pools in files

        options = load_pools(options)
    if isinstance(options, ExternalOptions):
        from interpose.resmgr.config.external_policy import load_policy  # only one policy is in another package

        options = load_policy(options)
    if isinstance(options, BalloonsOptions):
        from interpose.resmgr.config.device_files import load_devices  # only one policy is about devices of sysfs

        options = load_devices(options)
    usable = _cpus(draft.available, "available CPUs")
    setup = make_setup(
        machine,
        None if isinstance(usable, int) else usable,  # never an amount: `combine` refuses it
        _cpus(draft.reserved, "reserved CPUs"),
    )
    return make(draft.policy, setup, options)


def _document(path: str | None) -> PolicyDocument:
    if path is None:
        return PolicyDocument()
    where = f"file {path}"
    document = read_policy_file(parse_document(read_text(path, MAX_FILE_BYTES), where), where)
    for warning in document.warnings:
        click.echo(f"warning: {warning}", err=True)
    return document


def _cpus(amount: CpuAmount | None, where: str) -> CpuSet | ExcludedCpus | int | None:
    return None if amount is None else resolve(amount, where)
