"""The study `noise`: models trained on contexts in which some pairs are wrong."""
