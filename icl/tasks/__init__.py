"""Tasks: one file or folder a family, found by being here.

A task's config builds it; what training and commands need of one is in
`icl.protocols`. What does not depend on the model belongs here, and what a good learner
reaches on a task to `icl.baselines`.
"""
