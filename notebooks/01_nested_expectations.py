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
# # Nested expectations on a quantum computer
#
# [Open in Colab](https://colab.research.google.com/github/example-org/icml2026-in-running-code/blob/main/notebooks/01_nested_expectations.ipynb)
#
# | | |
# | --- | --- |
# | Paper | [Optimal Quantum Speedups for Repeatedly Nested Expectation Estimation](https://arxiv.org/abs/2602.08120) |
# | Authors | Yihang Sun, Guanyang Wang, Jose Blanchet |
# | You will be able to | say what amplitude estimation costs and how it fails; nest it so that the cost stays near $1/\varepsilon$; tell from a number of dates and an accuracy whether that beats a classical computer |
# | You need | probability, and what a qubit, a unitary and its inverse are. No finance |
# | It takes | 30 minutes to read; under a minute to run on a CPU or a T4 |
# | Sources | abstract, public summaries and a public audit note; the algorithm boxes and proofs were not read. What is reconstructed is marked **ours** |

# %% tags=["setup", "hide-input"]
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("icml26") is None:  # Colab: fetch the book's package; a local checkout has it
    install = "icml26[nested_expectations] @ git+https://github.com/example-org/icml2026-in-running-code@main"
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", install])

# %% [markdown]
# ## The problem, in one picture
#
# You hold a put: the right to sell a share for 40, today's price being 36. You may use it at date 1 or at date 2, once.
# At date 2 you take what it pays. At date 1 you compare two numbers: what it pays now, and what going on is worth *on
# average*. So the value today is an average of a maximum of an average.
#
# The picture shows every price the share can reach in our small model. At a ringed dot you should stop.

# %%
import numpy as np

from icml26 import lab
from icml26.nested_expectations import LatticeBermudan, NestedQAE, figures, outcome_law, read, sp500_put

lab.style()
put = LatticeBermudan()  # spot 36, strike 40, two dates, four outcomes a step
lab.figure(
    figures.plot_tree(put),
    caption="A put with two dates on a lattice. Each step has four outcomes. Darker dots are likelier.",
    alt="Lattice of share prices: one node now, four nodes at date 1, seven at date 2; low nodes at date 1 are ringed, there stopping is best",
)
exact = put.exact()
lab.say("The exact value today is **{value:.6f}**. Without the right to stop early it is {european:.6f}.", value=exact[0][0], european=put.european().exact()[0][0])

# The same on real input: the S&P 500, its last close in the data and the volatility of the year before. The rate is our assumption.
index = sp500_put()
lab.say("A put on the S&P 500 (close {spot:.2f}, strike {strike:.0f}, volatility {volatility:.3f}) is worth **{value:.3f}**.", spot=index.spot, strike=index.strike, volatility=index.volatility, value=index.exact()[0][0])

# %% [markdown]
# Write $y_d$ for where you are at date $d$, and $g_d$ for what you do with an average. Then
#
# $$\gamma_D = g_D(y_D),\qquad \gamma_d = g_d\big(y_d,\ \mathbb{E}[\gamma_{d+1}\mid y_d]\big),\qquad \text{and you want } \gamma_0 .$$
#
# This is a *repeatedly nested expectation* of depth $D$: the number of averages. For the put, $g_1(y, m) = \max(\text{pay now}, m)$,
# and $g_0$ does nothing. On seven nodes you can add everything up. With many assets you cannot; you can only *sample* a next
# step. So the unit of cost here is **one sampled step**, or *call*, classical or quantum. Everything else is free. We call $g_d$ a *link*; a maximum is a link with a *kink*.
#
# ## Play first
#
# A quantum computer can hold all next steps at once, and *amplitude estimation* reads off their average. Let $a$ be the
# average, between 0 and 1, and write $a = \sin^2\theta$. One run turns a dial with $M$ positions and you see where it stops.
#
# Move the angle and $M$. Why are there two heaps? What happens to them at 90°? The scale is logarithmic: which of the two
# colours has stray outcomes far away, and what does that do to the root mean square error (RMSE)?

# %%
lab.explore(
    figures.show_law,
    start={"angle": 35, "M": 16},
    caption="Outcome of one run of amplitude estimation; dotted: θ and 180° − θ",
    alt=lambda angle, M: f"Two heaps of probability at {angle} and {180 - angle} degrees on a dial with {M} positions; the flat window has tails, the cosine window has none",
    angle=[0, 10, 35, 60, 90],
    M=[4, 8, 16, 32],
)

