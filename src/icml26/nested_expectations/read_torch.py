"""READ on an accelerator: the recursion of `classical.read` in torch, for stopping links.

On one CPU core the numpy version is the faster one, so that this is its twin for CUDA, not its replacement:
links must be max(floor, mean - fee), which lives on the device as two tables. Sums run through `index_add_`,
whose order is free on CUDA: results repeat under a seed up to rounding only.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from icml26.nested_expectations.classical import Draws, OneStep, check_r, read_cost_mean, stopping_link
from icml26.nested_expectations.problems import RNE, Real

__all__ = ["read_on_device"]


def read_on_device(
    problem: RNE,
    samples: int,
    seed: int,
    device: str | torch.device,
    r: Real = 0.6,
    draws_at_once: int = 1 << 22,
) -> Draws:
    """`samples` READ draws as in `classical.read`, on a torch device, in batches of about `draws_at_once`.

    A batch holds all children of its draws, so one draw of level N needs about 2^N · 50 bytes. Raises
    ValueError for links that are no stopping links, and as `classical.read` does.
    """
    check_r(r)
    if samples < 1:
        raise ValueError(f"samples must be at least 1 (no empty batch), got {samples}")
    if draws_at_once < 1:
        raise ValueError(f"draws_at_once must be at least 1, got {draws_at_once}")
    tree = _DeviceTree(problem, seed, torch.device(device), float(r))
    batch = max(1, int(draws_at_once / read_cost_mean(problem.depth, min(float(r), 0.64))))
    values, costs = [], []
    for start in range(0, samples, batch):
        value, cost = tree.outer(min(batch, samples - start))
        values.append(value.cpu().numpy())
        costs.append(cost.cpu().numpy())
    return Draws(np.concatenate(values), np.concatenate(costs))


class _DeviceTree:
    def __init__(self, problem: RNE, seed: int, device: torch.device, r: float) -> None:
        self.device, self.depth, self.r = device, problem.depth, r
        self.random = torch.Generator(device=device).manual_seed(seed)
        step = OneStep(problem)
        self.outcomes = step.outcomes
        self.tables = [tuple(torch.from_numpy(t).to(device) for t in table) for table in step.tables]
        links = [stopping_link(problem, date) for date in range(problem.depth)]
        self.floor = [torch.from_numpy(link.floor).to(device) for link in links]
        self.fee = [torch.from_numpy(link.fee).to(device) for link in links]
        self.payoff = torch.from_numpy(problem.value(np.arange(problem.size(problem.depth)))).to(device)

    def uniform(self, n: int) -> Float[Tensor, " n"]:
        return torch.rand(n, generator=self.random, device=self.device, dtype=torch.float64)

    def draw(self, date: int, node: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        keep, first, second = self.tables[date]
        u = self.uniform(node.numel()) * self.outcomes
        column = u.long()
        u -= column
        column += self.outcomes * node
        return torch.where(u < keep[column], first[column], second[column])

    def link(self, date: int, node: Int[Tensor, " n"], mean: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        return torch.maximum(self.floor[date][node], mean - self.fee[date][node])

    def outer(self, n: int) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        value, cost = self.estimate(1, self.draw(0, torch.zeros(n, dtype=torch.int64, device=self.device)))
        return value, cost + 1

    def estimate(self, date: int, node: Int[Tensor, " n"]) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        if date == self.depth:
            return self.payoff[node], torch.zeros_like(node)
        n = node.numel()
        # P(level >= l) = P(1 - u <= (1-r)^l) = (1-r)^l
        level = (torch.log1p(-self.uniform(n)) / math.log1p(-self.r)).long()
        half = torch.bitwise_left_shift(torch.ones_like(level), level) >> 1
        units = torch.stack([half.clamp(min=1), half], dim=1).ravel()
        unit = torch.repeat_interleave(torch.arange(2 * n, device=self.device), units)
        value, cost = self.estimate(date + 1, self.draw(date, node[unit >> 1]))
        sums = value.new_zeros(2 * n).index_add_(0, unit, value)
        costs = cost.new_zeros(n).index_add_(0, unit >> 1, cost + 1)
        result = self.link(date, node, value[(units.cumsum(0) - units)[::2]])
        many = torch.nonzero(level).ravel()
        y, size = node[many], half[many].double()
        one, two = sums[2 * many] / size, sums[2 * many + 1] / size
        delta = self.link(date, y, 0.5 * (one + two))
        delta -= 0.5 * (self.link(date, y, one) + self.link(date, y, two))
        result[many] += delta / (self.r * (1.0 - self.r) ** level[many].double())
        return result, costs
