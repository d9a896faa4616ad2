"""The papers, each in one folder: its runs, what is read off them, figures and claims.

A study is a folder with a file `runs.py`, which defines `trials`, and has the folder's
name; figures are `FIGURES` of a paper's `figures`. Both are found by being there. What
several papers need, other than what both papers on transience show, is in
`sweeps.analysis` and `sweeps.figures`.
"""
