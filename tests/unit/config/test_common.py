"""Rows that several programs have: the same words and values, with what differs put in."""

from interpose.config.agent.table import AGENT
from interpose.config.common import LEVEL, admin_rows, logging_rows, row
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.relay.table import RELAY
from interpose.config.schema import Schema
from interpose.config.values import text


def default(schema: Schema, key: str) -> str:
    """Of one setting, as it is written."""
    return next(schema.default(setting) for setting in schema.table if setting.key == key)


def test_a_row_belongs_to_its_program() -> None:
    """Its variable begins as all of that program do."""
    found = row("INTERPOSE_X_", "a.b", "--a-b", text(), about="What.", why="Why.")
    assert (found.key, found.env, found.help, found.why) == ("a.b", "INTERPOSE_X_A_B", "What.", "Why.")


def test_examples_of_the_admin_socket_have_the_port_of_the_program() -> None:
    """Whoever copies them gets the one that its manifests have."""
    listen, metrics = admin_rows(9999, "INTERPOSE_X_")
    assert (listen.env, metrics.env) == ("INTERPOSE_X_ADMIN_LISTEN", "INTERPOSE_X_METRICS_LISTEN")
    assert "127.0.0.1:9999" in listen.help
    assert 'such as 0.0.0.0:9999; ":9999" is every address' in metrics.help
    assert admin_rows(9999)[0].env == "INTERPOSE_ADMIN_LISTEN"


def test_each_program_says_what_its_log_reports() -> None:
    """And may say more about levels and form."""
    level, debug, form = logging_rows(why_level="Because.")
    assert (level.env, level.help, level.why) == ("INTERPOSE_LOG_LEVEL", LEVEL, "Because.")
    assert debug.kind.parse("resmgr,store", "flag --log-debug") == ("resmgr", "store")
    assert form.kind.parse("json", "flag --log-format") == "json"
    level, _, form = logging_rows("INTERPOSE_X_", why_level="a.", about_level="b.", why_format="c.")
    assert (level.env, level.why, level.help, form.why) == ("INTERPOSE_X_LOG_LEVEL", "a.", "b.", "c.")


def test_programs_have_admin_sockets_of_their_own() -> None:
    """One class of settings has three defaults."""
    paths = [default(schema, "admin.listen") for schema in (RELAY, HOOKSERVER, AGENT)]
    names = ("admin.sock", "hookserver-admin.sock", "agent-admin.sock")
    assert paths == [f"/var/run/interpose/{name}" for name in names]
    assert {default(schema, "admin.metrics_listen") for schema in (RELAY, HOOKSERVER, AGENT)} == {"none"}
