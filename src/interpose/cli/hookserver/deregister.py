"""`interpose hookserver --deregister`: take our name out of the relays' directory, if nobody would put it back."""

from contextlib import suppress

import click

from interpose.cli.common.terminal import printable
from interpose.config.hookserver.settings import HookServerSettings
from interpose.errors import SocketInUseError
from interpose.hooks.server.proxy.self_registration import Registrar
from interpose.host.peer_credentials import check_unowned
from interpose.log import setup


def deregister(settings: HookServerSettings) -> int:
    """Remove the registration file, whatever it says; 1 if it stays, because a hook server runs or for another reason.

    One that runs writes it again within a second, so removing it would only look like success.
    """
    setup(settings.logging.level, settings.logging.format)
    said = settings.registration
    registrar = Registrar(said.dir, said.name, endpoint=said.host_endpoint or settings.listen, hooks=())
    for path in dict.fromkeys(filter(None, (settings.listen, registrar.leads_to))):
        try:
            with suppress(NotADirectoryError):
                check_unowned(path)
        except SocketInUseError as error:
            problem = f"{error}: a hook server that runs would register again, stop it first; {registrar.path} stays"
            click.echo(f"error: {printable(problem)}", err=True)
            return 1
    return 0 if registrar.deregister() else 1
