"""`cri-resmgr-agent-probe`: asks an agent how it is, for probes of a kubelet. 0: well; 1: not, and why on stderr."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from interpose.cli.common.stdio import standard_streams
from interpose.cli.compat.cri_resmgr_agent import SOCKET
from interpose.cli.compat.cri_resmgr_common import PRINTED, answer_line
from interpose.cli.compat.cri_resmgr_flags import ResmgrFlag, read_line
from interpose.errors import ConfigError

PROGRAM: Final = "cri-resmgr-agent-probe"
FLAGS: Final[Mapping[str, ResmgrFlag]] = MappingProxyType(
    {
        "agent-socket": ResmgrFlag("socket of the agent", SOCKET),
        "query": ResmgrFlag("what to ask about: config-status, or nothing: whether it is there"),
        **PRINTED,
    }
)
ABOUT: Final = """\
Asks an agent how it is. Ends with 0 if all is well, else with 1 and the reason. This is `interpose agent probe` with
other flags."""


def run_command(arguments: Sequence[str]) -> int:
    """The whole program but for the process exit."""
    line = read_line(arguments, flags=FLAGS)
    code = answer_line(PROGRAM, ABOUT, FLAGS, line)
    if code is not None:
        return code
    from interpose.cli.agent.probe import report_probe
    from interpose.cli.main import report

    values = {name: flag.value if (flag := line.last(name)) is not None else FLAGS[name].default for name in FLAGS}
    try:
        return report_probe(values["agent-socket"], values["query"])
    except ConfigError as error:
        return report(error)


def main() -> None:
    """Entry point of the `cri-resmgr-agent-probe` program."""
    with standard_streams():
        sys.exit(run_command(sys.argv[1:]))
