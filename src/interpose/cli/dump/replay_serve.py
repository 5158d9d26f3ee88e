"""`interpose dump replay --serve`: a runtime that answers from a recording."""

import asyncio
import signal
from typing import Final

import click
import uvloop

from interpose.cli.common.terminal import format_value
from interpose.cli.dump.replay_recording import ReplayRecording
from interpose.cli.render.text import amount
from interpose.dump.replay.answers import Answers, Match, method_counts
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.server import ReplayServer
from interpose.host.unix_sockets import BoundSocket, bind_unix
from interpose.log import setup
from interpose.net.grpc.server import LocalServer

_TICK: Final = 1.0


def replay_serve(recorded: ReplayRecording, socket: str, *, match: str, speed: float) -> int:
    """Serve until a signal comes."""
    answers = Answers(filter(lambda call: recorded.wanted(call.flow), recorded.calls()), message_of, Match(match))
    recorded.print_damage()
    if answers.unreadable:
        click.echo(f"warning: {amount(answers.unreadable, 'call')} cannot be answered: not kept, or damaged", err=True)
    replayed = ReplayServer(answers, speed=speed, on_miss=_missed)
    setup("warning", "text")
    bound = bind_unix(socket)
    try:
        _announce(recorded.name, socket, answers)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(bound, replayed))
    finally:
        bound.close()
    click.echo(f"{amount(replayed.answered_calls, 'request')} answered, {replayed.missed_calls} not in the recording.")
    return 0


def _missed(text: str) -> None:
    click.echo(f"miss: {format_value(text)}", err=True)


def _announce(file: str, socket: str, answers: Answers) -> None:
    total = sum(answers.methods.values())
    click.echo(f"Serving {amount(total, 'call')} of {file} at {socket}; Ctrl-C ends it.")
    for line in method_counts(answers.methods):
        click.echo(f"  {line}")


async def _serve(bound: BoundSocket, replayed: ReplayServer) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = LocalServer(replayed.handlers())
    await server.start(bound.sock)
    try:
        while not stop.is_set():
            try:
                async with asyncio.timeout(_TICK):
                    await stop.wait()
            except TimeoutError:
                server.listener.tick()
    finally:
        await server.close()
