"""The exercises of the lesson, with checks, hints and wrong answers that the checks must refuse.

NOT WRITTEN YET: three or four of them, graded.
"""

import numpy as np

from icml26.lab.check import Exercise

PLAIN_VARIANCE = (np.e**2 - 1) / 2 - (np.e - 1) ** 2


def _is_a_number(answer: object) -> bool:
    return isinstance(answer, int | float | np.floating) and not isinstance(answer, bool)


EXERCISES = {
    "variance": Exercise(
        id="variance",
        title="The variance of exp(U)",
        tests=[
            ("it is a number", _is_a_number),
            ("it is positive", lambda answer: answer > 0),
            ("it equals E[exp(2U)] − E[exp(U)]²", lambda answer: abs(answer - PLAIN_VARIANCE) < 1e-6),
        ],
        hints=[
            "assign a float to `variance`",
            "a variance is a mean of squares",
            "E[exp(2U)] is (e² − 1)/2, and E[exp(U)] is e − 1",
        ],
        wrong={
            "standard deviation": PLAIN_VARIANCE**0.5,
            "second moment": (np.e**2 - 1) / 2,
            "sign": -PLAIN_VARIANCE,
        },
    ),
}
