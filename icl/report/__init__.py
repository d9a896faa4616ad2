"""What a run looks like: its figures by kind, one page about it, and the demo.

Figures that know nothing of runs belong to `icl.plots`.
"""
