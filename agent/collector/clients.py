"""Connection settings: one properties file in Kafka's own form, for both client libraries.

`--command-config` names a file of `key=value` lines as Kafka's command-line tools take it.
confluent-kafka understands these keys almost as they are; kafka-python has names of its own.
What one of them cannot express is refused, never silently dropped.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent.errors import TheirFault

CLIENT_ID: Final = "plimsoll-collector"
REQUEST_TIMEOUT_S: Final = 5.0
"""Longest wait for one broker: half of the usual interval, so that a dead one costs no sample."""

_KAFKA_PYTHON: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}


def read_properties(path: Path | None) -> dict[str, str]:
    """Read a properties file: `key=value`, blank lines and lines that begin with # or !."""
    if path is None:
        return {}
    found = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, equals, value = text.partition("=")
        if not equals:
            raise TheirFault(f"{path}:{number}", "expected key=value")
        found[key.strip()] = value.strip()
    return found


def confluent_config(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return settings of a confluent-kafka client."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": CLIENT_ID,
        "log_level": 2,
        **properties,
    }


def kafka_python_config(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return settings of a kafka-python client; raises TheirFault for a key that it lacks."""
    config: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers.split(","),
        "client_id": CLIENT_ID,
        "request_timeout_ms": round(REQUEST_TIMEOUT_S * 1000),
        "metadata_max_age_ms": 10_000,
        "reconnect_backoff_max_ms": 1_000,
    }
    for key, value in properties.items():
        if key == "ssl.endpoint.identification.algorithm":
            config["ssl_check_hostname"] = value not in {"", "none"}
        elif key in _KAFKA_PYTHON:
            config[_KAFKA_PYTHON[key]] = value
        else:
            raise TheirFault(key, "the collector knows only security.protocol, sasl.* and ssl.*")
    return config
