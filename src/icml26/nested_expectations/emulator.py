"""The exact law of nested quantum estimators, without a quantum computer and without sampling.

`Est_d(y; l)` estimates gamma_d(y) with error about 2^-l at a cost `T_d(l)` that is a number, not a random
variable. Its law is computed on a register with the 2^b + 1 values 0, 2^-b, ..., 1 (in units of the
problem's scale). Three constructions, all ours in their details (the paper's theorem leaves them open):

- `mean="clip"` (the derandomised estimator). At d = D-1: one amplitude estimation of E[gamma_D | y] with
  M = M0 2^l. Below: for p = 0..l one amplitude estimation with M_p = M0 2^(l-p) of the mean of Delta_p, where
  Delta_0 = C(0), Delta_p = C(p) - C(p-1) and C is the *clipped chain*

      C(0) = Est_{d+1}(0),    C(p) = clip(Est_{d+1}(p), C(p-1) - R_p, C(p-1) + R_p),    R_p = c 2^-p.

  The chain telescopes and |Delta_p| <= R_p surely, so (Delta_p + R_p) / 2R_p is an amplitude.
- `mean="dyadic"`: no clipping; Delta_p = Est(p) - Est(p-1) is split by sign and size into 2 (p+1) dyadic
  shells (Montanaro 2015), each with its own amplitude estimation.
- `telescoping=False`: direct nesting, one amplitude estimation with M = M0 2^l at every date.

Then Est_d = g_d(y, sum of the means), the sum saturating at the register's ends 0 and 1: the true mean lies
between them, so that this never adds error.

The estimate of a term is rounded to the register by splitting its mass between the two neighbours, which
keeps its mean. Cost unit: one application of a one-step sampler or of its inverse (2M - 1 in a run).
"""

from __future__ import annotations

import heapq
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from scipy.fft import next_fast_len
from torch import Tensor

from icml26.nested_expectations.problems import RNE, Real
from icml26.nested_expectations.qae import median_law, outcome_law

__all__ = ["NestedQAE", "clip_law", "growing_M0", "sum_laws"]

# Register entries (nodes times points) handled at once: 64 MiB an array in float64.
CHUNK = 1 << 23


@dataclass(frozen=True)
class _Term:
    """One amplitude estimation: the sum gets (low + span · estimate) 2^-b; amplitudes one for each node."""

    amplitude: Float[np.ndarray, " n"]
    M: int
    low: int
    span: int


def growing_M0(start: int = 16, every: int = 4) -> Callable[[int], int]:
    """M0 that grows like log(1/eps): the power of two next above `start (1 + level / every)`.

    With a fixed M0 the chance that an estimate leaves its clip window does not fall with the level, which
    leaves a bias. Raises ValueError unless both numbers are finite, start >= 1 and every > 0.
    """
    if not (math.isfinite(start) and start >= 1):
        raise ValueError(f"start must be finite and at least 1, got {start!r}")
    if not (math.isfinite(every) and every > 0):
        raise ValueError(f"every must be a finite number of levels above 0, got {every!r}")
    return lambda level: int(2 ** math.ceil(math.log2(start * (1.0 + level / every))))


def clip_law(chain: Float[Tensor, "n g"], fresh: Float[Tensor, "n g"], radius: int) -> Float[Tensor, "n g"]:
    """Law of clip(F, C - radius, C + radius) for independent C ~ `chain` and F ~ `fresh`.

    Both are masses on the register's points, `radius` counts points. O(points) through cumulative sums: the
    mass of F beyond the window lands on the window's edges.
    """
    if radius < 1:
        raise ValueError(f"radius must be at least one register point, got {radius}")
    points = chain.shape[-1]
    below = torch.nn.functional.pad(chain.cumsum(-1), (1, 0))  # below[z] = P(C < z)
    z = torch.arange(points, device=chain.device)
    inside = below[:, (z + radius).clamp(max=points)] - below[:, (z - radius + 1).clamp(min=0)]
    law = fresh * inside
    if radius < points:
        upto = fresh.cumsum(-1)
        law[:, radius:] += chain[:, :-radius] * (upto[:, -1:] - upto + fresh)[:, radius:]  # F >= z = C + radius
        law[:, :-radius] += chain[:, radius:] * upto[:, :-radius]  # F <= z = C - radius
    return law


