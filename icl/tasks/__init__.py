"""Tasks: one file or folder per family, found because it is here.

A task's config builds the task; `icl.protocols` says what training and commands need of
it. Things that do not depend on the model belong here. The results of a good learner on
a task belong to `icl.baselines`.
"""
