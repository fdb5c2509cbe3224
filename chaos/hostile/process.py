"""A fuzzer in a process of its own: ``python -m chaos.hostile.process NAME FOLDER``.

It reads seeds and folders from standard input, a JSON object a line, and answers each with what
became of its inputs. The number of the current input is in the file ``current``, for the case that
the process dies.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from chaos.hostile.fuzzer import Fuzzer, judge, too_slow


def limit_memory(megabytes: int) -> None:
    """Let this process take so much address space beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Answer until standard input ends."""
    from chaos.hostile.fuzzers import fuzzer

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    chosen: Fuzzer = fuzzer(sys.argv[1])
    home = Path(sys.argv[2])
    home.mkdir(parents=True, exist_ok=True)
    chosen.prepare(home)
    signal.signal(signal.SIGALRM, too_slow)
    limit_memory(chosen.megabytes)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked["folder"])
        current = folder / "current"
        work = folder / "work"
        work.mkdir()

        def before(number: int, current: Path = current) -> None:
            current.write_text(str(number))

        found = judge(chosen, asked["seed"], work, before)
        answers.write(json.dumps(vars(found)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
