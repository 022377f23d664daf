"""One place that says how to reach the cluster, in the dialect of each Kafka client we use.

`--bootstrap-server` names brokers; `--command-config FILE` holds the rest in librdkafka's names
(`security.protocol`, `sasl.mechanism`, `sasl.username`, `sasl.password`, `ssl.ca.location`,
`ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`), one `name=value` a line.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.errors import TheirFault

KNOWN: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
    }
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster and how to be let in; never shows its secrets."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def _protocol(self) -> str:
        return self.properties.get("security.protocol", "PLAINTEXT").upper()

    def confluent(self, **more: Any) -> dict[str, Any]:
        """Give the configuration of a confluent-kafka client; dots in `more` are underscores."""
        extra = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **self.properties, **extra}

    def aiokafka(self) -> dict[str, Any]:
        """Give the keyword arguments of an aiokafka client."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self._protocol,
            "ssl_context": self._ssl_context(),
            "sasl_mechanism": self.properties.get("sasl.mechanism", "PLAIN"),
            "sasl_plain_username": self.properties.get("sasl.username"),
            "sasl_plain_password": self.properties.get("sasl.password"),
        }

    def kafka_python(self) -> dict[str, Any]:
        """Give the keyword arguments of a kafka-python client."""
        return {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "security_protocol": self._protocol,
            "ssl_context": self._ssl_context(),
            "sasl_mechanism": self.properties.get("sasl.mechanism"),
            "sasl_plain_username": self.properties.get("sasl.username"),
            "sasl_plain_password": self.properties.get("sasl.password"),
        }

    def faust(self) -> dict[str, Any]:
        """Give broker and credentials of a Faust app."""
        import faust  # noqa: PLC0415 -- an extra; only the agent has it

        servers = ";".join(self.bootstrap_servers.split(","))
        credentials: faust.SASLCredentials | faust.SSLCredentials | None = None
        if self._protocol.startswith("SASL"):
            credentials = faust.SASLCredentials(
                username=self.properties.get("sasl.username"),
                password=self.properties.get("sasl.password"),
                mechanism=self.properties.get("sasl.mechanism", "PLAIN"),
                ssl_context=self._ssl_context(),
            )
        elif self._protocol == "SSL":
            credentials = faust.SSLCredentials(context=self._ssl_context())
        return {"broker": f"kafka://{servers}", "broker_credentials": credentials}

    def _ssl_context(self) -> ssl.SSLContext | None:
        if not self._protocol.endswith("SSL"):
            return None
        context = ssl.create_default_context(cafile=self.properties.get("ssl.ca.location"))
        certificate = self.properties.get("ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(
                certificate,
                self.properties.get("ssl.key.location"),
                self.properties.get("ssl.key.password"),
            )
        return context


def read_cluster(bootstrap_servers: str, command_config: Path | None) -> Cluster:
    """Read the properties file. Raises TheirFault naming the line; never shows a value."""
    properties: dict[str, str] = {}
    lines = command_config.read_text().splitlines() if command_config is not None else []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        name, equals, value = text.partition("=")
        if not equals:
            raise TheirFault(f"{command_config}:{number}", "is not name=value")
        if name.strip() not in KNOWN:
            raise TheirFault(
                f"{command_config}:{number}",
                f"{name.strip()!r} is none of {', '.join(sorted(KNOWN))}",
            )
        properties[name.strip()] = value.strip()
    return Cluster(bootstrap_servers, properties)
