"""The records on Plimsoll's topics: their fields, their validation, their bytes.

A record is validated once, here, at the door; what passes is a frozen value that the pure parts
trust. `decode` refuses with `TheirFault(path, message)`; the caller knows topic, partition and
offset, and quarantines. Unknown fields are ignored, an unknown major version is refused.
`encode` is deterministic: the same value gives the same bytes under any hash seed.

Fields marked `UnsetType` may be absent and are then left out of the bytes. `ms` is epoch
milliseconds everywhere.
"""

import math
import re
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from agent import limits
from agent.errors import TheirFault

BROKER_METRICS: Final = "plimsoll.broker-metrics"
MEMBERSHIP: Final = "plimsoll.membership"
PARTITION_LOAD: Final = "plimsoll.partition-load"
CONFIG: Final = "plimsoll.config"
CONFIG_STATUS: Final = "plimsoll.config-status"
TARGETS: Final = "plimsoll.targets"
DECISIONS: Final = "plimsoll.decisions"

CLAIM_KEY: Final = "claim"
NUDGE_CLIENT_ID: Final = "plimsoll-nudge"
"""Client id of the agent's transient nudge member; never shown as a member of a group."""

Mode = Literal["observe", "shadow", "advise", "enforce"]
Incompatibility = Literal["none", "network-ingress", "astraea"]
Confidence = Literal["measured", "partial", "prior"]


class _Record(Struct, frozen=True, kw_only=True, rename=None):
    """Fields of every record."""

    v: int = 1
    ms: int


# --- plimsoll.broker-metrics ----------------------------------------------------------------------


class TopicSample(Struct, frozen=True, kw_only=True):
    """Columns over the partitions of one topic that the broker leads; all of one length.

    `end_offset`, `log_start_offset`: records. `log_size_bytes`: bytes on the leader's disk.
    """

    topic: str
    partition: list[int]
    end_offset: list[int]
    log_size_bytes: list[int]
    topic_id: str | UnsetType = UNSET
    leader_epoch: list[int] | UnsetType = UNSET
    log_start_offset: list[int] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse columns of unequal length and negative values."""
        for name in ("partition", "end_offset", "log_size_bytes", "log_start_offset"):
            column = getattr(self, name)
            if column is UNSET:
                continue
            if len(column) != len(self.partition):
                raise ValueError(f"{name} has {len(column)} rows, partition {len(self.partition)}")
            if column and min(column) < 0:
                raise ValueError(f"{name} holds {min(column)}, below 0")
        if self.leader_epoch is not UNSET and len(self.leader_epoch) != len(self.partition):
            raise ValueError("leader_epoch is not as long as partition")
        if len(set(self.partition)) != len(self.partition):
            raise ValueError("a partition is listed twice")


class BrokerMetrics(_Record, frozen=True, kw_only=True):
    """One sample of one broker, or chunk `chunk` of `chunks` of it."""

    broker: str
    chunk: int
    chunks: int
    topics: list[TopicSample]
    rack: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a chunk number outside the sample and a record over the partition limit."""
        if not 0 <= self.chunk < self.chunks:
            raise ValueError(f"chunk {self.chunk} of {self.chunks}")
        count = sum(len(topic.partition) for topic in self.topics)
        if count > limits.BROKER_METRICS_PARTITIONS_MAX:
            raise ValueError(f"{count} partitions, limit {limits.BROKER_METRICS_PARTITIONS_MAX}")


# --- plimsoll.membership --------------------------------------------------------------------------


class Member(Struct, frozen=True, kw_only=True):
    """One member of a group. `owned`: topic to partitions."""

    stable_id: str
    member_id: str
    client_id: str = ""
    instance_id: str | None = None
    host: str = ""
    rack: str | None = None
    topics: list[str] = []
    owned: dict[str, list[int]] = {}


class TopicShape(Struct, frozen=True, kw_only=True):
    """Partition count, racks holding a replica and leading broker, per partition."""

    partitions: int
    racks: list[list[str]] = []
    leader: list[str] = []

    def __post_init__(self) -> None:
        """Refuse columns that do not cover every partition."""
        if self.partitions < 0:
            raise ValueError(f"partitions is {self.partitions}")
        for name in ("racks", "leader"):
            column = getattr(self, name)
            if column and len(column) != self.partitions:
                raise ValueError(f"{name} has {len(column)} rows for {self.partitions} partitions")


