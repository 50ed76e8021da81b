"""Numbers for people."""

from __future__ import annotations


def short(number: float) -> str:
    """A large number in a few characters.

    >>> short(1_512_345), short(12_000), short(999_999), short(7)
    ('1.51 M', '12.0 k', '1.00 M', '7')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # what would be rounded up to it as well
            number /= size
            decimals = max(0, 3 - len(str(int(number))))
            return f"{number:.{decimals}f} {unit}"
    return f"{number:.0f}"


def milliseconds(value: float) -> str:
    """A time in milliseconds, in a few characters.

    >>> milliseconds(0.12345), milliseconds(1234.5)
    ('0.123', '1234')
    """
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
