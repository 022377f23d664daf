"""`python -m bench.measure [WHAT…]`: each figure of the measurements, by a command.

accuracy   errors of bytes/s against what brokers stored; honesty of the stated errors
chaos      compression, retention, moved leaders and a killed broker at once
latency    from metrics record to load record, with collector and Spark as processes
scale      micro-batches at 1k, 10k and 100k partitions a sample
memory     100k partitions a sample for --minutes, memory over time
"""

import argparse
import sys
from typing import TYPE_CHECKING

from bench.measure import quality, spark

if TYPE_CHECKING:
    from collections.abc import Callable

WHAT = ("accuracy", "chaos", "latency", "scale", "memory")


def main() -> int:
    """Run the command; 1 when something that must hold does not."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.measure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", help=f"of {', '.join(WHAT)}; default all but memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="length of accuracy")
    parser.add_argument(
        "--partitions", type=int, action="append", help="a size of scale; may be repeated"
    )
    parser.add_argument("--minutes", type=float, default=30, help="length of memory")
    given = parser.parse_args()
    unknown = sorted(set(given.what) - set(WHAT))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    runs: dict[str, Callable[[], bool]] = {
        "accuracy": lambda: quality.accuracy(given.seconds, given.seed),
        "chaos": lambda: quality.chaos(given.seed),
        "latency": spark.latency,
        "scale": lambda: spark.scale(tuple(given.partitions or spark.SIZES)),
        "memory": lambda: spark.memory(given.minutes),
    }
    results = []
    for name in given.what or WHAT[:-1]:
        print(f"--- {name}")
        results.append(runs[name]())
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
