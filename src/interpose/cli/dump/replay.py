"""`interpose dump replay`: make the calls of a recording again, answer them, or let a policy decide anew."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click
from click.core import ParameterSource

from interpose.cli.dump.replay_policy import POLICY_VALUES, policy_options, policy_wanted, replay_policy
from interpose.config.endpoint import parse_endpoint

_TO: Final = "--to"
_SERVE: Final = "--serve"
_POLICY: Final = "--policy"
# Which options mean something with which way to replay; those of a policy are its own.
_BELONGS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "pull",
                "execs",
                "reads",
                "as_sent",
                "unknown_ids",
                "rename",
                "drop_mounts",
                "logs",
                "cleanup",
                "dry_run",
                "settle",
                "timeout",
                "api",
            ),
            (_TO,),
        ),
        "match": (_SERVE,),
        "speed": (_TO, _SERVE),
        "verbose": (_TO, _POLICY),
        "output": (_TO, _POLICY),
        **dict.fromkeys(POLICY_VALUES, (_POLICY,)),
    }
)


class Speed(click.ParamType[float]):
    """`max`, or how many times as fast as recorded; 0 inside is `max`."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The speed as a number above 0."""
        if isinstance(value, float):
            return value
        if value == "max":
            return 0.0
        try:
            speed = float(str(value).removesuffix("x"))
        except ValueError:
            speed = 0.0
        if not 0.0 < speed < float("inf"):
            self.fail(f"{value!r} is neither max nor a number above 0, such as 1 or 10", param, ctx)
        return speed


_EPILOG: Final = """\b
Examples:
  interpose dump replay node.crirec --to /run/containerd/containerd.sock --dry-run
  interpose dump replay node.crirec --to /run/containerd/containerd.sock --cleanup --drop-mounts
  interpose dump replay node.crirec pod=web --to /run/crio/crio.sock --speed 1
  interpose dump replay node.crirec --serve /tmp/runtime.sock
  interpose dump replay node.crirec --policy static --topology "2 sockets x 8 cores" \\
      --reserved-resources cpu=1
"""


@click.command("replay", epilog=_EPILOG)
@click.argument("arguments", metavar="FILE... [FILTER]...", nargs=-1)
@click.option("--to", "to", metavar="SOCKET", help="Make the calls again at the runtime that listens there.")
@click.option("--serve", "serve", metavar="SOCKET", help="Be a runtime that answers from the recording, there.")
@click.option(
    "--speed",
    type=Speed(),
    metavar="max|N",
    default="max",
    show_default=True,
    help="1: with the pauses of the recording; 10: ten times as fast; max: without pauses.",
)
@click.option("-o", "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--alone", is_flag=True, help="Only the files that are named, not the older ones of a rotated recording.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="With --to: show also what went as recorded, and each call that is skipped. With --policy: why each decision "
    "was made; of several policies, each decision.",
)
@click.option("--dry-run", is_flag=True, help="With --to: show which calls would be made, and make none.")
@click.option("--cleanup", is_flag=True, help="With --to: remove what was made at the end, also after Ctrl-C.")
@click.option("--pull", is_flag=True, help="With --to: pull images, too.")
@click.option("--exec", "execs", is_flag=True, help="With --to: run the commands of ExecSync, too.")
@click.option("--reads", is_flag=True, help="With --to: make also calls that change nothing.")
@click.option(
    "--as-sent",
    is_flag=True,
    help="With --to: send what the runtime got, after hooks and policies, and the relay's own calls.",
)
@click.option(
    "--unknown-ids",
    type=click.Choice(["skip", "pass"]),
    default="skip",
    show_default=True,
    help="With --to: what to do with calls about pods and containers that the recording did not make.",
)
@click.option(
    "--rename",
    metavar="auto|none|SUFFIX",
    default="auto",
    show_default=True,
    help="With --to: what to put behind the uid of each pod. auto: something only if the runtime has such a pod.",
)
@click.option("--drop-mounts", is_flag=True, help="With --to: leave out mounts of files that do not exist here.")
@click.option("--logs", metavar="DIR", default="", help="With --to: keep logs below DIR. [default: where they were]")
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    help="With --to: wait so long for containers to be as they were at the end.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=120.0,
    show_default=True,
    help="With --to: of each call.",
)
@click.option(
    "--api",
    type=click.Choice(["auto", "v1", "v1alpha2"]),
    default="auto",
    show_default=True,
    help="With --to: version of the CRI. auto: that of the recording if the runtime has it, else the other.",
)
@click.option(
    "--match",
    type=click.Choice(["best", "exact", "subject", "order"]),
    default="best",
    show_default=True,
    help="With --serve: how near a recorded request has to be.",
)
@policy_options
@click.pass_context
def replay(ctx: click.Context, /, arguments: Sequence[str], to: str | None, serve: str | None, **values: Any) -> int:
    """Replay a recording, or those of its calls that a filter chooses.

    --to makes the calls again that change pods and containers, in the order and with the overlap of the recording, and
    compares what comes of them. Ids are replaced by those that the runtime gives this time. Ends with 1 if a status, or
    the state of a container at the end, is not as recorded. Where a kubelet looks after the runtime, it will remove
    pods that it does not know.

    --serve is a runtime without containers: each request gets the recorded answer that fits it best. Ctrl-C ends it.

    --policy shows what a policy would have decided.
    """
    mode = _mode(ctx, to, serve, values)
    from interpose.cli.dump.filter_options import split_arguments
    from interpose.cli.dump.output import quiet_end

    files, words = split_arguments(arguments)
    code: list[int] = []
    with quiet_end(code):
        code.append(_replay(mode, files, words, _socket(mode, to or serve or ""), values))
    return code[0] if code else 0


def _socket(mode: str, text: str) -> str:
    """The path, which may be relative here; ConfigError if it can be none."""
    if mode == _POLICY:
        return ""
    return parse_endpoint(text if not text or ":" in text else str(Path(text).absolute()), mode)


def _replay(mode: str, files: Sequence[str], words: Sequence[str], socket: str, values: Mapping[str, Any]) -> int:
    if mode == _POLICY:
        chosen = {name: values[name] for name in POLICY_VALUES}
        return replay_policy(
            files,
            filters=" ".join(words),
            output=values["output"],
            verbose=values["verbose"],
            alone=values["alone"],
            **chosen,
        )
    from interpose.cli.dump.replay_recording import ReplayRecording

    recorded = ReplayRecording(files, words, alone=values["alone"])
    if mode == _SERVE:
        from interpose.cli.dump.replay_serve import replay_serve

        return replay_serve(recorded, socket, match=values["match"], speed=values["speed"])
    from interpose.cli.dump.replay_to import ReplayOptions, replay_to

    return replay_to(
        recorded,
        ReplayOptions(socket=socket, **{name: values[name] for name in ReplayOptions.__slots__ if name in values}),
    )


def _mode(ctx: click.Context, to: str | None, serve: str | None, values: Mapping[str, Any]) -> str:
    """Which of the three ways; usage errors say what does not go together."""
    given = [
        name
        for name, there in ((_TO, to), (_SERVE, serve), (_POLICY, policy_wanted(values)))
        if there not in (None, False)
    ]
    if len(given) != 1:
        what = f"{' and '.join(given)} were given" if given else "none was"
        raise click.UsageError(f"give one of {_TO}, {_SERVE} and {_POLICY}: {what}", ctx)
    mode = given[0]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        said = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if said and mode not in _BELONGS.get(name, (mode,)):
            raise click.UsageError(
                f"{parameter.opts[-1]} means nothing with {mode}: it is for {' and '.join(_BELONGS[name])}", ctx
            )
    return mode
