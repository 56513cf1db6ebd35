"""The plots and the explorable of the chapter. NOT WRITTEN YET: replace the example."""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from icml26 import lab
from icml26.CHAPTER_SLUG.antithetic import antithetic_mean, plain_mean


def show_spread(n: int, pairs: str) -> tuple[Figure, str]:
    """The explorable: a histogram of 500 estimates of E[exp(U)] from n values each, and a line of text."""
    estimate = {"independent": plain_mean, "mirrored": antithetic_mean}[pairs]
    means = estimate(np.exp, n, 500, np.random.default_rng(0))
    figure, axes = plt.subplots()
    axes.hist(means, bins=np.linspace(1.2, 2.3, 45).tolist(), color=lab.COLOURS["blue"])
    axes.axvline(np.e - 1, color=lab.COLOURS["vermillion"], label="e − 1")
    axes.set_xlabel("estimate of the mean")
    axes.set_ylabel("runs")
    axes.legend()
    return figure, f"standard deviation {means.std():.5f}"


def plot_errors(frame: pd.DataFrame) -> Figure:
    """Error against cost, a line a method, bars over seeds. frame: columns method, n, seed, rmse."""
    figure, axes = plt.subplots()
    for method, rows in frame.groupby("method", sort=False):
        by_size = rows.groupby("n")["rmse"]
        axes.errorbar(by_size.mean().index, by_size.mean(), yerr=by_size.std(), marker="o", label=method)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("values of f in an estimate")
    axes.set_ylabel("root mean square error")
    axes.legend()
    return figure
