"""CPU seconds of commands that compute little, with and without compiled programs.

`python benchmarks/start.py`. Each command runs three times: with the cache of programs
off, with an empty cache, and with what the second time left. They read a short training
of the induction-head paper's main run.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


SHORT = ("--set", "training.num_sequences=12800")


def main() -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run = folder / "run"
        _seconds(("icl", "train", "induction", *SHORT, "--out", run), folder, off=True)
        commands = {
            "icl train, 400 steps": ("icl", "train", "induction", *SHORT),
            "icl eval": ("icl", "eval", run),  # The one that writes nothing.
            "icl ablate": ("icl", "ablate", run),
            "icl patch": ("icl", "patch", run),
            "icl replay": ("icl", "replay", run, "--measure", "induction_strength"),
            "a study of one short run": (
                *("sweeps", "clamps", "--scale", "smoke", "--members", "1"),
                *("--only", "seed-10"),
            ),
        }
        print("| command | cache off | empty cache | second time | ratio |")
        print("| --- | --: | --: | --: | --: |")
        for name, command in commands.items():
            off, empty, second = (
                _seconds((*command, *_out(name, folder / f"out-{k}")), cache, off=not k)
                for k, cache in enumerate([folder, folder / name, folder / name])
            )
            print(
                f"| {name} | {off:.1f} | {empty:.1f} | {second:.1f} | "
                f"{second / off:.2f} |",
                flush=True,
            )


def _out(name: str, path: Path) -> tuple:
    if name == "icl eval":
        return ()
    file = path / name
    file.parent.mkdir(exist_ok=True)
    return "--out", file.with_suffix(".h5") if "replay" in name else file


def _seconds(command: tuple, cache: Path, *, off: bool) -> float:
    """The CPU seconds of a command and of its processes."""
    # As in the Makefile: without bytecode files, a start is three times as long.
    left = {"PYTHONDONTWRITEBYTECODE"} | {k for k in os.environ if k.startswith("JAX_")}
    kept = {k: v for k, v in os.environ.items() if k not in left}
    settings = {"XDG_CACHE_HOME": str(cache), "MPLCONFIGDIR": str(cache.parent / "mpl")}
    if off:
        settings["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    module, *rest = map(str, command)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", module, *rest],
        env=kept | settings,
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
