"""When estimates are made: on a grid of time, again when samples come late.

Time is cut into ticks of one slide each; the tick of a sample ends at the next multiple of the
slide. A chunk has one estimate for each tick in which it was sampled: provisional when the first
sample of the tick is there, final when no later sample belongs to it. Both a stream, in whatever
portions it arrives, and a recomputation of everything at once end with the same estimates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from cost.estimate import Rates, estimate
from cost.rates import Block, Bools, History, Ints, Memory, fold, select


@dataclass(frozen=True, slots=True)
class Tick:
    """Estimates of the chunks sampled in one tick, in a history that ends with these samples."""

    end_ms: int
    rates: Rates
    newest: bool
    """Whether no chunk of it has a later tick: a corrected older tick is not news."""
    history: History


def advance(
    history: History, blocks: Iterable[Block], slide_ms: int, memory: Memory
) -> Iterator[Tick]:
    """Fold samples tick by tick and yield every estimate that they make or change.

    Every block holds samples of one time. The history of the last tick yielded is the new one.
    """
    portions: dict[int, list[Block]] = {}
    for block in blocks:
        if len(block.rows):
            end_ms = int(tick_end(block.rows["ms"][:1], slide_ms)[0])
            portions.setdefault(end_ms, []).append(block)
    for end_ms in sorted(portions):
        history = fold(history, portions[end_ms], memory)
        touched = _touched(history, portions[end_ms], memory)
        part = select(history, touched)
        yield from _due(history, part, end_ms, slide_ms, memory)


def tick_end(ms: Ints, slide_ms: int) -> Ints:
    """Return the end of the tick that each time belongs to."""
    return -(-ms // slide_ms) * slide_ms


def _due(
    history: History, part: History, first_ms: int, slide_ms: int, memory: Memory
) -> Iterator[Tick]:
    """Yield the tick that was added to, and later ticks of the same chunks that lean on it."""
    chunk = _chunk_key(part, memory)
    ends = tick_end(part.rows["ms"], slide_ms)
    last = int(ends.max(initial=first_ms))
    for end_ms in sorted({first_ms, *ends[ends > first_ms].tolist()}):
        if end_ms < last - memory.lateness_ms:
            continue
        sampled = np.isin(chunk, np.unique(chunk[ends == end_ms]))
        yield Tick(end_ms, estimate(select(part, sampled), end_ms, memory), end_ms == last, history)


def _touched(history: History, blocks: list[Block], memory: Memory) -> Bools:
    """Mark the rows of the chunks that some samples belong to."""
    code = {topic: index for index, topic in enumerate(history.topics)}
    keys: set[int] = set()
    for block in blocks:
        topic = code.get(block.topic)
        if topic is not None:
            chunks = np.unique(block.rows["partition"] // memory.chunk)
            keys.update(((topic << 32) | chunks.astype(np.int64)).tolist())
    return np.isin(_chunk_key(history, memory), np.array(sorted(keys), np.int64))


def _chunk_key(history: History, memory: Memory) -> Ints:
    rows = history.rows
    key: Ints = (rows["topic"].astype(np.int64) << 32) | (rows["partition"] // memory.chunk)
    return key