# %% [markdown]
# ## The method
#
# ### One average
#
# An algorithm $A$ samples a step and prepares a flag qubit that reads 1 with probability $a$. The Grover operator $Q = -A S_0 A^\dagger S_{\text{flag}}$
# turns the state by the angle $2\theta$; $S_{\text{flag}}$ flips the sign where the flag is 1, $S_0$ where all qubits are 0. Phase estimation reads that angle with a second register of $M$
# states: state $k$ has the weight $w_k$ and sees $Q$ applied $k$ times. The weights are the *window*: flat, $w_k = 1/\sqrt M$, or cosine, $w_k = \sqrt{2/M}\,\sin(\pi k/M)$ (a cosine about the middle). You read $j$, and its law has
# a closed form,
#
# $$P(j) = \tfrac12\Big[K_w\big(\tfrac\theta\pi - \tfrac jM\big) + K_w\big(-\tfrac\theta\pi - \tfrac jM\big)\Big],\qquad K_w(x) = \tfrac1M\Big|\sum_k w_k e^{2\pi i k x}\Big|^2,$$
#
# and the estimate is $\sin^2(\pi j/M)$. By hand first. Take $M = 4$ and the flat window. The dial shows $a \in \{0, \frac12, 1\}$. For $a=\frac12$ the angle is 45°, a position of the dial,
# so the answer is certain. For the cosine window it is not, but its average is known: $\frac12 + \cos(\pi/M)(a - \frac12)$. The tested code, then both checks:

# %%
lab.show_source(outcome_law, doc=False)
values, probs = outcome_law(0.5, 4, "flat")
print("values       ", np.round(values, 6))
print("flat, a = 1/2", np.round(probs, 6))
assert np.allclose(probs, [0, 1, 0], atol=1e-12)
values, probs = outcome_law(0.3, 8, "cosine")
assert np.isclose(probs @ values, 0.5 + np.cos(np.pi / 8) * (0.3 - 0.5), atol=1e-12)
lab.say("At a = 0.3 and M = 8 the cosine window's average is {mean:.6f}, as the closed form says.", mean=probs @ values)

# %% [markdown]
# Now the real thing: a circuit, simulated, with $M = 16$. Each $Q$ holds one $A^\dagger$ and one $A$, and both call the sampler. How often in a run? We do not assert it; we count it off the circuit.
# (An inverse Fourier transform at the end turns the phases into a peak at $j$.)

# %%
from icml26.nested_expectations.circuits import count_queries, fold, mean_preparation, phase_tape, run_probs

chance, payoff = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, 0.6, 0.25, 0.0])
tape = phase_tape(mean_preparation(chance, payoff), 16, "cosine")
measured, formula = fold(run_probs(tape)), outcome_law(float(chance @ payoff), 16, "cosine")[1]
assert np.abs(measured - formula).max() < 1e-10
lab.say("{qubits} qubits, {queries} uses of the sampler on the tape; the law of the circuit is that of the formula.", qubits=len(tape.wires), queries=count_queries(tape))

# %% [markdown]
# ### The trap
#
# The books say that the error of amplitude estimation falls like $1/M$. That is the *typical* error. With the flat window, stray outcomes
# have probability $1/x^2$ at distance $x$, and a root mean square error does not forgive them. What does the picture say about one run?

# %%
windows = lab.tables.read("icml26.nested_expectations", "windows").frame
lab.figure(
    figures.plot_windows(windows),
    caption="Root mean square error of amplitude estimation, averaged over 32 values of a. Exact, no sampling.",
    alt="Log-log plot: the flat window with one run falls with slope minus one half, the median of five flat runs and the cosine window with slope minus one",
)
from icml26.nested_expectations.scaling import slope

by_method = {name: rows[rows["M"] >= 64] for name, rows in windows.groupby("method")}
slopes = {name: slope(rows["queries"].to_numpy(float), rows["rmse_mean"].to_numpy()) for name, rows in by_method.items()}
lab.say(
    "Slopes from M = 64 on: flat window {flat:.2f}, median of five {median:.2f}, cosine window {cosine:.2f}. A slope of −½ is what plain Monte Carlo has: there is no speed-up in it.",
    flat=slopes["flat, one run"],
    median=slopes["flat, median of 5"],
    cosine=slopes["cosine, one run"],
)