def sum_laws(laws: list[Float[Tensor, "n _"]]) -> Float[Tensor, "n w"]:
    """Law of a sum of independent terms, each given by masses on consecutive points; by rFFT.

    The two narrowest are added first, as in Huffman's code, so that the work is that of the widest few.
    """
    order = itertools.count()  # breaks ties: tensors have no order
    heap = [(law.shape[-1], next(order), law) for law in laws]
    heapq.heapify(heap)
    while len(heap) > 1:
        (n, _, one), (m, _, two) = heapq.heappop(heap), heapq.heappop(heap)
        size = next_fast_len(n + m - 1, real=True)
        spectrum = torch.fft.rfft(one, size) * torch.fft.rfft(two, size)
        heapq.heappush(heap, (n + m - 1, next(order), torch.fft.irfft(spectrum, size)[..., : n + m - 1]))
    return heap[0][2]


class NestedQAE:
    """Exact law and cost of a nested amplitude estimate of `problem`, level by level.

    Args:
        problem: any nested expectation.
        M0: phase states of the smallest amplitude estimation, a power of two; or a function of the level
            asked for, such as `growing_M0()`.
        c: half-width of the clip window at p = 0, in units of the scale.
        window: phase window, "cosine" or "flat".
        grid_bits: b; the register holds 2^b + 1 values. 2^-b should be below RMSE / 8 (see `resolved`).
        mean: "clip" or "dyadic"; unused without telescoping.
        telescoping: False nests directly.
        repeats: odd number of runs of each amplitude estimation whose median is taken.
        device: torch device of the registers.
        chunk: register entries held at once in a temporary array.

    Raises:
        ValueError: M0 no power of two, c outside (0, 1], bits outside 1..26, even repeats, unknown names,
            a negative level, or a window narrower than the register resolves.
    """

    def __init__(
        self,
        problem: RNE,
        M0: int | Callable[[int], int] = 16,
        c: Real = 0.5,
        window: str = "cosine",
        grid_bits: int = 14,
        mean: Literal["clip", "dyadic"] = "clip",
        telescoping: bool = True,
        repeats: int = 1,
        device: str | torch.device = "cpu",
        chunk: int = CHUNK,
    ) -> None:
        if not 0.0 < c <= 1.0:
            raise ValueError(f"c must lie in (0, 1], got {c!r}")
        if window not in ("cosine", "flat"):
            raise ValueError(f"window must be 'cosine' or 'flat', got {window!r}")
        if mean not in ("clip", "dyadic"):
            raise ValueError(f"mean must be 'clip' or 'dyadic', got {mean!r}")
        if isinstance(grid_bits, bool) or not isinstance(grid_bits, int) or not 1 <= grid_bits <= 26:
            raise ValueError(f"grid_bits must be a whole number in 1..26, got {grid_bits!r}")
        if isinstance(repeats, bool) or not isinstance(repeats, (int, np.integer)):
            raise TypeError(f"repeats must be a whole number, got {repeats!r}")
        if repeats < 1 or repeats % 2 == 0:
            raise ValueError(f"repeats must be odd and positive, got {repeats}")
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, got {chunk}")
        self.problem, self.c, self.window, self.grid_bits = problem, c, window, grid_bits
        self.mean, self.telescoping, self.repeats = mean, telescoping, repeats
        self.device, self.chunk = torch.device(device), chunk
        self._M0 = M0 if callable(M0) else (lambda level, M0=M0: M0)
        self._fixed: dict[int, _Fixed] = {}
        self.M0(0)

    def M0(self, level: int) -> int:
        """Phase states of the smallest amplitude estimation when `level` is asked for."""
        if isinstance(level, bool) or not isinstance(level, (int, np.integer)):
            raise TypeError(f"level must be a whole number, got {level!r}")
        if level < 0:
            raise ValueError(f"level must not be negative, got {level}")
        M0 = self._M0(int(level))
        if isinstance(M0, bool) or not isinstance(M0, (int, np.integer)) or M0 < 2 or M0 & (M0 - 1):
            raise ValueError(f"M0 must be a power of two, at least 2, got {M0!r}")
        return int(M0)

    def _at(self, level: int) -> _Fixed:
        M0 = self.M0(level)
        if M0 not in self._fixed:
            self._fixed[M0] = _Fixed(self, M0)
        return self._fixed[M0]

    @property
    def points(self) -> int:
        return int(2**self.grid_bits + 1)

    @cached_property
    def target(self) -> float:
        """gamma_0, in the problem's unit."""
        return float(self.problem.exact()[0][0])

    def law(self, level: int) -> tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"]]:
        """Values (in the problem's unit) and probabilities of the outermost estimate."""
        values = self.problem.scale * np.arange(self.points) / (self.points - 1)
        return values, self.law_at(0, level)[0]

    def law_at(self, date: int, level: int) -> Float[np.ndarray, "n g"]:
        """Probabilities of Est_date(y; level) on the register, one row for each node y of the date."""
        if not 0 <= date < self.problem.depth:
            raise ValueError(f"date must lie in 0..{self.problem.depth - 1}, got {date}")
        rows = [law.cpu().numpy() for _, law in self._at(level).laws(date, int(level))]
        return np.concatenate(rows)

    def chain_means(self, date: int, level: int) -> Float[np.ndarray, "p n"]:
        """E C(p) for p = 0..level at every node of a date in 1..D-1, in units of the scale.

        Only a telescoping estimator with mean="clip" has such a chain: ValueError for others.
        """
        if not self.telescoping or self.mean != "clip":
            raise ValueError(
                f"chain_means needs telescoping=True and mean='clip', got {self.telescoping} and {self.mean!r}"
            )
        if not 1 <= date < self.problem.depth:
            raise ValueError(f"date must lie in 1..{self.problem.depth - 1}, got {date}")
        return np.stack(self._at(level).statistics(date, int(level))[: level + 1])[:, :, 0]

    def amplitude(self, p: int) -> float:
        """What the outermost amplitude estimation of term p has to find, in [0, 1].

        The mean of Delta_p as (Delta_p + R_p) / 2R_p, of Delta_0 as itself; with direct nesting (at level p) the
        mean of the inner estimate. Raises ValueError for mean="dyadic", whose terms are shells.
        """
        if self.telescoping and self.mean == "dyadic":
            raise ValueError("mean must be 'clip' for one amplitude a term, got 'dyadic'")
        terms = self._at(p).terms(0, p)
        return float(terms[-1].amplitude[0])

    def cost(self, level: int) -> int:
        """Applications of one-step samplers and their inverses, an exact integer."""
        return self._at(level).cost(0, int(level))

    def bias(self, level: int) -> float:
        """Mean of the estimate minus gamma_0, in the problem's unit."""
        values, probs = self.law(level)
        return float(((values - self.target) * probs).sum())

    def rmse(self, level: int) -> float:
        """Root mean square error in the problem's unit; warns when the register is too coarse for it."""
        values, probs = self.law(level)
        error = math.sqrt(max(0.0, float(((values - self.target) ** 2 * probs).sum())))
        if not self.resolved(error):
            warnings.warn(
                f"grid_bits = {self.grid_bits} is too coarse for level {level}: the register's step exceeds "
                "an eighth of the RMSE",
                RuntimeWarning,
                stacklevel=2,
            )
        return error

    def resolved(self, error: float) -> bool:
        """Whether the register's step is at most an eighth of `error` (in the problem's unit)."""
        return self.problem.scale / (self.points - 1) <= error / 8.0