class Membership(_Record, frozen=True, kw_only=True):
    """Snapshot of one group as its coordinator describes it."""

    group: str
    kind: Literal["consumer", "streams"] = "consumer"
    protocol: Literal["classic", "consumer", "streams"] = "classic"
    assignor: str = ""
    state: str
    members: list[Member]
    topics: dict[str, TopicShape]
    generation: int | UnsetType = UNSET
    streams: Any = UNSET
    """For kind `streams`: the application state, in the shapes of the streams-tasks problem."""


def same_facts(one: Membership, other: Membership) -> bool:
    """Tell whether two snapshots differ in nothing but their time."""
    return one == structs.replace(other, ms=one.ms)


# --- plimsoll.partition-load ----------------------------------------------------------------------


class PartitionLoad(_Record, frozen=True, kw_only=True):
    """Columns over partitions of one topic chunk; rates per second with their standard errors."""

    topic: str
    window_s: float
    partition: list[int]
    bytes_per_s: list[float]
    bytes_per_s_stderr: list[float]
    records_per_s: list[float]
    records_per_s_stderr: list[float]
    samples: list[int]
    samples_expected: int
    confidence: list[Confidence]
    reason: list[str | None]

    def __post_init__(self) -> None:
        """Refuse columns of unequal length, negative and non-finite values."""
        for name in (
            "bytes_per_s",
            "bytes_per_s_stderr",
            "records_per_s",
            "records_per_s_stderr",
            "samples",
            "confidence",
            "reason",
        ):
            column = getattr(self, name)
            if len(column) != len(self.partition):
                raise ValueError(f"{name} has {len(column)} rows, partition {len(self.partition)}")
            if name.endswith(("_s", "_stderr")) and any(
                not (math.isfinite(value) and value >= 0) for value in column
            ):
                raise ValueError(f"{name} holds a value that is not finite and at least 0")
        if self.partition and min(self.partition) < 0:
            raise ValueError("partition holds a negative number")
        if len(set(self.partition)) != len(self.partition):
            raise ValueError("a partition is listed twice")


def partition_load_key(topic: str, partition: int) -> str:
    """Key of the load record that holds a partition: `topic#chunk`."""
    return f"{topic}#{partition // limits.PARTITION_LOAD_CHUNK}"


# --- plimsoll.config ------------------------------------------------------------------------------


class CapacityRule(Struct, frozen=True, kw_only=True):
    """Members whose stable id matches the whole regular expression have `units` of capacity."""

    match: str
    units: float

    def __post_init__(self) -> None:
        """Refuse a pattern that does not compile and a capacity that is not positive."""
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"match does not compile: {error}") from None
        if not (math.isfinite(self.units) and self.units > 0):
            raise ValueError("units must be finite and above 0")


class CostWeights(Struct, frozen=True, kw_only=True):
    """How much bytes/s and records/s count towards a partition's load (`cost.combine`)."""

    network_ingress: float = 1.0
    records: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative and non-finite weights, and weights that are both zero."""
        if not all(math.isfinite(w) and w >= 0 for w in (self.network_ingress, self.records)):
            raise ValueError("weights must be finite and at least 0")
        if self.network_ingress == 0 and self.records == 0:
            raise ValueError("one weight must be above 0")


class Spec(Struct, frozen=True, kw_only=True):
    """Tuning as an operator writes it; what is absent comes from the next wider scope."""

    mode: Mode | UnsetType = UNSET
    cost: CostWeights | UnsetType = UNSET
    imbalance_enter: float | UnsetType = UNSET
    imbalance_solve: float | UnsetType = UNSET
    incompatibility: Incompatibility | UnsetType = UNSET
    rack_aware: bool | UnsetType = UNSET
    capacity: list[CapacityRule] | UnsetType = UNSET
    pin: list[tuple[str, int, str]] | UnsetType = UNSET
    copartition: list[list[str]] | UnsetType = UNSET
    exclude: list[str] | UnsetType = UNSET
    moves_per_hour_max: int | UnsetType = UNSET
    moved_load_share_per_hour_max: float | UnsetType = UNSET
    cooldown_s: float | UnsetType = UNSET
    horizon_s: float | UnsetType = UNSET
    confidence_k: float | UnsetType = UNSET
    target_ttl_s: float | UnsetType = UNSET
    approve: str | UnsetType = UNSET
    """In mode `advise`: the id of the plan that a person approves."""

    def __post_init__(self) -> None:
        """Refuse numbers outside their meaning."""
        for name in (
            "imbalance_enter",
            "imbalance_solve",
            "moves_per_hour_max",
            "moved_load_share_per_hour_max",
            "cooldown_s",
            "horizon_s",
            "confidence_k",
            "target_ttl_s",
        ):
            value = getattr(self, name)
            if value is not UNSET and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and at least 0")


class Config(_Record, frozen=True, kw_only=True):
    """One self-contained piece of tuning; the key says for whom."""

    ms: int = 0
    author: str = ""
    reason: str = ""
    expires_ms: int | UnsetType = UNSET
    spec: Spec = Spec()


class Fault(Struct, frozen=True, kw_only=True):
    """Where a record is wrong, and why."""

    path: str
    message: str


class ConfigStatus(_Record, frozen=True, kw_only=True):
    """What became of the config record at `offset`; `effective` is the spec now in force."""

    offset: int
    accepted: bool
    error: Fault | None = None
    effective: dict[str, Any] = {}
    since_ms: int
    warnings: list[str] | UnsetType = UNSET
    """Fields that nothing reads, most often a slip of the pen."""


# --- plimsoll.targets -----------------------------------------------------------------------------


class Base(Struct, frozen=True, kw_only=True):
    """What the target was computed for: stable ids, and partitions per topic."""

    members: list[str]
    partitions: dict[str, int]


class Spent(Struct, frozen=True, kw_only=True):
    """Discretionary moves that one target asked for, as they count against the group's budget."""

    ms: int
    moves: int
    load_share: float


