"""The exercises of the lesson, with checks, hints and wrong answers that the checks must refuse.

NOT WRITTEN YET: three or four of them, graded.
"""

import numpy as np

from icml26.lab.check import Exercise

VARIANCE = (np.e**2 - 1) / 2 - (np.e - 1) ** 2
COVARIANCE = np.e - (np.e - 1) ** 2
POINTS = np.linspace(0, 1, 9)


def _is_a_number(answer: object) -> bool:
    return isinstance(answer, int | float | np.floating) and not isinstance(answer, bool)


EXERCISES = {
    "variance": Exercise(
        id="variance",
        title="The variance of exp(U)",
        tests=[
            ("it is a number", _is_a_number),
            ("it is positive", lambda answer: answer > 0),
            ("it equals E[exp(2U)] − E[exp(U)]²", lambda answer: abs(answer - VARIANCE) < 1e-6),
        ],
        hints=[
            "assign a float to `variance`",
            "a variance is a mean of squares",
            "E[exp(2U)] is (e² − 1)/2, and E[exp(U)] is e − 1",
        ],
        wrong={
            "standard deviation": VARIANCE**0.5,
            "second moment": (np.e**2 - 1) / 2,
            "sign": -VARIANCE,
        },
    ),
    "saved": Exercise(
        id="saved",
        title="How many values mirrored pairs save",
        tests=[
            ("it is a number", _is_a_number),
            ("mirrored pairs help here", lambda answer: answer > 1),
            ("it is a ratio of variances", lambda answer: abs(answer * (1 + COVARIANCE / VARIANCE) - 1) < 1e-3),
        ],
        hints=[
            "assign a float to `saved`",
            "divide the variance of the plain estimate by that of the mirrored one",
            "the mirrored estimate has variance (V + C)/n, where C is the covariance of exp(U) and exp(1 − U)",
        ],
        wrong={
            "upside down": 1 + COVARIANCE / VARIANCE,
            "errors instead of variances": (1 + COVARIANCE / VARIANCE) ** -0.5,
            "covariance with its sign lost": VARIANCE / (VARIANCE - COVARIANCE),
        },
    ),
    "visible": Exercise(
        id="visible",
        title="The part of f that mirrored pairs see",
        tests=[
            ("it gives a function", lambda answer: callable(answer(np.exp))),
            ("linear functions become constant", lambda answer: np.allclose(answer(lambda u: 3 * u + 1)(POINTS), 2.5)),
            (
                "functions symmetric about 1/2 stay as they are",
                lambda answer: np.allclose(answer(lambda u: (u - 0.5) ** 2)(POINTS), (POINTS - 0.5) ** 2),
            ),
        ],
        hints=[
            "return `lambda u: …`, a new function of u",
            "a pair contributes the mean of f at its two points",
            "a pair contributes (f(u) + f(1 − u))/2",
        ],
        wrong={
            "half forgotten": lambda f: lambda u: f(u) + f(1 - u),
            "only the mirror": lambda f: lambda u: f(1 - u),
            "nothing done": lambda f: f,
        },
    ),
}
