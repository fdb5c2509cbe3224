"""Run the numeric tests as other processors would compute them.

    python tests/portable/run.py                   every setting; minutes each
    python tests/portable/run.py --quick sse-1     one setting, and the quick numeric tests only
    python tests/portable/run.py --show            only what each setting changes

A setting is a choice of instruction sets (through the environment variables that torch, oneDNN, MKL
and OpenBLAS read when they start) and a number of threads. Before the tests of a setting, the
operations that it changes are printed: the sum of the results on this machine and under the
setting, which differ although the operands are the same. A setting that should change an operation
here and does not is an error: its tests would prove nothing. ``one-ulp`` is no processor: it moves
the results of all matrix products by up to one ulp (see ``one_ulp.py``). ``sse-ulp`` is two in one,
for continuous integration; it runs only when it is named.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
QUICK = ["ops", "regularizers", "losses", "miners", "mixing", "memory", "samplers"]
NUMERIC = [*QUICK, "evaluation", "models", "training"]
ABOUT_PROCESSES = ["allocator", "killed", "loggers", "profiling"]
"""Tests of training that compare no numbers, and take long."""


class Setting(NamedTuple):
    """How to compute: variables that the libraries read, and a plugin of pytest."""

    variables: dict[str, str]
    threads: int
    plugins: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this process, with nothing of another setting in it."""
        known = {name for setting in SETTINGS.values() for name in setting.variables}
        kept = {name: value for name, value in os.environ.items() if name not in known}
        paths = [str(HERE), *filter(None, [kept.get("PYTHONPATH")])]
        kept |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(self.threads)}
        kept["OMP_WAIT_POLICY"] = "passive"  # there are more threads than cores
        return kept | self.variables

    def operations(self) -> dict[str, Any]:
        """What the machine computes under this setting."""
        command = [sys.executable, str(HERE / "operations.py"), *self.plugins]
        found = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        )
        described: dict[str, Any] = json.loads(found.stdout)
        return described

    def changes(self, own: dict[str, Any]) -> set[str]:
        """The operations that this setting must change on such a machine."""
        found = {"matrix product"} if self.plugins else set()
        if self.threads > 1:
            found.add("sum")
        if self.variables.get("MKL_CBWR") == "COMPATIBLE" and own["mkl"]:
            found.add("matrix product")
        if self.variables.get("ATEN_CPU_CAPABILITY") == "default":
            found.add("softmax")
        if self.variables.get("ONEDNN_MAX_CPU_ISA") == "SSE41" and own["onednn"]:
            found.add("convolution")
        return found


# The oldest x86 processors that the libraries know, and those with AVX2 but without AVX-512.
SSE = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Prescott",
}
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
# Of the above the matrix products alone: torch.randn of float32 depends on ATEN_CPU_CAPABILITY, so
# that tests may get other data with SSE.
PRODUCTS = {"MKL_CBWR": "COMPATIBLE"}

SETTINGS = {
    "sse-1": Setting(SSE, 1),
    "sse-2": Setting(SSE, 2),
    "products": Setting(PRODUCTS, 2),
    "avx2-1": Setting(AVX2, 1),
    "avx2-2": Setting(AVX2, 2),
    "one-ulp": Setting({}, 1, ("one_ulp",)),
    "sse-ulp": Setting(SSE, 1, ("one_ulp",)),
}


def show(name: str, own: dict[str, Any]) -> bool | None:
    """Print what a setting changes.

    Returns:
        Whether it changes what it must; None where nothing changes and nothing need.
    """
    setting = SETTINGS[name]
    variables = " ".join(f"{key}={value}" for key, value in setting.variables.items())
    print(f"\n{name}: OMP_NUM_THREADS={setting.threads} {variables}".rstrip())
    here, there = own["sums"], setting.operations()["sums"]
    changed = {operation for operation in here if here[operation] != there[operation]}
    for operation in sorted(changed):
        print(f"  {operation}: the sum {here[operation]!r} becomes {there[operation]!r}")
    if missing := setting.changes(own) - changed:
        print(f"  error: this should have changed and did not: {', '.join(sorted(missing))}")
        return False
    if not changed and own["instructions"] == "AVX512":
        print("  error: nothing changed, although this machine has AVX-512")
        return False
    if not changed:
        print(f"  left out: changes nothing on this machine, which has {own['instructions']}")
        return None
    return True


def test(name: str, folders: list[str], options: list[str]) -> bool:
    """Run the tests under a setting; whether they pass."""
    setting, workers = SETTINGS[name], os.cpu_count() or 1
    ignored = (f"--ignore-glob=*/training/test_{file}.py" for file in ABOUT_PROCESSES)
    options = ["-n", str(workers), *options, *ignored]
    for plugin in setting.plugins:
        options += ["-p", plugin]
    command = [sys.executable, "-m", "pytest", *options, *(str(TESTS / each) for each in folders)]
    sys.stdout.flush()
    code = subprocess.run(command, cwd=TESTS.parent, env=setting.environment).returncode
    if code not in (0, 1):
        print(f"  error: pytest ended with code {code}")
    return code == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("settings", nargs="*", metavar="setting", help=", ".join(SETTINGS))
    parser.add_argument("--quick", action="store_true", help="the quick numeric tests only")
    parser.add_argument("--show", action="store_true", help="run no tests")
    parser.add_argument("--pytest", default="", help="options for pytest, in one string")
    given = parser.parse_args()
    if unknown := set(given.settings) - set(SETTINGS):
        parser.error(f"no setting {', '.join(sorted(unknown))}; there are {', '.join(SETTINGS)}")
    own = Setting({}, 1).operations()
    print(f"this machine has {own['instructions']}")
    failed = []
    for name in given.settings or [each for each in SETTINGS if each != "sse-ulp"]:
        if SETTINGS[name].variables and own["instructions"] not in ("AVX2", "AVX512"):
            print(f"\n{name}: left out, a choice of instructions needs a processor with AVX2")
            continue
        fine = show(name, own)
        if fine and not given.show:
            fine = test(name, QUICK if given.quick else NUMERIC, given.pytest.split())
        if fine is False:
            failed.append(name)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nevery setting is fine")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
