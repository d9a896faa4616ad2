"""Runs per hour for a study of 32 runs: packed, or with one process for each run.

`python benchmarks/sweep.py`. The runs are seeds of the induction-head paper's main run,
cut to 10⁵ sequences. With longer runs, the ratio grows to that of the steps alone
(RESULTS.md, Training step). The variants run one after another on one machine: one
process a run, one at a time (a quarter of the runs); one process a run, as many at a
time as there are cores (half of the runs); and packed. Peak memory is that of the
largest process, as the kernel reports it.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


STUDY = """
import dataclasses
from icl.training.schedules import Every
from icl.presets.induction import induction
from icl.training import Training
from sweeps import Trial

def trials(scale, folder, data):
    base = induction()
    every = Every(20_000)
    training = Training({length}, evaluate_at=every, checkpoint_at=every)
    for seed in range({runs}):
        changed = dataclasses.replace(base, init_seed=seed, training=training)
        yield Trial(f"seed-{{seed}}", changed)
"""


def main() -> None:
    """Prints a table of runs per hour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--length", type=int, default=100_000)
    options = parser.parse_args()
    print("| | runs | seconds | runs an hour | ratio | peak MiB of a process |")
    print("| --- | --: | --: | --: | --: | --: |")
    # Not `icl.devices.cores`: against.py also runs this with commits that lack it.
    few, many = options.runs // 4, os.cpu_count() or 1
    rows = [
        ("one process a run", few, ("--members", 1)),
        (f"… {many} at a time", 2 * few, ("--members", 1, "--jobs", many)),
        ("packed, 8 members", options.runs, ("--members", 8)),
        ("packed, all members", options.runs, ("--members", options.runs)),
    ]
    first = None
    for name, runs, arguments in rows:
        seconds, peak = _timed(runs, options.length, arguments)
        rate = 3600 * runs / seconds
        first = first or rate
        print(
            f"| {name} | {runs} | {seconds:.0f} | {rate:.0f} | {rate / first:.2f} | "
            f"{peak / 1024:.0f} |",
            flush=True,
        )


def _timed(runs: int, length: int, arguments: tuple) -> tuple[float, int]:
    """The seconds of a launch, and the peak memory of its largest process in KiB."""
    folder = Path(tempfile.mkdtemp())
    try:
        study = folder / "seeds.py"
        study.write_text(STUDY.format(length=length, runs=runs))
        command = [sys.executable, __file__, "launch", study, "--out", folder / "out"]
        start = time.perf_counter()
        done = subprocess.run(
            [*map(str, command), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        return time.perf_counter() - start, int(done.stdout)
    finally:
        shutil.rmtree(folder)


def launch(arguments: list[str]) -> None:
    """Launches a study and prints the peak memory of its jobs' processes in KiB."""
    subprocess.run([sys.executable, "-m", "sweeps", *arguments], check=True)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


if __name__ == "__main__":
    if sys.argv[1:2] == ["launch"]:
        launch(sys.argv[2:])
    else:
        main()
