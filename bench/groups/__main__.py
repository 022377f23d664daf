"""`python -m bench.groups` prints and draws the arms; `... hold [CHECK…]` what must hold."""

import argparse
import sys

from bench.groups import arms, hold


def main() -> int:
    """Run the command; 1 when something that must hold does not."""
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("arms", "hold"), default="arms")
    parser.add_argument("checks", nargs="*", help=f"of {', '.join(hold.CHECKS)}; default all")
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other instances")
    given = parser.parse_args()
    unknown = sorted(set(given.checks) - set(hold.CHECKS))
    if unknown:
        parser.error(f"no such check: {', '.join(unknown)}")
    if given.what == "hold":
        return 0 if hold.run(given.checks, given.seed) else 1
    arms.run(given.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
