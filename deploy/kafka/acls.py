"""The least rights that Plimsoll's principals need, as commands of Kafka's own tool.

    python -m deploy.kafka.acls --bootstrap-server B --group orders --group billing --topic 'shop.*'

prints one `kafka-acls.sh` command per resource and principal and changes nothing: whoever owns the
cluster's rights reads them and runs them. `acls.toml` is the data. Without `--group` and `--topic`
Plimsoll serves all groups and topics of the cluster.
"""

import argparse
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).with_name("acls.toml")
EVERYTHING: Final = ("*",)


@dataclass(frozen=True, slots=True)
class Grant:
    """Operations that a principal may carry out on one resource; all of them from any host."""

    principal: str
    """`User:NAME`."""
    resource: str
    """topic, group, cluster or transactional-id."""
    name: str
    prefixed: bool
    operations: tuple[str, ...]

    def command(self, connection: Sequence[str]) -> str:
        """Give the `kafka-acls.sh` command that grants it."""
        words = ["kafka-acls.sh", *connection, "--add", "--allow-principal", self.principal]
        words += [word for name in self.operations for word in ("--operation", name)]
        if self.resource == "cluster":
            words.append("--cluster")
        else:
            words += [f"--{self.resource}", self.name]
        if self.prefixed:
            words += ["--resource-pattern-type", "prefixed"]
        return shlex.join(words)


def principals() -> dict[str, dict[str, Any]]:
    """Read the data: principal's role to its default user, reason and rows."""
    return tomllib.loads(DATA.read_text())


def grants(
    *,
    groups: Collection[str] = EVERYTHING,
    topics: Collection[str] = EVERYTHING,
    users: Mapping[str, str] | None = None,
) -> list[Grant]:
    """Give every grant; `users` maps a role to a principal that is not called as in the data."""
    fillings = {"{group}": groups, "{topic}": topics}
    return [
        Grant(
            principal=(users or {}).get(role, f"User:{data['user']}"),
            resource=row["resource"],
            name=name.removesuffix("*") or "*",
            prefixed=name.endswith("*") and name != "*",
            operations=tuple(row["operations"]),
        )
        for role, data in principals().items()
        for row in data["allow"]
        for name in sorted(fillings.get(row["name"], (row["name"],)))
    ]


def _lines(found: Sequence[Grant], connection: Sequence[str]) -> Iterator[str]:
    """Give the commands under a headline per principal."""
    headline = ""
    for grant in found:
        if grant.principal != headline:
            headline = grant.principal
            yield f"# {headline}"
        yield grant.command(connection)


def _user(text: str) -> tuple[str, str]:
    """Read ROLE=TYPE:NAME."""
    role, _, principal = text.partition("=")
    if role not in principals() or ":" not in principal:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not ROLE=User:NAME with a role of {', '.join(principals())}"
        )
    return role, principal


def main() -> None:
    """Print the commands."""
    parser = argparse.ArgumentParser(prog="python -m deploy.kafka.acls", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--command-config", help="properties file for kafka-acls.sh")
    parser.add_argument(
        "--group", action="append", default=[], help="group to serve; NAME* is a prefix"
    )
    parser.add_argument(
        "--topic", action="append", default=[], help="topic to sample; NAME* is a prefix"
    )
    parser.add_argument(
        "--principal",
        action="append",
        default=[],
        type=_user,
        metavar="ROLE=User:NAME",
        help="principal of a role, where it has another name than User:plimsoll-ROLE",
    )
    options = parser.parse_args()
    connection = ["--bootstrap-server", options.bootstrap_server]
    if options.command_config:
        connection += ["--command-config", options.command_config]
    found = grants(
        groups=options.group or EVERYTHING,
        topics=options.topic or EVERYTHING,
        users=dict(options.principal),
    )
    print("\n".join(_lines(found, connection)))


if __name__ == "__main__":
    main()
