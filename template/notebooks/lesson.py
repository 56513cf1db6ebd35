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
# # CHAPTER_TITLE
#
# [Open in Colab](URL)
#
# | | |
# | --- | --- |
# | Paper | [PAPER_TITLE](PAPER_LINK) |
# | Authors | PAPER_AUTHORS |
# | You will be able to | NOT WRITTEN YET: one thing that you can do after this chapter |
# | You need | NOT WRITTEN YET: what to know before |
# | It takes | 30 minutes to read; seconds on a CPU |
# | Sources | NOT WRITTEN YET: which parts of the paper were read, in one honest line |

# %% tags=["setup", "hide-input"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("icml26") is None:  # Colab: fetch the book's package; a local checkout has it
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "icml26 @ git+URL@BRANCH"])

# %% [markdown]
# ## The problem, in one picture
#
# NOT WRITTEN YET. You want the mean of a function of a random number. Each value of the function costs
# something. How close do you get with $n$ of them?

# %%
import numpy as np

from icml26 import lab
from icml26.CHAPTER_SLUG import antithetic_mean, figures, plain_mean

lab.style()

# %% [markdown]
# ## Play first
#
# Move the sliders. Mirrored points come in pairs $u$ and $1-u$. Why does the heap get narrower, although the
# number of values stays the same?

# %%
lab.explore(
    figures.show_spread,
    start={"n": 16, "pairs": "independent"},
    caption="500 estimates of the mean of exp(U), each from n values",
    alt=lambda n, pairs: f"Histogram of 500 estimates around e − 1, each from {n} values at {pairs} points",
    n=[4, 16, 64],
    pairs=["independent", "mirrored"],
)

# %% [markdown]
# ## The method
#
# NOT WRITTEN YET. Let $U$ be uniform on $[0, 1]$. The plain estimate of $\mu = \mathbb{E}f(U)$ is
# $\hat\mu = \frac1n\sum_i f(u_i)$. The mirrored one uses $n/2$ pairs:
#
# $$\tilde\mu = \frac1n\sum_{i=1}^{n/2} \big(f(u_i) + f(1-u_i)\big).$$

# %%
lab.show_source(antithetic_mean)

# %% [markdown]
# By hand first. For a linear function one pair is enough: $f(u) + f(1-u)$ is twice the mean, whatever $u$ is.

# %%
rng = lab.seed.seed_all(0)
one_pair = antithetic_mean(lambda u: 3 * u + 1, 2, 5, rng)
assert np.allclose(one_pair, 2.5, rtol=0, atol=1e-12)
print("five estimates from one pair each:", np.round(one_pair, 6))

# %% [markdown]
# For $f = \exp$ the truth is $e - 1$, and both variances have a closed form. Do the estimates agree with it?

# %%
plain = plain_mean(np.exp, 64, 4000, rng)
mirrored = antithetic_mean(np.exp, 64, 4000, rng)
variance = (np.e**2 - 1) / 2 - (np.e - 1) ** 2
covariance = np.e - (np.e - 1) ** 2
lab.say(
    "Measured over predicted variance: {plain:.2f} for independent points, {mirrored:.2f} for mirrored ones.",
    plain=plain.var() / (variance / 64),
    mirrored=mirrored.var() / ((variance + covariance) / 64),
)

# %% [markdown]
# ## Where it breaks
#
# NOT WRITTEN YET. A function that is symmetric about $\frac12$ takes the same value at both points of a
# pair. The second value tells you nothing.

# %%
def bowl(u):
    return (u - 0.5) ** 2


factor = antithetic_mean(bowl, 64, 4000, rng).var() / plain_mean(bowl, 64, 4000, rng).var()
lab.say("For a symmetric function the variance of mirrored pairs is {factor:.2f} times as large.", factor=factor)

# %% [markdown]
# ## Exercises
#
# NOT WRITTEN YET: three or four, from easy to hard.
#
# **1.** What is the variance of $\exp(U)$? Assign it to `variance`.

# %% tags=["exercise"]
variance = None  # your answer

# %% tags=["solution", "hide-cell"]
variance = (np.e**2 - 1) / 2 - (np.e - 1) ** 2

# %% tags=["check"]
right = lab.check.answer("CHAPTER_SLUG", "variance", variance)

# %% [markdown]
# **2.** How many times as many values does the plain estimate need for the error of the mirrored one? Assign the
# factor to `saved`.

# %% tags=["exercise"]
saved = None  # your answer

# %% tags=["solution", "hide-cell"]
covariance = np.e - (np.e - 1) ** 2
saved = variance / (variance + covariance)

# %% tags=["check"]
right = lab.check.answer("CHAPTER_SLUG", "saved", saved)

# %% [markdown]
# **3.** Mirrored pairs are blind to a part of $f$, and that part costs them nothing. Write `visible`: it takes a
# function and returns the function that is left.


# %% tags=["exercise"]
def visible(f):
    ...  # your answer


# %% tags=["solution", "hide-cell"]
def visible(f):
    return lambda u: (f(u) + f(1 - u)) / 2


# %% tags=["check"]
right = lab.check.answer("CHAPTER_SLUG", "visible", visible)
