"""The plots and the explorables of the chapter."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from icml26 import lab
from icml26.nested_expectations.emulator import NestedQAE
from icml26.nested_expectations.problems import LatticeBermudan
from icml26.nested_expectations.qae import outcome_law

STYLES = {
    "direct": ("direct nesting", "vermillion", "s"),
    "clip": ("telescoped, clipped", "blue", "o"),
    "tuned": ("telescoped, best settings", "blue", ""),
    "dyadic, flat, median of 5": ("telescoped, shells", "purple", "^"),
    "floor": ("inner means known", "0.55", "d"),
    "READ": ("READ", "green", "D"),
    "derandomised MLMC": ("derandomised MLMC", "orange", "v"),
    "nested Monte Carlo": ("nested Monte Carlo", "black", "x"),
    "Longstaff-Schwartz": ("Longstaff–Schwartz", "sky", "P"),
}


def plot_tree(problem: LatticeBermudan) -> Figure:
    """The nesting as a lattice: one dot a node, its shade the chance to get there; a ring where stopping is best."""
    figure, axes = plt.subplots(figsize=(7.0, 3.8))
    chance: Float[np.ndarray, " n"] = np.ones(1)
    values = problem.exact()
    for date in range(problem.depth + 1):
        node = np.arange(problem.size(date))
        height = problem.state(date, node)
        if date < problem.depth:
            child, law = problem.children(date, node)
            mass = (chance[:, None] * law).ravel()
            following: Float[np.ndarray, " n"] = np.bincount(child.ravel(), mass, problem.size(date + 1))
            ends = problem.state(date + 1, child.ravel())
            start = np.repeat(height, child.shape[1])
            axes.plot(
                [np.full_like(start, date), np.full_like(ends, date + 1)], [start, ends], color="0.8", lw=0.8, zorder=1
            )
            if date:
                stop = problem.payoff(date, node) >= values[date] - 1e-12
                axes.scatter(
                    node[stop] * 0 + date,
                    height[stop],
                    s=190,
                    facecolors="none",
                    edgecolors=lab.COLOURS["vermillion"],
                    zorder=3,
                    label="stop here",
                )
        axes.scatter(
            np.full_like(height, date),
            height,
            s=70,
            c=chance,
            cmap="Blues",
            vmin=-0.2 * chance.max(),
            edgecolors="black",
            linewidths=0.6,
            zorder=2,
        )
        axes.annotate(
            f"{problem.size(date)} node{'s' if date else ''}",
            (date, height.max()),
            xytext=(0 if date else 12, 10),
            textcoords="offset points",
            ha="center",
            fontsize=11,
        )
        if date < problem.depth:
            chance = following
    axes.axhline(problem.strike, color=lab.COLOURS["green"], ls="--", lw=1.4, label="strike")
    axes.set_xticks(range(problem.depth + 1), ["now", *[f"date {d}" for d in range(1, problem.depth + 1)]])
    axes.set_ylabel("price of the share")
    axes.set_yscale("log")
    axes.set_yticks([20, 30, 40, 60, 80], ["20", "30", "40", "60", "80"])
    axes.minorticks_off()
    axes.set_ylim(None, 1.25 * problem.state(problem.depth, np.array([problem.size(problem.depth) - 1]))[0])
    axes.grid(visible=False)
    axes.legend(loc="lower left")
    return figure


def show_law(angle: int, M: int) -> tuple[Figure, str]:
    """The law of one run of amplitude estimation at theta = `angle` degrees with M phase states, both windows."""
    theta = np.radians(angle)
    a = float(np.sin(theta) ** 2)
    figure, axes = plt.subplots(figsize=(7.0, 3.2))
    text = []
    for window, colour, shift in (("flat", "vermillion", -0.2), ("cosine", "blue", 0.2)):
        values, probs = outcome_law(a, M, window)
        # Fold back: j and M - j carry the same estimate, and each half the mass.
        j = np.arange(M)
        mass = probs[np.minimum(j, M - j)] * np.where((j == 0) | (j == M // 2), 1.0, 0.5)
        axes.bar(180.0 * (j + shift) / M, mass, width=0.4 * 180.0 / M, color=lab.COLOURS[colour], label=window)
        text.append(f"{window}: RMSE {np.sqrt(probs @ (values - a) ** 2):.4f}")
    for mark in (angle, 180 - angle):
        axes.axvline(mark, color="black", ls=":", lw=1.5)
    axes.set_xlabel("outcome 180° j / M")
    axes.set_ylabel("probability")
    axes.set_xlim(-6, 186)
    axes.set_yscale("log")  # stray outcomes are rare, and it is they that spoil the RMSE
    axes.set_ylim(1e-4, 1.5)
    axes.legend(loc="upper center")
    return figure, f"a = {a:.4f}   " + "   ".join(text)


def show_window(M0: int, c: float) -> tuple[Figure, str]:
    """Error and bias of the clipped estimator at D = 2 against cost, for a smallest M and a clip width."""
    emulator = NestedQAE(LatticeBermudan(), M0=M0, c=c, grid_bits=13)
    scale = emulator.problem.scale
    levels = range(8)
    cost = np.array([float(emulator.cost(level)) for level in levels])
    moments = []
    for level in levels:
        values, probs = emulator.law(level)
        moments.append(
            (np.sqrt(probs @ (values - emulator.target) ** 2) / scale, abs(probs @ (values - emulator.target)) / scale)
        )
    rmse, bias = np.array(moments).T
    figure, axes = plt.subplots(figsize=(7.0, 3.2))
    axes.loglog(cost, rmse, "o-", color=lab.COLOURS["blue"], label="RMSE")
    axes.loglog(cost, bias, "s--", color=lab.COLOURS["vermillion"], label="|bias|")
    axes.set_xlim(1e2, 1e8)
    axes.set_ylim(1e-6, 1)
    axes.set_xlabel("cost in sampler calls")
    axes.set_ylabel("error / strike")
    axes.legend(loc="lower left")
    return figure, f"level 7: cost {cost[-1]:.3g}, RMSE {rmse[-1]:.6f}, bias {bias[-1]:.6f}"


def plot_windows(frame: pd.DataFrame, column: str = "rmse_mean") -> Figure:
    """RMSE of amplitude estimation against queries, by window. frame: the table `windows`."""
    figure, axes = plt.subplots()
    for (method, rows), name, marker in zip(
        frame.groupby("method", sort=False), ("vermillion", "orange", "blue"), "svo", strict=True
    ):
        axes.loglog(rows["queries"], rows[column], marker=marker, color=lab.COLOURS[name], label=method)
    x = np.array([30.0, 4000.0])
    guide(axes, x, 0.55 * (x / x[0]) ** -0.5, "slope −½")
    guide(axes, x, 0.05 * (x / x[0]) ** -1.0, "slope −1")
    axes.set_xlabel("queries")
    axes.set_ylabel("RMSE")
    axes.legend()
    return figure


def plot_estimators(frame: pd.DataFrame) -> Figure:
    """RMSE against mean queries of five ways to estimate one amplitude. frame: the table `estimators`."""
    figure, axes = plt.subplots()
    for (method, rows), colour, marker in zip(frame.groupby("method", sort=False), lab.COLOURS, "svo^xD", strict=False):
        axes.loglog(rows["queries"], rows["rmse"], marker=marker, color=lab.COLOURS[colour], label=method)
    axes.set_xlabel("queries (mean)")
    axes.set_ylabel("RMSE")
    axes.legend(fontsize=10)
    return figure


def guide(axes: Axes, x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], text: str) -> None:
    """A thin dotted line with its slope written at its end."""
    axes.loglog(x, y, color="0.45", ls=":", lw=1.4)
    axes.annotate(
        text, (x[-1], y[-1]), fontsize=11, color="0.3", xytext=(3, 0), textcoords="offset points", va="center"
    )


def plot_costs(tail: pd.DataFrame, costs: Int[np.ndarray, " n"], fixed: int) -> Figure:
    """READ's cost: histogram and tail, beside the one cost of a derandomised estimate.

    tail: rows of the table `read_tail` for one depth; costs: single costs of a live sample; fixed: the one cost.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4))
    bins = np.geomspace(1.5, max(costs.max(), fixed) * 2.0, 26)
    left.hist(costs, bins=bins, color=lab.COLOURS["green"], label="READ, one draw")
    left.axvline(fixed, color=lab.COLOURS["blue"], lw=3, label="telescoped, always")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("cost in sampler calls")
    left.set_ylabel("draws")
    seen = tail.groupby("t")["tail"].mean()
    seen = seen[seen > 0]
    right.loglog(seen.index, seen, "o", color=lab.COLOURS["green"], label="P(cost > t)")
    t = np.array([8.0, seen.index.max()])
    guide(right, t, seen.loc[8] * (t / 8.0) ** -np.log2(1 / 0.4), f"−{np.log2(1 / 0.4):.2f}")
    right.set_xlabel("t")
    figure.legend(loc="outside upper center", ncols=3, fontsize=11)
    return figure


