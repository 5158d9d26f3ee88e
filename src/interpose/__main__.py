"""Where programs begin: `python -m interpose`, and the commands that are installed.

Loading a program takes a moment, and so does its end. Ctrl-C in it ends the process as the system does it: nothing is
there to clean up, and nobody wants to read where the loading was. That is arranged before anything else is loaded:
`_signal` is a part of the interpreter, while `signal` needs half a dozen modules.
"""

import _signal as signal  # type: ignore[import-not-found]  # mypy knows the other one

# What libraries import at their top and hardly ever call: 0.5 MB in every daemon. pathlib imports urllib.parse, which
# looks at addresses in brackets with the second; linecache, of inspect and logging, reads sources with the third.
_HARDLY_CALLED = ("calendar", "ipaddress", "tokenize")


def _run(module: str) -> None:
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, and stays so
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from importlib import import_module

    from interpose.cli.common.deferred_module import defer

    for name in _HARDLY_CALLED:
        defer(name)
    program = import_module(module)
    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        program.main()
    except KeyboardInterrupt:  # programs see to it themselves, but not in their first and last steps
        raise SystemExit(130) from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Entry point of the command `interpose`."""
    _run("interpose.cli.main")


def koord_runtime_proxy() -> None:
    """Entry point of the command `koord-runtime-proxy`."""
    _run("interpose.cli.compat.koord_runtime_proxy")


def cri_resmgr() -> None:
    """Entry point of the command `cri-resmgr`."""
    _run("interpose.cli.compat.cri_resmgr")


def cri_resmgr_agent() -> None:
    """Entry point of the command `cri-resmgr-agent`."""
    _run("interpose.cli.compat.cri_resmgr_agent")


def cri_resmgr_agent_probe() -> None:
    """Entry point of the command `cri-resmgr-agent-probe`."""
    _run("interpose.cli.compat.cri_resmgr_agent_probe")


def cri_resmgr_webhook() -> None:
    """Entry point of the command `cri-resmgr-webhook`."""
    _run("interpose.cli.compat.cri_resmgr_webhook")


if __name__ == "__main__":
    main()
