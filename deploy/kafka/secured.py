"""The local cluster with an authorizer: nobody may do what no rule allows.

    with SecuredCluster(folder) as secured:
        secured.allow(grants(groups=["orders"]))
        secured.plimsoll("plimsoll-agent", "agent")     # the command line, with its password

Brokers and whoever starts the cluster come in without a password and may do everything; everybody
else comes in by SASL/SCRAM as a user of their own. Passwords are made at start and die with it; the
connections are not encrypted, which only loopback excuses.
"""

import re
import secrets
import sys
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from deploy.kafka.acls import Grant
from deploy.local.cluster import BROKER_IDS, LocalCluster

SETTINGS: Final = {
    "listeners": (
        "PLAINTEXT://127.0.0.1:{client_port},SASL://127.0.0.1:{port},"
        "CONTROLLER://127.0.0.1:{controller_port}"
    ),
    "advertised.listeners": "PLAINTEXT://127.0.0.1:{client_port},SASL://127.0.0.1:{port}",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": "User:ANONYMOUS",
}
SCRAM_ITERATIONS: Final = 4096
TIMEOUT_S: Final = 20.0
RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class SecuredCluster:
    """Three brokers, users, rights; `folder` receives the users' property files."""

    def __init__(self, folder: Path) -> None:
        self.cluster = LocalCluster(config=SETTINGS)
        self._folder = folder
        self._passwords: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.cluster.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Where users with a password come in."""
        return ",".join(f"127.0.0.1:{self.cluster.node(b).extra_port}" for b in BROKER_IDS)

    def add_users(self, users: Collection[str]) -> None:
        """Make users, each with a password of its own."""
        for user in users:
            self._passwords[user] = secrets.token_urlsafe(16)
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
        wanted: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(user, scram, self._passwords[user].encode())
            for user in users
        ]
        for future in self.cluster.admin().alter_user_scram_credentials(wanted).values():
            future.result(TIMEOUT_S)

    def allow(self, given: Collection[Grant]) -> None:
        """Let the principals do what the grants say."""
        wanted = [binding for grant in given for binding in bindings(grant)]
        for future in self.cluster.admin().create_acls(wanted).values():
            future.result(TIMEOUT_S)

    def client(self, user: str, **more: Any) -> dict[str, Any]:
        """Give the configuration of a confluent-kafka client; dots in `more` are underscores."""
        extra = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **self._properties(user), **extra}

    def java_properties(self, user: str) -> dict[str, str]:
        """Give the security settings of a Java client."""
        given = self._properties(user)
        return {
            "security.protocol": given["security.protocol"],
            "sasl.mechanism": given["sasl.mechanism"],
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required"
                f' username="{user}" password="{given["sasl.password"]}";'
            ),
        }

    def plimsoll(self, user: str, *words: str) -> list[str]:
        """Give the command line of one of Plimsoll's verbs, run as a user."""
        path = self._folder / f"{user}.properties"
        path.touch(mode=0o600)
        path.write_text("".join(f"{k}={v}\n" for k, v in self._properties(user).items()))
        command = str(Path(sys.executable).with_name("plimsoll"))
        servers = ("--bootstrap-server", self.bootstrap_servers)
        return [command, *words, *servers, "--command-config", str(path)]

    def _properties(self, user: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }


def bindings(grant: Grant) -> list[AclBinding]:
    """Give the rules that a grant amounts to, one per operation."""
    pattern = ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL
    return [
        AclBinding(
            RESOURCES[grant.resource],
            grant.name,
            pattern,
            grant.principal,
            "*",
            # DescribeConfigs is DESCRIBE_CONFIGS here.
            AclOperation[re.sub(r"(?<=.)(?=[A-Z])", "_", operation).upper()],
            AclPermissionType.ALLOW,
        )
        for operation in grant.operations
    ]