# %% [markdown]
# ### Nesting it
#
# The outer average needs the inner one at every $y$. Run the inner estimate *inside* the outer circuit, in superposition. If both use $M$ states, each of
# some $2M$ outer calls pays for some $2M$ inner ones: about $4M^2$ calls for an error of $1/M$. With $D$ dates it is $(2M)^D$, and
# the speed-up is gone at $D = 2$ already.
#
# The way out is to *telescope*. Let $E_p$ be an estimate of $\gamma_1$ with $M_0 2^p$ states, so its error is about $2^{-p}$. Then
#
# $$\mathbb{E} E_\ell = \mathbb{E}E_0 + \sum_{p=1}^{\ell}\mathbb{E}\,[E_p - E_{p-1}].$$
#
# The differences $\Delta_p = E_p - E_{p-1}$ get small. A small quantity can be estimated coarsely: for $\Delta_p$ in $[-R_p, R_p]$ put $(\Delta_p+R_p)/2R_p$ on the flag, and
# $M_0 2^{\ell-p}$ outer states give an error of $2^{-\ell}$. Inner and outer costs multiply to about $2^\ell$ at *every* $p$.
#
# The inner register stays in superposition, never measured: the flag's probability is an average over it all the same. But $Q$ must undo the whole of $A$, inner estimate included.
#
# Two details are **ours**. First, $|\Delta_p|\le R_p$ must hold surely, so we clip: $\tilde E_p = \mathrm{clip}(E_p,\ \tilde E_{p-1}\pm R_p)$ with $R_p = c\,2^{-p}$. Second, the
# term $p=0$ is the plain coarse estimate, not a difference. The fixed cost follows:

# %%
from icml26.nested_expectations.coherent import NestedCircuit, correction, schedule

lab.show_source(schedule)
emulator = NestedQAE(put, M0=16, c=0.5, grid_bits=16)
for level in (0, 2, 4, 6, 8):
    direct = NestedQAE(put, M0=16, grid_bits=16, telescoping=False)
    print(
        f"level {level}: telescoped {emulator.cost(level):>10,} calls, RMSE {emulator.rmse(level) / put.scale:.5f}"
        f" | direct {direct.cost(level):>13,} calls, RMSE {direct.rmse(level) / put.scale:.5f}"
    )

# %% [markdown]
# Compare equal costs, not equal levels: direct nesting is ahead until its level 6 meets level 8 of the telescoped estimate. Each further level costs it four times as much, the
# telescoped estimate little more than twice.
#
# These errors are exact. The *emulator* carries the whole law of every estimate on a fine grid, without sampling and without qubits. Is it the law of a
# real circuit? Here is the correction $p = 1$ as one coherent circuit: two inner estimates side by side, the clip in a table, the outer estimate around it all.

# %%
small = LatticeBermudan(qubits=1)
circuit = NestedCircuit(small, correction(1, states=8, M0=4))
values, law = circuit.law()
expected = outcome_law(NestedQAE(small, M0=4, grid_bits=20).amplitude(1), 8, "cosine")[1]
assert np.abs(law - expected).max() < 1e-10
assert circuit.queries() == circuit.term.queries
lab.say("{qubits} qubits, {queries} sampler calls counted on the tape, as the cost model says; the two laws agree to 1e-10.", qubits=circuit.qubits, queries=circuit.queries())

# %% [markdown]
# ### Why not simply quantise the classical method?
#
# A good classical method, READ (recursive randomised multilevel Monte Carlo), tosses a coin to decide how deep to look. With probability $r(1-r)^n$ it draws
# $2^n$ next steps and adds the correction $\Delta_n$, divided by that probability: the link of their average minus the average of the links of the two halves. On *average* that is cheap. But
# a circuit in superposition takes as long as its slowest branch. Compare READ's costs with the single bar of the telescoped estimate at level 4:

# %%
draws = read(put, 50_000, np.random.default_rng(0))
tail = lab.tables.read("icml26.nested_expectations", "read_tail").frame
lab.figure(
    figures.plot_costs(tail[tail["depth"] == 2], draws.costs, emulator.cost(4)),
    caption="Cost of single READ draws (left) and its tail from a million draws (right); the telescoped estimate has one cost",
    alt=f"Left: histogram of READ costs falling over several decades beside a single vertical bar. Right: the tail probability falls with slope minus {np.log2(1 / 0.4):.2f}",
)
lab.say(
    "READ draws the put's value as {mean:.2f} ± {error:.2f}. Half its draws cost {median:.0f} calls, the dearest of fifty thousand cost {largest:,.0f}.",
    mean=draws.mean, error=draws.standard_error, median=np.median(draws.costs), largest=float(draws.costs.max()),
)
estimator, calls = NestedQAE(index, grid_bits=14), read(index, 50_000, np.random.default_rng(0))
lab.say(
    "So who wins? On the index put, {cost:,} calls give the telescoped estimate an RMSE of {quantum:.2f}. READ reaches the same with about {classical:.4f} times the calls: here quantum *loses*. The evidence notebook asks at which accuracy that changes.",
    cost=estimator.cost(7), quantum=estimator.rmse(7), classical=calls.costs.mean() * calls.values.var() / estimator.rmse(7) ** 2 / estimator.cost(7),
)

# %% [markdown]
# ## Where it breaks
#
# Clipping is not free. When a finer estimate falls outside its clip range, the chain keeps the wrong value. That happens with a small probability, which
# depends on $M_0$ but *not* on the level. So there is a floor. Move $M_0$ and $c$. Where does the dashed line stop falling? What does a wider clip do to the RMSE?