def plot_race(curves: dict[int, dict[str, pd.DataFrame]]) -> Figure:
    """RMSE against cost, a panel for each depth. curves: depth -> method -> frame with `cost` and `rmse`."""
    figure, panels = plt.subplots(len(curves), 1, figsize=(7.0, 3.6 * len(curves) + 0.8))
    for axes, (depth, methods) in zip(np.atleast_1d(panels), curves.items(), strict=True):
        for method, rows in methods.items():
            label, colour, marker = STYLES[method]
            shade = lab.COLOURS.get(colour, colour)
            axes.loglog(rows["cost"], rows["rmse"], marker=marker, ms=5, lw=1.6, color=shade, label=label)
        x = np.array([1e3, 1e8])
        for power, text in ((-1.0, "−1"), (-0.5, "−½"), (-1 / 3, "−⅓")):
            axes.loglog(x, 0.2 * (x / x[0]) ** power, color="0.6", ls=":", lw=1.2)
            axes.annotate(text, (x[1], 0.2 * (x[1] / x[0]) ** power), fontsize=10, color="0.3")
        axes.set_title(f"D = {depth}")
        axes.set_xlabel("sampler calls")
        axes.set_ylabel("RMSE / strike")
        axes.set_ylim(1e-6, 1)
    handles, labels = np.atleast_1d(panels)[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=11)
    return figure


