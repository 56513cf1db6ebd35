"""nbval compares stored and new outputs with a numeric tolerance, and with nothing else loosened.

The texts around the numbers must be equal (but for the spaces that align them), integers must be equal, and
floats may differ by one unit of their last printed digit (by a fifth of themselves at most: `1e-05` says
nothing about `2e-05`) or by a relative 1e-3, since CPUs differ in rounding. The full stop after a number is
punctuation, and a float without decimals ("3.]") has the relative tolerance only. A cell tagged
`rtol=0.05` widens that for itself, visibly. When two texts agree in this sense nbval is handed the stored
one; otherwise its own comparison runs and reports.
"""

import copy
import math
import re

from nbval.plugin import IPyNbCell

RTOL = 1e-3
COARSEST = 0.2  # the last printed digit of a float may mean this much of it: 0.5 and 0.6, not 0.1 and 0.2
NUMBER = re.compile(r"([-+]?(?:\d+\.\d+|\d+\.(?=[],;)eE])|\.\d+|\d+)(?:[eE][-+]?\d+)?)")
SPACES = re.compile(r"[ \t]+")


def unit(number: str) -> float:
    """One unit of the last printed digit: 0.01 for "1.25", 1e-7 for "3.1e-6", none (0) for "3."."""
    mantissa, _, exponent = number.lower().partition("e")
    if mantissa.endswith("."):
        return 0.0
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def close(stored: str, new: str, rtol: float = RTOL) -> bool:
    """Whether two printed texts say the same, up to the tolerance of the floats in them."""
    ours, theirs = NUMBER.split(stored), NUMBER.split(new)
    if len(ours) != len(theirs):
        return False
    if any(
        SPACES.sub(" ", a).strip(" ") != SPACES.sub(" ", b).strip(" ")
        for a, b in zip(ours[::2], theirs[::2], strict=True)
    ):
        return False
    return all(_same(a, b, rtol) for a, b in zip(ours[1::2], theirs[1::2], strict=True))


def _same(stored: str, new: str, rtol: float) -> bool:
    if stored == new:
        return True
    if all(digits.lstrip("+-").isdigit() for digits in (stored, new)):
        return int(stored) == int(new)
    a, b = float(stored), float(new)
    size = max(abs(a), abs(b))
    last_digit = min(unit(stored), unit(new), COARSEST * size) * (1 + 1e-9)
    return math.isfinite(a) and abs(a - b) <= max(last_digit, rtol * size)


def tolerance(tags: list[str]) -> float:
    """The relative tolerance of a cell: from its tag rtol=..., else 1e-3."""
    given = [tag.partition("=")[2] for tag in tags if tag.startswith("rtol=")]
    return float(given[0]) if given else RTOL


def _fields(outputs: list) -> list[tuple[str, dict, str]]:
    """Every text that nbval compares, in order: (what nbval files it under, the dict that holds it, its key)."""
    found = []
    for output in outputs:
        if output.output_type == "stream":
            found.append((output.name, output, "text"))
            continue
        for key in output:
            if key == "data":
                found += [(kind, output[key], kind) for kind in output[key]]
            else:
                found.append((key, output, key))
    return found


def lend(cell: IPyNbCell, new: list, stored: list, rtol: float) -> list:
    """The new outputs, with each text that is close to the stored one replaced by it."""
    lent = copy.deepcopy(new)
    references: dict[str, list] = {}
    for kind, holder, key in _fields(stored):
        references.setdefault(kind, []).append(holder[key])
    for kind, holder, key in _fields(lent):
        waiting = references.get(kind)
        if not waiting:
            continue
        reference, value = waiting.pop(0), holder[key]
        texts = isinstance(reference, str) and isinstance(value, str)
        if texts and close(cell.sanitize(reference), cell.sanitize(value), rtol):
            holder[key] = reference
    return lent


_original = IPyNbCell.compare_outputs


def compare_outputs(self, test, ref, skip_compare=None):
    rtol = tolerance(self.cell.metadata.get("tags", []))
    return _original(self, lend(self, test, ref, rtol), ref, skip_compare)


IPyNbCell.compare_outputs = compare_outputs
