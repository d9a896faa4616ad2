"""Compares a replay of 500 checkpoints with a loop that loads and measures each.

`python benchmarks/replay.py`. The model is the paper's with two layers, on 1000
sequences. There are three measures: the loss, the induction strength of each head of
layer 1, and for each head of layer 0 the attention of labels to the token before them.
Both run in turns in one process, and compilation is not timed: the loop calls a
compiled function, and the replay has traced its program before. Stored results of
earlier replays are deleted. The peak memory is what the kernel reports for a process
that replays so many checkpoints.
"""

import argparse
import dataclasses
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def make_run(folder: Path, checkpoints: int) -> None:
    """Trains a run with so many checkpoints: one at the start, one after each step."""
    import icl
    from icl.presets.induction import induction
    from icl.training.schedules import Every

    base = induction()
    steps = Every(32)
    training = dataclasses.replace(
        base.training,
        num_sequences=32 * (checkpoints - 1),
        evaluate_at=Every(32 * (checkpoints - 1)),
        checkpoint_at=steps,
    )
    sets = {"train": icl.EvaluationSet(size=1000)}
    experiment = dataclasses.replace(base, training=training, evaluations=sets)
    icl.run_experiment(experiment, folder)


def prepare(folder: Path):
    """The checkpoints, and two functions of checkpoints: the loop and the replay."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np

    import icl
    import opto
    from icl import measures
    from icl.edits.heads import induction_strength
    from icl.roles import EXEMPLAR, LABEL, QUERY

    trained = icl.load(folder)
    batch = trained.evaluations["train"]
    names = ("loss", "induction", "previous")
    role = jnp.array([EXEMPLAR, LABEL] * 2 + [QUERY])
    pair = jnp.array([0, 0, 1, 1, 2])

    @eqx.filter_jit
    def measured(model, batch):
        sites = ("blocks.0.attn.pattern", "blocks.1.attn.pattern")

        def one(example):
            logits, record = opto.visit(
                trained.task.forward, model, example, record=sites
            )
            first, last = (record[site] for site in sites)
            return (
                trained.task.metrics(logits, example)["loss"],
                induction_strength(last, role, pair, example.labels),
                opto.heads.previous_token(first, role == LABEL),
            )

        values = jax.vmap(one)(batch)
        return jax.tree.map(lambda x: jnp.mean(x, 0), values)

    def loop(checkpoints):
        rows = []
        for at in checkpoints:
            model = trained.run.load(trained.model, at)
            rows.append(jax.device_get(measured(model, batch)))
        columns = zip(names, zip(*rows, strict=True), strict=True)
        return {name: np.stack(values) for name, values in columns}

    asked = {
        "loss": measures.task_metric(trained.task, "loss"),
        "induction": measures.induction_strength(1),
        "previous": measures.previous_token_strength(0),
    }

    def replay(checkpoints):
        shutil.rmtree(folder / "replays", ignore_errors=True)
        return icl.replay(trained, asked, checkpoints=checkpoints)

    return trained.run.checkpoints, loop, replay


def peak_mib(folder: Path, count: int) -> float:
    """The peak memory of a process that replays so many checkpoints."""
    command = [sys.executable, __file__, "--folder", str(folder), "--peak", str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints a table of milliseconds for each checkpoint, and of peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="reuse or make the run here")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak is not None:
        every, _, replay = prepare(options.folder)
        replay(every[: options.peak])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "run"
        if options.folder is None or not folder.exists():
            make_run(folder, options.checkpoints)
        measure(folder, options.rounds)


def measure(folder: Path, rounds: int) -> None:
    """Prints the tables for a run."""
    import jax
    import numpy as np

    every, loop, replay = prepare(folder)
    device = f"{jax.devices()[0].device_kind}, {len(os.sched_getaffinity(0))} cores"
    print(f"{device}, jax {jax.__version__}, Python {platform.python_version()}")
    by_hand, start = loop(every[:2]), time.perf_counter()
    found = replay(every)
    print(f"first replay, with compilation: {time.perf_counter() - start:.1f} s")
    for name, values in by_hand.items():
        np.testing.assert_allclose(found[name][:2], values, rtol=1e-4, atol=1e-5)
    print("| round | loop, ms a checkpoint | replay | ratio |\n|" + " --: |" * 4)
    for number in range(rounds):
        times = []
        for way in (loop, replay):
            start = time.perf_counter()
            way(every)
            times.append((time.perf_counter() - start) / len(every) * 1e3)
        slow, fast = times
        print(f"| {number} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} |", flush=True)
    print("| checkpoints | peak MiB |\n| --: | --: |")
    for part in (10, 2, 1):
        count = len(every) // part
        print(f"| {count} | {peak_mib(folder, count):.0f} |", flush=True)


if __name__ == "__main__":
    main()