class _Fixed:
    """The laws for one M0, with what is known of every date kept for the next level."""

    def __init__(self, settings: NestedQAE, M0: int) -> None:
        self.set, self.problem, self.M0 = settings, settings.problem, M0
        self.steps = settings.points - 1
        self._chain: dict[tuple[int, int], Tensor] = {}
        self._known: dict[int, list[Float[np.ndarray, "n s"]]] = {}
        self._costs: dict[tuple[int, int], int] = {}
        self._laws = [self.problem.children(d, np.arange(self.problem.size(d))) for d in range(self.problem.depth)]

    # ---- cost

    def cost(self, date: int, level: int) -> int:
        if date == self.problem.depth:
            return 0
        if (date, level) not in self._costs:
            self._costs[date, level] = self._cost(date, level)
        return self._costs[date, level]

    def _cost(self, date: int, level: int) -> int:
        K, inner = self.set.repeats, date + 1
        if not self.set.telescoping or inner == self.problem.depth:
            return K * (2 * (self.M0 << level) - 1) * (1 + self.cost(inner, level))
        total = 0
        for p in range(level + 1):
            runs = K * (2 * (self.M0 << level - p) - 1)
            if self.set.mean == "clip":
                total += runs * (1 + sum(self.cost(inner, q) for q in range(p + 1)))
            else:
                shells = 2 * (p + 1) if p else 1
                total += shells * runs * (1 + sum(self.cost(inner, q) for q in range(max(0, p - 1), p + 1)))
        return total

    # ---- what the outer estimation has to find

    def radius(self, p: int) -> int:
        """R_p in register steps, rounded down."""
        radius = int(self.set.c * self.steps / 2**p)
        if radius < 1:
            raise ValueError(f"grid_bits = {self.set.grid_bits} cannot hold the clip window c 2^-p of level p = {p}")
        return radius

    def terms(self, date: int, level: int) -> list[_Term]:
        """The amplitude estimations whose results Est_date(.; level) adds up."""
        child, law = self._laws[date]
        top = self.M0 * 2**level
        if date + 1 == self.problem.depth:
            payoff = self.problem.value(np.arange(self.problem.size(date + 1))) / self.problem.scale
            if not (np.isfinite(payoff).all() and payoff.min() >= 0.0 and payoff.max() <= 1.0 + 1e-12):
                raise ValueError(f"problem: a payoff leaves [0, scale = {self.problem.scale:g}]")
            return [_Term((law * payoff[child]).sum(axis=1), top, 0, self.steps)]
        inner = self.statistics(date + 1, level)
        means = [(law[:, :, None] * known[child]).sum(axis=1) for known in inner[: level + 1]]
        if not self.set.telescoping:
            return [_Term(means[level][:, 0], top, 0, self.steps)]
        terms = [_Term(means[0][:, 0], top, 0, self.steps)]
        for p in range(1, level + 1):
            M = self.M0 * 2 ** (level - p)
            if self.set.mean == "clip":
                radius = self.radius(p)
                shift = (means[p][:, 0] - means[p - 1][:, 0]) * self.steps
                terms.append(_Term((shift + radius) / (2 * radius), M, -radius, 2 * radius))
            else:
                for sign, column in ((1, 0), (-1, p + 1)):
                    for k in range(p + 1):
                        terms.append(_Term(means[p][:, column + k], M, 0, sign * (self.steps >> k)))
        return terms

    def statistics(self, date: int, level: int) -> list[Float[np.ndarray, "n s"]]:
        """For p = 0..level, what the outer amplitudes need of Est_date(y; p) at every node y.

        clip: the mean of the chain; direct: the mean; dyadic: the scaled means over the 2 (p+1) shells.
        """
        known = self._known.setdefault(date, [])
        while len(known) <= level:
            p = len(known)
            rows = []
            # Kept apart until the level is complete: an interrupted call must not leave half a new chain.
            chain: dict[tuple[int, int], Tensor] = {}
            for start, law in self.laws(date, p):
                if not self.set.telescoping or p == 0:
                    rows.append(self._mean(law))
                elif self.set.mean == "clip":
                    law = clip_law(self._chain[date, start], law, self.radius(p))
                    rows.append(self._mean(law))
                else:
                    rows.append(self._shells(law, self._chain[date, start], p))
                if self.set.telescoping:
                    chain[date, start] = law
            # Nothing between these two lines can fail; an interrupt between them is refused by the count.
            level_done = np.concatenate(rows)
            self._chain.update(chain)
            known.append(level_done)
        return known

    def _mean(self, law: Float[Tensor, "n g"]) -> Float[np.ndarray, "n 1"]:
        value = torch.arange(self.steps + 1, dtype=law.dtype, device=law.device) / self.steps
        return (law @ value)[:, None].cpu().numpy()

    def _shells(self, law: Float[Tensor, "n g"], before: Float[Tensor, "n g"], p: int) -> Float[np.ndarray, "n s"]:
        """Means of |Delta| / 2^-k on the shells 2^-(k+1) < |Delta| <= 2^-k, k = 0..p (last: to 0)."""
        difference = sum_laws([law, before.flip(-1)])  # point i stands for (i - steps) 2^-b
        size = torch.arange(-self.steps, self.steps + 1, device=law.device)
        columns = []
        for sign in (1, -1):
            for k in range(p + 1):
                top = self.steps >> k
                inside = (sign * size <= top) & (sign * size > (top >> 1 if k < p else 0))
                columns.append((difference[:, inside] @ (size[inside].abs() / top).to(law.dtype)).cpu())
        return torch.stack(columns, dim=1).numpy()

    # ---- laws

    def laws(self, date: int, level: int) -> Iterator[tuple[int, Float[Tensor, "n g"]]]:
        """(first node, law) of Est_date(.; level), a chunk of nodes at a time."""
        terms = self.terms(date, level)
        size = self.problem.size(date)
        nodes = max(1, self.set.chunk // self.set.points)
        for start in range(0, size, nodes):
            chunk = slice(start, min(start + nodes, size))
            total = sum_laws([self._on_register(term, chunk) for term in terms])
            low = sum(min(term.low, term.low + term.span) for term in terms)
            yield start, self._link(date, np.arange(chunk.start, chunk.stop), self._saturate(total, low))

    def _on_register(self, term: _Term, chunk: slice) -> Float[Tensor, "n w"]:
        """Law of span · estimate, rounded to register steps so that the mean stays."""
        # Rounding errors of the means may push a certain event's amplitude past 1 by a few ulp.
        amplitude = term.amplitude[chunk]
        if amplitude.min() < -1e-9 or amplitude.max() > 1.0 + 1e-9:
            raise AssertionError(f"an amplitude left [0, 1]: {amplitude}")
        values, probs = outcome_law(np.clip(amplitude, 0.0, 1.0), term.M, self.set.window)
        if self.set.repeats > 1:
            values, probs = median_law(values, probs, self.set.repeats)
        mass = torch.from_numpy(probs).to(self.set.device)
        width = abs(term.span)
        place = torch.from_numpy(values if term.span > 0 else 1.0 - values).to(mass) * width
        return _split(mass, place, width + 1)

    def _saturate(self, total: Float[Tensor, "n w"], low: int) -> Float[Tensor, "n g"]:
        """Mass below 0 and above 1 moves to 0 and 1; `low` is the first point's place on the register."""
        points = self.steps + 1
        under, over = max(0, -low), max(0, low + total.shape[-1] - points)
        law = total.new_zeros(total.shape[0], points)
        inner = total[:, under : total.shape[-1] - over]
        law[:, max(0, low) : max(0, low) + inner.shape[-1]] = inner
        law[:, 0] += total[:, :under].sum(-1)
        law[:, -1] += total[:, total.shape[-1] - over :].sum(-1)
        return law

    def _link(self, date: int, node: np.ndarray, law: Float[Tensor, "n g"]) -> Float[Tensor, "n g"]:
        """Law of g_date(y, .)."""
        if date == 0:
            return law
        points, scale = self.steps + 1, self.problem.scale
        mean = np.tile(scale * np.arange(points) / self.steps, node.size)
        g = self.problem.link(date, np.repeat(node, points), mean) / scale
        if not (np.isfinite(g).all() and g.min() >= 0.0 and g.max() <= 1.0 + 1e-12):
            raise ValueError(f"problem: a link value of date {date} leaves [0, scale = {scale:g}]")
        place = np.minimum(g, 1.0) * self.steps
        # A value that is on the register but for rounding errors stays one point: identity links are exact.
        whole = np.rint(place)
        place = np.where(np.abs(place - whole) < 1e-6, whole, place)
        return _split(law, torch.from_numpy(place).to(law).reshape(node.size, points), points)


def _split(mass: Float[Tensor, "n m"], place: Float[Tensor, "*n m"], points: int) -> Float[Tensor, "n g"]:
    """Mass at real places on a grid 0..points-1, divided between both neighbours so that the mean stays."""
    left = place.floor().clamp(max=points - 1)
    right = place - left
    lower = left.long()
    upper = (lower + 1).clamp(max=points - 1)
    out = mass.new_zeros(mass.shape[0], points)
    if place.ndim == 1:
        return out.index_add_(1, lower, mass * (1.0 - right)).index_add_(1, upper, mass * right)
    return out.scatter_add_(1, lower, mass * (1.0 - right)).scatter_add_(1, upper, mass * right)
