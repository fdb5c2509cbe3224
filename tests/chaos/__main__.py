"""The command: ``python -m tests.chaos --minutes 20``."""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import page
from tests.chaos.campaign import replay_command, run_campaign
from tests.chaos.scenarios import scenarios


def main() -> int:
    """Run the campaign; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="the time for all scenarios")
    parser.add_argument("--seed", type=int, help="of the first attempts; by default drawn")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these scenarios")
    parser.add_argument("--attempts", type=int, help="at most so many of each scenario")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores + 1, help="scenarios together")
    parser.add_argument("--write", action="store_true", help=f"the table to docs/{page.PAGE.name}")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    given = parser.parse_args()
    try:
        chosen = scenarios(given.only)
    except ValueError as error:
        parser.error(str(error))
    if given.write and given.only:
        parser.error("the page shows whole campaigns: leave out --only or --write")
    if given.list:
        print("\n".join(scenario.name for scenario in chosen))
        return 0
    seed = random.randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}, {len(chosen)} scenarios, {given.minutes:g} minutes", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        entries = run_campaign(
            chosen,
            Path(folder),
            seed=seed,
            seconds=60 * given.minutes,
            attempts=given.attempts,
            jobs=given.jobs,
            say=lambda text: print(text, flush=True),
        )
    print(page.table(entries))
    if given.write:
        command = f"make chaos MINUTES={given.minutes:g}"
        page.write(entries, command, seed, (time.monotonic() - begun) / 60)
    failures = [(entry, failure) for entry in entries for failure in entry.failures]
    for entry, (at, _) in failures:
        print(f"failed: {replay_command(entry.scenario.name, at)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
