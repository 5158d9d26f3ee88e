"""Where programs begin: `python -m interpose`, and the commands that are installed.

Loading a program takes a moment. Ctrl-C in it ends the process as the system does it: nothing is there to clean up, and
nobody wants to read where the loading was.
"""

import signal
from importlib import import_module


def _run(module: str) -> None:
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, and stays so
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = import_module(module)
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    program.main()


def main() -> None:
    """`interpose`."""
    _run("interpose.cli.main")


def koord_runtime_proxy() -> None:
    """`koord-runtime-proxy`."""
    _run("interpose.cli.compat.koord_runtime_proxy")


def cri_resmgr() -> None:
    """`cri-resmgr`."""
    _run("interpose.cli.compat.cri_resmgr")


def cri_resmgr_agent() -> None:
    """`cri-resmgr-agent`."""
    _run("interpose.cli.compat.cri_resmgr_agent")


def cri_resmgr_agent_probe() -> None:
    """`cri-resmgr-agent-probe`."""
    _run("interpose.cli.compat.cri_resmgr_agent_probe")


def cri_resmgr_webhook() -> None:
    """`cri-resmgr-webhook`."""
    _run("interpose.cli.compat.cri_resmgr_webhook")


if __name__ == "__main__":
    main()
