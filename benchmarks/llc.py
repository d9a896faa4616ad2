"""The rate at which the local learning coefficient is drawn, beside devinterp's.

    python benchmarks/llc.py --peer ENVIRONMENT/bin/python [--batch-size 32]

16 chains of 20 checkpoints of `regression_transformer_small` are one compiled program
of `icl.replay`. devinterp (`llc_torch.py`, in an environment of its own) samples one
chain of one checkpoint after another, so that its rate does not depend on how many.
Both have the same weights, sequences and settings; a draw is one step of one chain. The
rounds alternate. The memory is the largest of a process that replays 5 or 20
checkpoints.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from jax.flatten_util import ravel_pytree

import icl
from icl import measures
from icl.presets.gradient_descent import regression_transformer_small
from icl.training.freezing import trained_part


CHAINS, CHECKPOINTS = 16, 20


def train(folder: Path) -> None:
    """A short run with 20 checkpoints."""
    experiment = regression_transformer_small(steps=400)
    icl.run_experiment(experiment, folder)


def measure(draws: int, batch_size: int) -> measures.OfModel:
    """The estimate with the settings of `llc_torch.py`."""
    return measures.llc(draws, 0, CHAINS, 1e-7, 100.0, batch_size=batch_size)


def replay(folder: Path, draws: int, batch_size: int, checkpoints: int) -> float:
    """The seconds of a replay of which nothing is stored."""
    shutil.rmtree(folder / "replays", ignore_errors=True)
    some = icl.Run(folder).checkpoints[1 : checkpoints + 1]
    start = time.perf_counter()
    icl.replay(folder, {"llc": measure(draws, batch_size)}, checkpoints=some)
    return time.perf_counter() - start


def given(folder: Path, file: Path) -> None:
    """Writes weights and sequences for PyTorch."""
    trained = icl.load(folder)
    batch = trained.evaluations["train"]
    weights = ravel_pytree(trained_part(trained.model)[0])[0]
    x = np.concatenate([batch.context_x, batch.query_x], 1)
    y = np.concatenate([batch.context_y, batch.query_y], 1)
    np.savez(file, weights=np.asarray(weights), x=x, y=y)


def peak(folder: Path, checkpoints: int) -> float:
    """The memory in MiB of a process that replays some checkpoints."""
    command = [sys.executable, __file__, "--only", str(folder), str(checkpoints)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(told.split()[-1]) / 1024


def main() -> None:
    """Times both in turns, and prints a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs=2)
    options = parser.parse_args()
    if options.only:
        replay(Path(options.only[0]), 2, 32, int(options.only[1]))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    with tempfile.TemporaryDirectory() as place:
        folder, file = Path(place) / "run", Path(place) / "given.npz"
        train(folder)
        given(folder, file)
        draws, size = options.draws, options.batch_size
        cold = replay(folder, draws, size, CHECKPOINTS)
        for round in range(options.rounds):
            warm = replay(folder, draws, size, CHECKPOINTS)
            ours = CHECKPOINTS * CHAINS * draws / warm
            first = f" (first call {cold:.1f} s)" if not round else ""
            print(f"ours {ours:.0f} draws/s{first}", flush=True)
            if options.peer:
                script = Path(__file__).with_name("llc_torch.py")
                command = [options.peer, script, "rates", "--file", file]
                command += ["--batch-size", str(size)]
                done = subprocess.run(command, check=True, capture_output=True)
                rates = json.loads(done.stdout)
                told = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
                print(f"devinterp {told}", flush=True)
        for count in (5, CHECKPOINTS):
            print(f"memory with {count} checkpoints: {peak(folder, count):.0f} MiB")


if __name__ == "__main__":
    main()
