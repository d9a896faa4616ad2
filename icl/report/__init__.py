"""Shows a run: its figures by kind, a page about it, and the demo.

Figures that know nothing about runs belong to `icl.plots`.
"""
