"""Repeatedly nested expectations, classically and by amplitude estimation inside amplitude estimation.

Paper: Yihang Sun, Guanyang Wang, Jose Blanchet, *Optimal Quantum Speedups for Repeatedly Nested Expectation
Estimation*, ICML 2026, arXiv 2602.08120. Its algorithm boxes and proofs were not read: the estimator here is a
reconstruction from the abstract and public summaries, and says so where it is used.

* `problems`: Definition 1.1, gamma_d = g_d(y, E[gamma_(d+1) | y]), as objects with exact answers.
* `classical`: READ (Syed and Wang 2023) and other classical estimators; `read_variance`: its true variance.
* `qae`: amplitude estimation of one mean, with the exact law of its outcome.
* `emulator`: the exact law and cost of the nested estimators (Theorem 1.6, reconstructed).
* `circuits`, `coherent`, `resources`: the same estimators as PennyLane circuits; queries off the tape, T gates.
* `scaling`: slopes, logarithmic corrections, crossings. `checks`: the finite checks behind the theorems.
* `peers`: QuantLib and mlmc. `claims`, `experiment`, `figures`, `exercises`: what the notebooks use.
"""

from icml26.nested_expectations.classical import longstaff_schwartz, mlmc_derandomised, nested_mc, read
from icml26.nested_expectations.emulator import NestedQAE
from icml26.nested_expectations.problems import RNE, LatticeBermudan, TreeRNE, TwoStageTrial, sp500_put
from icml26.nested_expectations.qae import canonical, cosine, iqae, mlae, outcome_law

__all__ = [
    "RNE",
    "LatticeBermudan",
    "NestedQAE",
    "TreeRNE",
    "TwoStageTrial",
    "canonical",
    "cosine",
    "iqae",
    "longstaff_schwartz",
    "mlae",
    "mlmc_derandomised",
    "nested_mc",
    "outcome_law",
    "read",
    "sp500_put",
]
