"""The papers, each in one folder: its runs, analyses, figures and claims.

A study is a folder with a file `runs.py` that defines `trials`; it has the folder's
name. A paper's figures are `FIGURES` in its `figures`. Both are found without a list.
Code for several papers is in `sweeps.analysis` and `sweeps.figures`, except what the
two papers on transience share (`_transience.py`).
"""
