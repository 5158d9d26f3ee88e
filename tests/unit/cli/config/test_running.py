"""A running process is asked for its settings, whatever release it has."""

from collections.abc import Callable
from typing import Any

import click
import pytest

from interpose.cli.config.running import ask_running, default_address
from interpose.config.effective import config_answer, rows_of
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import SettingText, load
from interpose.config.programs import PROGRAMS
from interpose.config.relay.table import RELAY
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response

Serve = Callable[[RouteTable], str]


def answering(answer: Any) -> RouteTable:
    """An admin socket that says this of its settings."""

    async def handler(_request: ServerRequest) -> ServerResponse:
        return json_response(answer)

    return {("GET", "/v1/config"): handler}


def test_values_come_with_their_origins(serve: Serve) -> None:
    """As the process has them."""
    loaded = load(RELAY, flags={"process.grace": SettingText("5s", "flag --grace")}, env={})
    address = serve(answering(config_answer(RELAY, loaded.settings, loaded.origins)))
    assert ask_running(RELAY, address) == rows_of(loaded)


def test_another_program_is_not_taken_for_the_one_asked_for(serve: Serve) -> None:
    """Its keys mean other things."""
    address = serve(answering({"program": "interpose relay"}))
    with pytest.raises(click.ClickException, match="is 'interpose relay', not 'interpose hookserver'"):
        ask_running(HOOKSERVER, address)


def test_nonsense_is_an_error(serve: Serve) -> None:
    """Something else may listen there."""
    address = serve(answering([1]))
    with pytest.raises(click.ClickException, match="is not settings"):
        ask_running(RELAY, address)


def test_the_usual_address_is_that_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its default, or what its variable says; one without an admin socket cannot be asked."""
    assert default_address(HOOKSERVER) == "/var/run/interpose/hookserver-admin.sock"
    monkeypatch.setenv("INTERPOSE_HOOKSERVER_ADMIN_LISTEN", "/x.sock")
    assert default_address(HOOKSERVER) == "/x.sock"
    with pytest.raises(click.ClickException, match="has no admin socket"):
        default_address(PROGRAMS["webhook"].schema())
