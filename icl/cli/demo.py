"""`icl demo`: from nothing to induction heads."""

from ..data import HDF5Classes, LowRankClasses
from ..devices import cores, divide_cpu
from ..report.demo import demo as run_demo, report
from .options import parse
from .options.demo import DemoOptions


def demo(arguments: list[str]) -> None:
    """Runs the command.

    **Raises:** `ValueError` for a data set without its file, and as the demo does.
    """
    divide_cpu(cores())
    options = parse(DemoOptions, arguments, "demo")
    if options.path and options.data is None:
        raise ValueError("--path names a data set in a file: give the file with --data")
    if options.data is None:
        source = LowRankClasses()
    else:
        source = HDF5Classes(str(options.data), options.path)
    found = run_demo(source, options.out, num_sequences=options.sequences)
    print(report(found, options.out))
