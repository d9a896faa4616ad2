"""Compares this checkout with another commit; `python benchmarks/against.py COMMIT`.

Checks out the other commit in a temporary folder and runs this checkout's benchmarks
with the packages of both, in turns, in this environment. Reads every number of every
table that they print. Each ratio is this checkout's number divided by the other's in
the same round, because other work on the machine changes from minute to minute; the
table shows the median over rounds. A ratio that is worse by more than 5% is marked.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


HERE = Path(__file__).parents[1]
# The benchmarks to compare. In the first, each row is a process with its own peak.
COMMANDS = {
    "train_step": "train_step --settings induction --members 1 8 --steps 10000",
    "other_steps": "train_step --members 1 --settings lsa softmax-copy functions-22 "
    "functions-82 encoder-128",
    "replay": "replay --rounds 3",
    "edits": "edits",
    "sweep": "sweep --runs 8",
}
# More is better in these columns. Of the others, those with a unit in LESS are
# compared, except the time of a matrix product, which depends only on the machine.
MORE = ("steps/s", "with compilation", "runs an hour")
LESS = re.compile(r"\b(?<!matmul CPU )(ms|s|MiB|replay)\b")
ALLOWED = 0.05

# A number by table, row and column.
Numbers = dict[tuple[int, str, str], float]


def read(text: str) -> Numbers:
    """The numbers in all Markdown tables of a text."""
    found: Numbers = {}
    for index, table in enumerate(_tables(text)):
        columns, rows = table[0], table[2:]
        for row in rows:
            for column, cell in zip(columns[1:], row[1:], strict=True):
                if re.fullmatch(r"[\d.]+", cell):
                    found[index, row[0], column] = float(cell)
    return found


def _tables(text: str) -> Iterator[list[list[str]]]:
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        ruler = re.fullmatch(r"\|( -+:? \|| --: \|)+", line)
        if ruler and len(table) > 1:
            # Two tables follow one another without an empty line between them.
            yield table[:-1]
            table = table[-1:]
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            yield table
            table = []


def run(checkout: Path, name: str) -> Numbers:
    """The numbers that a benchmark prints for a checkout; raises if it fails."""
    script, *options = COMMANDS[name].split()
    command = [sys.executable, str(HERE / f"benchmarks/{script}.py"), *options]
    # The checkout's packages come before those of the environment.
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command, cwd=checkout, env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{name} failed in {checkout}:\n{done.stderr[-2000:]}")
    return read(done.stdout)


def compare(name: str, rounds: list[tuple[Numbers, Numbers]]) -> None:
    """Prints a row for each number: this checkout's, the other's, and their ratio."""
    print(
        f"\n{name}\n\n| | | this | other | ratio | |\n| - | - | --: | --: | --: | - |"
    )
    for key in rounds[0][0]:
        _, row, column = key
        more = any(word in column for word in MORE)
        if not (more or LESS.search(column)):
            continue
        pairs = [(ours[key], theirs[key]) for ours, theirs in rounds]
        this, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        if min(min(pair) for pair in pairs) <= 0:
            continue  # Rounded to 0, so there is no ratio.
        ratio = statistics.median(a / b for a, b in pairs)
        worse = (1 / ratio if more else ratio) > 1 + ALLOWED
        mark = "worse" if worse else ""
        print(f"| {row} | {column} | {this:g} | {other:g} | {ratio:.3f} | {mark} |")


def main() -> None:
    """Prints a table for each benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git = ["git", "-C", str(HERE), "worktree"]
        add = [*git, "add", "--quiet", "--detach", str(other), options.commit]
        subprocess.run(add, check=True)
        try:
            for name in options.only:
                turns = [(HERE, other), (other, HERE)]
                rounds: list[tuple[Numbers, Numbers]] = []
                for number in range(options.rounds):
                    # The order changes, so that neither always has a warm disk.
                    found = {side: run(side, name) for side in turns[number % 2]}
                    rounds.append((found[HERE], found[other]))
                compare(name, rounds)
                sys.stdout.flush()
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)


if __name__ == "__main__":
    main()
