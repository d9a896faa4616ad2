"""Checks of what users give, with errors that name the argument."""


def positive(name: str, value: object) -> None:
    """Raises `ValueError` unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
