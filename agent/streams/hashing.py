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


def walk(keys: Iterable[tuple[int, int]], *, copied: bool = False) -> list[int]:
    """Order values by their spread hashes; `keys` are (hash, value) in the order of putting.

    A set that was made as a copy of a collection may have twice the buckets.
    """
    entries = list(keys)
    mask = buckets(len(entries), copied=copied) - 1
    return [value for _, value in sorted(entries, key=lambda entry: entry[0] & mask)]


def buckets(size: int, *, copied: bool = False) -> int:
    """Give the number of buckets of a set of that size."""
    count = BUCKETS_MIN
    while size > count * LOAD_FACTOR or (copied and int(size / LOAD_FACTOR) + 1 > count):
        count *= 2
    return count
