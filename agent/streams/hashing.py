"""The order in which `java.util.HashMap` walks over task and process ids.

Two corners of Kafka's high-availability assignor depend on it (standbys that tags leave over, and
the order in which polled clients go back into a queue whose loads have changed). Keys put in one
by one stand by bucket, then by the order of putting; a table never shrinks.
"""

import uuid
from collections.abc import Iterable

LOAD_FACTOR = 0.75
BUCKETS_MIN = 16


def task_hash(task_id: str) -> int:
    """Give the spread `TaskId.hashCode`: Objects.hash(subtopology, partition, null)."""
    subtopology, _, partition = task_id.partition("_")
    return _spread(((31 + int(subtopology)) * 31 + int(partition)) * 31)


def process_hash(client_id: str) -> int:
    """Give the spread `ProcessId.hashCode`, which is that of the UUID."""
    number = uuid.UUID(client_id).int
    halves = (number >> 64) ^ number
    return _spread(halves >> 32 ^ halves)


def _spread(code: int) -> int:
    code &= 0xFFFFFFFF
    return code ^ code >> 16


def walk(keys: Iterable[tuple[int, int]]) -> list[int]:
    """Order values by their spread hashes; `keys` are (hash, value) in the order of putting."""
    entries = list(keys)
    buckets = BUCKETS_MIN
    while len(entries) > buckets * LOAD_FACTOR:
        buckets *= 2
    return [value for _, value in sorted(entries, key=lambda entry: entry[0] & (buckets - 1))]