def plot_levels(frame: pd.DataFrame) -> Figure:
    """E Delta_n^2 of READ by level: lattice against the law of a continuous state. frame: table `read_levels`."""
    figure, axes = plt.subplots()
    shown = frame[frame["second_moment"] > 1e-12]
    axes.semilogy(shown["level"], shown["second_moment"], "o-", color=lab.COLOURS["green"], label="E Δ² on the lattice")
    level = shown["level"].to_numpy(dtype=float)
    axes.semilogy(
        level, shown["second_moment"].iloc[0] * 2.0 ** (-1.5 * (level - 1)), ls=":", color="0.4", label="2^(−3n/2)"
    )
    axes.semilogy(
        level,
        shown["second_moment"] / (0.6 * 0.4**level),
        "s--",
        color=lab.COLOURS["vermillion"],
        label="E Δ² / pₙ, its share of the variance",
    )
    axes.set_xlabel("level n")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("squared, in strikes²")
    axes.legend(fontsize=10)
    return figure


def plot_floor(frame: pd.DataFrame) -> Figure:
    """Error and bias by M0 at c = 0.5. frame: the table `sensitivity`."""
    figure, axes = plt.subplots()
    chosen = frame[frame["c"] == 0.5]
    for (M0, rows), colour in zip(
        chosen.groupby("M0"), ("vermillion", "orange", "blue", "green", "purple"), strict=True
    ):
        axes.loglog(rows["cost"], rows["rmse"], "o-", color=lab.COLOURS[colour], label=f"M₀ = {M0}")
        axes.loglog(rows["cost"], rows["bias"].abs(), "--", lw=1.3, color=lab.COLOURS[colour])
    axes.set_xlabel("cost in sampler calls")
    axes.set_ylabel("RMSE (line), |bias| (dashed)")
    axes.legend()
    return figure
