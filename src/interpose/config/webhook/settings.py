"""The settings of the webhook: typed, grouped, frozen. What they mean stands once, in `webhook_table`."""

from dataclasses import dataclass, field

from interpose.config.relay.settings import LoggingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Who we are, and who may ask."""

    cert: str = "/etc/interpose/webhook/tls.crt"
    key: str = "/etc/interpose/webhook/tls.key"
    client_ca: str = ""  # empty: everybody who reaches us


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """What is done to pods."""

    annotation: tuple[str, ...] = ("intel.com/resources",)
    on_unreadable: str = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookLimitSettings:
    """What clients may cost us. Sizes in bytes, times in seconds."""

    body: int = 4 << 20
    buffered: int = 16 << 20
    max_connections: int = 128
    handshake_timeout: float = 5.0
    request_timeout: float = 10.0
    idle_timeout: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSettings:
    """The end of the process. Times in seconds."""

    shutdown_delay: float = 5.0
    grace: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """All settings of `interpose webhook`."""

    listen: str = ":443"
    metrics_listen: str = "none"
    tls: TlsSettings = field(default_factory=TlsSettings)
    pods: PodSettings = field(default_factory=PodSettings)
    limits: WebhookLimitSettings = field(default_factory=WebhookLimitSettings)
    stop: StopSettings = field(default_factory=StopSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
