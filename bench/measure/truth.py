"""What brokers really stored, to the byte: read from their log segments while they grow.

Topics must have `message.timestamp.type=LogAppendTime`: each batch then says when it was appended.
Independent of all that is measured: neither offsets nor sizes reported by a broker are used.
"""

import struct
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_HEADER: Final = struct.Struct(">qiibIhiqq")
"""Base offset, length, leader epoch, magic, crc, attributes, last offset delta, times."""

Partition = tuple[str, int]
Floats = NDArray[np.float64]


class SegmentTruth:
    """Follows the segments of some topics on all brokers; replicas of a batch count once."""

    def __init__(self, folders: list[Path], topics: list[str]) -> None:
        self._folders = folders
        self._topics = set(topics)
        self._position: dict[Path, int] = {}
        self._batches: dict[Partition, dict[int, tuple[int, int, int]]] = defaultdict(dict)

    def follow(self) -> None:
        """Read what was appended since the last call; call more often than segments live."""
        for folder in self._folders:
            for log in folder.glob("*-*/*.log"):
                topic, _, partition = log.parent.name.rpartition("-")
                if topic in self._topics:
                    self._read(log, (topic, int(partition)))

    def between(self, begin_ms: float, end_ms: float) -> dict[Partition, tuple[float, float]]:
        """Return bytes/s and records/s of each partition in a span."""
        seconds = (end_ms - begin_ms) / 1000
        found = {}
        for partition, batches in self._batches.items():
            rows = np.array(list(batches.values()), np.float64).reshape(-1, 3)
            inside = (rows[:, 0] > begin_ms) & (rows[:, 0] <= end_ms)
            total = rows[inside].sum(axis=0) / seconds
            found[partition] = (float(total[1]), float(total[2]))
        return found

    def _read(self, log: Path, partition: Partition) -> None:
        try:
            with log.open("rb") as file:
                file.seek(self._position.get(log, 0))
                data = file.read()
        except FileNotFoundError:
            return
        at = 0
        while at + _HEADER.size <= len(data):
            base, length, _, _, _, _, last_delta, _, appended_ms = _HEADER.unpack_from(data, at)
            if length <= 0 or at + 12 + length > len(data):
                break
            self._batches[partition][base] = (appended_ms, 12 + length, last_delta + 1)
            at += 12 + length
        self._position[log] = self._position.get(log, 0) + at
