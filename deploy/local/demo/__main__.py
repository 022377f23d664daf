"""`python -m deploy.local.demo --seed N`: the whole loop on a real Kafka, in about four minutes.

Exit status: 0 when the group became level, 1 when something did not come about, 3 when the
machine's noise spoiled the measurement (the report says how).
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Final

from deploy.local.artifacts import consumer_jar, fetch, plugin_jar
from deploy.local.cluster import LocalCluster
from deploy.local.demo.picture import write_pictures
from deploy.local.demo.report import Measurement, make_report, table
from deploy.local.demo.run import DemoError, Run
from deploy.local.demo.stage import Stage
from deploy.local.leash import Leash
from deploy.local.paths import BUILD
from deploy.local.traffic import Traffic

EXIT_FAILED: Final = 1
EXIT_SPOILED: Final = 3
EXIT_INTERRUPTED: Final = 130


def play(seed: int, folder: Path) -> int:
    """Run the demo and write what it showed to `folder`; return the exit status."""
    for name in ("kafka", "spark"):
        fetch(name)
    consumer_jar()
    plugin = plugin_jar()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("starting three brokers", file=sys.stderr)
    with LocalCluster() as cluster, Leash() as leash:
        stage = Stage(folder, Traffic(seed=seed), cluster, leash, plugin)
        try:
            notes = Run(stage).play()
        except DemoError as failure:
            print(f"demo failed: {failure}", file=sys.stderr)
            return EXIT_FAILED
    measured = Measurement(stage, notes)
    report = make_report(measured)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    write_pictures(measured, report, folder)
    print(table(report))
    print(f"\npicture and numbers: {folder / 'demo.html'}, {folder / 'report.json'}")
    return EXIT_SPOILED if report["spoiled"] else 0


def main() -> None:
    """Run the demo as a command."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.demo", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=1, help="seed of the skewed keys")
    parser.add_argument("--folder", type=Path, default=BUILD / "demo", help="where results go")
    options = parser.parse_args()
    try:
        sys.exit(play(options.seed, options.folder))
    except KeyboardInterrupt:
        print("\nstopped; nothing is left running", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
