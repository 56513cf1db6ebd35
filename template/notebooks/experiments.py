# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # CHAPTER_TITLE: the evidence
#
# [Open in Colab](URL)
#
# What the paper claims, what we measured, and what became of it. The method is explained in the lesson.

# %% tags=["setup", "hide-input"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("icml26") is None:  # Colab: fetch the book's package; a local checkout has it
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "icml26 @ git+URL@BRANCH"])

# %% [markdown]
# ## The experiment
#
# NOT WRITTEN YET. Three ways to estimate the mean of $\exp(U)$, at the same number of values of the
# function, over five seeds.

# %%
import numpy as np

from icml26 import lab
from icml26.CHAPTER_SLUG import antithetic_mean, experiment, figures
from icml26.CHAPTER_SLUG.claims import CLAIMS

lab.style()
table = lab.tables.read("icml26.CHAPTER_SLUG", "errors")
assert not table.stale(), table.stale()
lab.figure(
    figures.plot_errors(table.frame),
    caption="Error against cost; bars: standard deviation over five seeds",
    alt="Errors of three methods fall with the number of values; mirrored pairs lie below independent points",
)

# %% [markdown]
# One seed of the table, measured here again:

# %%
live = experiment.errors(experiment.SETTINGS["cpu"], 1)
stored = table.frame[table.frame["seed"] == 0].reset_index(drop=True)
assert np.allclose(live["rmse"], stored["rmse"], rtol=1e-3)
print(live.to_string(index=False, float_format="{:.6f}".format))

# %% [markdown]
# ## The race
#
# NOT WRITTEN YET. What does a value of the function cost beside the method's own work?

# %% tags=["nbval-ignore-output"]
# Wall times differ from run to run; nothing is asserted about them here but that all contestants ran.
race = lab.race(
    {
        name: lambda estimate=estimate: estimate(np.exp, 256, 20, np.random.default_rng(0))
        for name, estimate in experiment.METHODS.items()
    },
    reference="plain",
)
race.show()
assert len(race.frame) == len(experiment.METHODS)

# %% [markdown]
# ## The claims ledger

# %%
ledger = lab.ledger.open("CHAPTER_NUMBER", "CHAPTER_SLUG", CLAIMS)
largest = table.frame[table.frame["n"] == table.frame["n"].max()]
largest = largest.pivot(index="seed", columns="method", values="rmse")
ratios = largest["plain"] / largest["antithetic"]
margin = 2.776 * ratios.std() / len(ratios) ** 0.5  # Student's t with four degrees of freedom
ledger.judge(
    "pairs-reduce-the-error",
    measured=ratios.mean(),
    interval=(ratios.mean() - margin, ratios.mean() + margin),
    scale="256 values, 200 runs, 5 seeds",
)
points = np.random.default_rng(0).random(100_000)
linear = antithetic_mean(lambda u: 3 * u + 1, 2, 100, np.random.default_rng(1))
ledger.judge(
    "pairs-are-unbiased",
    checks={
        "mean of 1 - u is that of u": bool(abs((1 - points).mean() - points.mean()) < 0.01),
        "exact for linear f": bool(np.allclose(linear, 2.5, rtol=0, atol=1e-12)),
    },
)
ledger.show()

# %% [markdown]
# ## Run it bigger
#
# NOT WRITTEN YET. The `gpu` profile takes twenty times as many runs, the `paper` profile a hundred times. Nobody
# has recorded such a run yet.

# %% [markdown]
# ## What is the paper's and what is ours
#
# NOT WRITTEN YET: name each part that the paper does not give and that was reconstructed here.