# %%
lab.explore(
    figures.show_window,
    start={"M0": 8, "c": 0.5},
    caption="Error and bias of the telescoped estimate at D = 2, levels 0 to 7",
    alt=lambda M0, c: f"Error and bias against cost for M0 = {M0} and c = {c}; for small M0 the bias flattens out",
    M0=[4, 8, 16, 32],
    c=[0.25, 0.5, 1.0],
)

# %% [markdown]
# The second way to break it is to forget the base term $p = 0$. A public note on version 1 of the paper reports that its level-difference algorithm, read literally, has
# none. What would the put be worth then?

# %%
from icml26.nested_expectations.checks import constant_answers, corrections_only

with_base, without = corrections_only(put) * put.scale
print("a payoff of 1 everywhere:", {name: f"{answer:.6f}" for name, answer in constant_answers().items()})
lab.say("With the base term {whole:.3f}, without it {bare:.3f}. A convention, not a flaw of the theorem; but a program needs it.", whole=with_base, bare=without)

# %% [markdown]
# ## Exercises
#
# **1 (easy).** How often does one run with $M$ states apply $A$ or $A^\dagger$? Write `queries(M)`. The check builds circuits and counts.

# %% tags=["exercise"]
def queries(M):
    return None  # your answer

# %% tags=["solution", "hide-cell"]
def queries(M):
    return 2 * (M - 1) + 1  # each controlled Q holds A† and A; one A comes first

# %% tags=["check"]
_ = lab.check.answer("nested_expectations", "queries", queries)

# %% [markdown]
# **2 (easy).** READ draws level $n$ with probability $r(1-r)^n$ and pays $2^n$; its correction enters with weight $1/(r(1-r)^n)$. For a link with a kink, $\mathbb{E}\Delta_n^2$ falls like
# $2^{-3n/2}$; for a smooth link like $2^{-2n}$. For which $r$ are the mean cost and the variance both finite? Give two pairs `(low, high)`, to three decimals: kinked first, then smooth.

# %% tags=["exercise"]
levels = None  # ((low, high), (low, high))

# %% tags=["solution", "hide-cell"]
levels = ((0.5, 1 - 2**-1.5), (0.5, 1 - 2**-2))

# %% tags=["check"]
_ = lab.check.answer("nested_expectations", "levels", levels)

# %% [markdown]
# **3 (medium).** Amplitude estimation without a phase register: measure the flag `shots` times after $Q^m A$ for each $m$ in `powers`; it reads 1 with probability
# $\sin^2((2m+1)\theta)$. You get `ones[i]` ones at `powers[i]`. Return the $a = \sin^2\theta$ in $(0, 1)$ that makes these counts most likely.

# %% tags=["exercise"]
def estimate(ones, shots, powers):
    return None  # your answer

# %% tags=["solution", "hide-cell"]
def estimate(ones, shots, powers):
    theta = np.linspace(1e-6, np.pi / 2 - 1e-6, 40_000)
    total = np.zeros_like(theta)
    for k, m in zip(ones, powers, strict=True):
        p = np.clip(np.sin((2 * m + 1) * theta) ** 2, 1e-300, 1)
        q = np.clip(np.cos((2 * m + 1) * theta) ** 2, 1e-300, 1)
        total += k * np.log(p) + (shots - k) * np.log(q)
    return float(np.sin(theta[np.argmax(total)]) ** 2)

# %% tags=["check"]
_ = lab.check.answer("nested_expectations", "likelihood", estimate)

# %% [markdown]
# **4 (hard).** Write `cost(depth, level, M0)`, the fixed cost of the telescoped estimate. Each call of term $p$ samples one step of its own and runs the whole chain $E_0,\dots,E_p$ one date further. Then show on paper that it is $O(2^\ell\, \ell^{D-1})$.

# %% tags=["exercise"]
def cost(depth, level, M0):
    return None  # your answer

# %% tags=["solution", "hide-cell"]
def cost(depth, level, M0):
    if depth == 1:
        return 2 * M0 * 2**level - 1
    inner = [cost(depth - 1, q, M0) for q in range(level + 1)]
    return sum((2 * M0 * 2 ** (level - p) - 1) * (1 + sum(inner[: p + 1])) for p in range(level + 1))

# %% tags=["check"]
_ = lab.check.answer("nested_expectations", "schedule", cost)

# %% [markdown]
# ## Where to go on
#
# The evidence notebook of this chapter measures it all: exponents with and without logarithms, where quantum wins and loses, and the claims of the paper one by one.
# Take one sentence with you: the *exponent* is quantum, the *constant* decides.
