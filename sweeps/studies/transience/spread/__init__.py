"""The control study of the transience paper: how exemplars of a class differ."""
