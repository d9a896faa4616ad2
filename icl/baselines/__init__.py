"""Baselines: closed forms and oracles that trained models are compared with.

A baseline knows the task and says what a perfect learner of some kind reaches on it;
what is read off a trained model is in `icl.measures`.
"""
