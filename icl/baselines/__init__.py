"""Baselines: closed forms and oracles to compare trained models with.

A baseline knows the task and says what a perfect learner of some kind reaches on it.
`icl.measures` has what is measured on a trained model.
"""
