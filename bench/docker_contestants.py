"""Who is measured in front of dockerd: HTTP/1.1 proxies between two unix sockets, each one process by pid."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.contestants import (
    BEFORE,
    CACHED_BYTECODE,
    COMPILED,
    COMPILED_PROGRAM,
    DIRECT,
    OURS,
    YARDSTICK,
    Contestant,
    no_compiled,
    no_interpose,
)
from interpose.cli.common.admin_client import ask
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import register
from tests.support.lab.processes import Child, missing_programs
from tests.support.lab.relay import program, relay_argv

if TYPE_CHECKING:
    from pathlib import Path

NGINX, SOCAT, HOOKED = "nginx", "socat", "hooked"
PLUGIN_SOCKET = "plugin.sock"

# Reuse of connections by "always": the default keeps the first request of a connection for a fresh one. The limits on
# time are far away, and a tunnel has none.
HAPROXY = """\
global
  nbthread 1
  maxconn 1000
defaults
  mode http
  timeout connect 5s
  timeout client 5m
  timeout server 5m
  timeout tunnel 1h
frontend in
  bind unix@{listen}
  default_backend out
backend out
  http-reuse always
  server docker unix@{backend}
"""

# One process instead of a master and a worker, so that it can be counted by pid. Nothing is buffered on disk, and the
# connection upgrade of a hijacked stream passes. `keepalive` needs an empty Connection header for other requests.
NGINX_CONFIG = """\
daemon off;
master_process off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  client_max_body_size 0;
  map $http_upgrade $passed_connection {{
    default upgrade;
    "" "";
  }}
  upstream docker {{
    server unix:{backend};
    keepalive 64;
    keepalive_requests 1000000000;
  }}
  server {{
    listen unix:{listen};
    location / {{
      proxy_pass http://docker;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $passed_connection;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
"""


def docker_contestants(before: Path | None = None) -> tuple[Contestant, ...]:
    """Everybody that only passes requests on; `before` is the program of another version, measured beside them."""
    earlier = [(BEFORE, "interpose, before", before)] if before else []
    return (
        Contestant(name=DIRECT, title="none (direct)", start=None, missing=lambda: None),
        Contestant(
            name=SOCAT, title="socat (bytes)", start=_socat, missing=lambda: missing_programs("socat"), forks=True
        ),
        Contestant(name=NGINX, title="nginx, 1 process", start=_nginx, missing=lambda: missing_programs("nginx")),
        Contestant(
            name=YARDSTICK, title="HAProxy, 1 thread", start=_haproxy, missing=lambda: missing_programs("haproxy")
        ),
        Contestant(name=OURS, title="interpose", start=partial(_interpose, program()), missing=no_interpose),
        Contestant(
            name=COMPILED,
            title="interpose, compiled",
            start=partial(_interpose, COMPILED_PROGRAM),
            missing=no_compiled,
        ),
        *(
            Contestant(name=name, title=title, start=partial(_interpose, executable), missing=lambda: None)
            for name, title, executable in earlier
        ),
    )


def hooked() -> Contestant:
    """Our relay with one hook server that is asked at every hook point."""
    return Contestant(name=HOOKED, title="interpose, one hook server", start=_hooked, missing=no_interpose)


def _socat(_folder: Path, listen: Path, backend: Path) -> Child:
    # fork: one child per connection; its CPU time shows up in the parent when the connection has ended. A backlog of 5,
    # its default, would turn 16 clients away.
    listening = f"UNIX-LISTEN:{listen},fork,unlink-early,backlog=128"
    return _listening(["socat", "-b65536", listening, f"UNIX-CONNECT:{backend}"], listen)


def _haproxy(folder: Path, listen: Path, backend: Path) -> Child:
    config = folder / f"{listen.name}.cfg"
    config.write_text(HAPROXY.format(listen=listen, backend=backend))
    return _listening(["haproxy", "-db", "-f", str(config)], listen)


def _nginx(folder: Path, listen: Path, backend: Path) -> Child:
    own = folder / f"{listen.name}.d"
    own.mkdir(exist_ok=True)
    config = own / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=own, listen=listen, backend=backend))
    # -e: before the configuration is read nginx logs to a system folder.
    return _listening(["nginx", "-e", str(own / "nginx.log"), "-c", str(config)], listen)


def _interpose(executable: Path, folder: Path, listen: Path, backend: Path) -> Child:
    return _relay(executable, folder / f"{listen.name}.d", listen, backend)


def _hooked(folder: Path, listen: Path, backend: Path) -> Child:
    """Ready when it has reached its hook server."""
    hooks = folder / f"{listen.name}.d"
    hooks.mkdir(exist_ok=True)
    hooks.chmod(0o755)
    register(hooks, "plugin", folder / PLUGIN_SOCKET, hooks=tuple(HookPoint))
    child = _relay(program(), hooks, listen, backend)
    child.wait_listening(_admin(listen))
    child.wait_until(
        lambda: [one["state"] for one in ask(str(_admin(listen)), "GET", "/v1/hooks")["plugins"]] == ["connected"],
        what="its hook server",
    )
    return child


def _relay(executable: Path, hooks: Path, listen: Path, backend: Path) -> Child:
    """`interpose relay` in Docker mode; without registrations in `hooks` it has nobody to ask."""
    options = ("--backend", "docker", "--hooks-dir", str(hooks))
    _, *arguments = relay_argv(listen, backend, _admin(listen), *options)
    return _listening([str(executable), *arguments], listen)


def _admin(listen: Path) -> Path:
    return listen.with_name(f"{listen.name}.admin")


def _listening(argv: list[str], listen: Path) -> Child:
    child = Child(argv, log=listen.with_name(f"{listen.name}.log"), env=CACHED_BYTECODE)
    child.wait_listening(listen)
    return child