class Target(_Record, frozen=True, kw_only=True):
    """What each member of a group should own; with weights, so that a leader can repair it."""

    epoch: int
    revision: int
    plan_id: str
    ttl_ms: int
    mode: Mode
    base: Base
    assignment: dict[str, dict[str, list[int]]]
    weights: dict[str, list[int]] = {}
    capacity: dict[str, float] = {}
    rack: dict[str, str] = {}
    recent: list[Spent] = []
    """The budget's memory: in the record, so that compaction and restarts cannot lose it."""
    streams: Any = UNSET


class Claim(_Record, frozen=True, kw_only=True):
    """The record by which an agent takes over; its own offset is the epoch."""

    agent: str
    topic_id: str


# --- plimsoll.decisions ---------------------------------------------------------------------------


class Decision(_Record, frozen=True, kw_only=True):
    """One verdict on one group, with what led to it."""

    group: str
    verdict: Literal["publish", "hold", "refuse"]
    reason: str
    plan_id: str | None = None
    revision: int | None = None
    certificate: dict[str, Any] | None = None
    moves: list[dict[str, Any]] = []
    inputs: str
    alternatives: list[dict[str, Any]] = []
    mode: Mode | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    """The reason in words, with its figures."""
    outcome_of: str | UnsetType = UNSET


# --- bytes ----------------------------------------------------------------------------------------

R = TypeVar("R", bound=_Record)
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODERS: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        BrokerMetrics,
        Membership,
        PartitionLoad,
        Config,
        ConfigStatus,
        Target,
        Claim,
        Decision,
    )
}


class _Version(Struct):
    v: int


_VERSION_DECODER: Final = msgspec.json.Decoder(_Version)
_AT: Final = re.compile(r" - at `\$\.?(?P<path>.*)`$")


def fault_of(error: msgspec.MsgspecError) -> TheirFault:
    """Turn msgspec's message into path and message of ours."""
    text = str(error)
    match = _AT.search(text)
    if match is None:
        return TheirFault("", text)
    return TheirFault(match["path"], text[: match.start()])


def decode(kind: type[R], data: bytes | None) -> R:
    """Validate one record's value. Raises TheirFault; a version other than 1 is refused."""
    if data is None:
        raise TheirFault("", "no value")
    if len(data) > limits.RECORD_BYTES_MAX:
        raise TheirFault("", f"{len(data)} bytes, limit {limits.RECORD_BYTES_MAX}")
    try:
        version = _VERSION_DECODER.decode(data).v
        if version != 1:
            raise TheirFault("v", f"version {version} is not known")
        record: R = _DECODERS[kind].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if isinstance(error, msgspec.MsgspecError):
            raise fault_of(error) from None
        raise TheirFault("", f"not JSON: {error}") from None
    return record


def encode(record: object) -> bytes:
    """Give a record's value as bytes: deterministic, fields in the order of their declaration."""
    return _ENCODER.encode(record)


def to_builtins(record: object) -> Any:
    """Give a record as plain JSON values, keys of mappings sorted."""
    return msgspec.json.decode(encode(record))
