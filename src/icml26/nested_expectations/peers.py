"""Outside answers: QuantLib's prices, and multilevel Monte Carlo by the `mlmc` package.

Both libraries are imported when used. QuantLib belongs to the chapter's extra, `mlmc` to the extra `peers`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from icml26.nested_expectations.classical import Estimate, OneStep
from icml26.nested_expectations.problems import RNE, LatticeBermudan

__all__ = ["mlmc_package", "quantlib_put"]

_HORIZON = 36_000  # days; QuantLib counts whole days, so dates need a long calendar to be hit exactly


def _need(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: pip install 'icml26[{extra}]'") from error


def quantlib_put(
    problem: LatticeBermudan,
    engine: Literal["analytic", "binomial", "finite-difference"] = "finite-difference",
    steps: int = 800,
) -> float:
    """QuantLib's price of the put that `problem` puts on a lattice, in continuous time (money, date 0).

    `analytic` is Black-Scholes and takes a put without early exercise only; `binomial` is a
    Cox-Ross-Rubinstein tree; `finite-difference` solves the Black-Scholes equation on `steps` times `steps`
    points. Raises ValueError for an unknown engine, too few steps, or the wrong exercise for `analytic`, and
    ImportError with the extra to install.
    """
    if engine not in ("analytic", "binomial", "finite-difference"):
        raise ValueError(f"engine must be 'analytic', 'binomial' or 'finite-difference', got {engine!r}")
    if steps < 2:
        raise ValueError(f"steps must be at least 2, got {steps}")
    dates = set(range(1, problem.dates + 1) if problem.exercise is None else problem.exercise) | {
        problem.dates
    }
    early = dates != {problem.dates}
    if engine == "analytic" and early:
        raise ValueError("problem must have no early exercise for engine='analytic'; see problem.european()")
    ql = _need("QuantLib", "nested_expectations")
    # Stretch time so that every date is a whole number of days: only rate·time and variance·time matter.
    days = problem.dates * max(1, _HORIZON // problem.dates)
    count = ql.Actual365Fixed()
    start = ql.Date(1, 1, 2000)
    stretch = problem.maturity / (days / 365.0)
    before, ql.Settings.instance().evaluationDate = ql.Settings.instance().evaluationDate, start
    try:
        process = ql.BlackScholesProcess(
            ql.QuoteHandle(ql.SimpleQuote(problem.spot)),
            ql.YieldTermStructureHandle(ql.FlatForward(start, problem.rate * stretch, count)),
            ql.BlackVolTermStructureHandle(
                ql.BlackConstantVol(start, ql.NullCalendar(), problem.volatility * stretch**0.5, count)
            ),
        )
        calendar = [start + days * date // problem.dates for date in sorted(dates)]
        exercise = ql.BermudanExercise(calendar) if early else ql.EuropeanExercise(calendar[-1])
        option = ql.VanillaOption(ql.PlainVanillaPayoff(ql.Option.Put, problem.strike), exercise)
        if engine == "analytic":
            option.setPricingEngine(ql.AnalyticEuropeanEngine(process))
        elif engine == "binomial":
            option.setPricingEngine(ql.BinomialVanillaEngine(process, "crr", steps))
        else:
            option.setPricingEngine(ql.FdBlackScholesVanillaEngine(process, steps, steps))
        return float(option.NPV())
    finally:
        ql.Settings.instance().evaluationDate = before


def mlmc_package(problem: RNE, samples: Sequence[int], seed: int) -> Estimate:
    """One nesting (D = 2) by multilevel Monte Carlo as the `mlmc` package runs it.

    Level n of `len(samples)` levels draws y1 and 2^n children; the coarse value is the mean over the two
    halves of the children. `samples[n]` is the number of samples on level n. The package schedules,
    stores and sums; it calls one Python function a sample. The cost is counted in sampler draws.

    Raises ValueError unless D = 2 and there are at least two levels with two samples or more each, and
    ImportError with the extra to install.
    """
    if problem.depth != 2:
        raise ValueError(f"problem must have depth 2, got depth {problem.depth}")
    if len(samples) < 2 or min(samples) < 2:
        raise ValueError(f"samples must hold two or more numbers of at least 2, got {tuple(samples)}")
    sampler_module = _need("mlmc.sampler", "peers")
    storage_module = _need("mlmc.sample_storage", "peers")
    pool_module = _need("mlmc.sampling_pool", "peers")
    level_module = _need("mlmc.level_simulation", "peers")
    quantity_module = _need("mlmc.quantity.quantity", "peers")
    estimate_module = _need("mlmc.quantity.quantity_estimate", "peers")
    spec_module = _need("mlmc.quantity.quantity_spec", "peers")
    simulation_module = _need("mlmc.sim.simulation", "peers")
    step = OneStep(problem)

    class Nesting(simulation_module.Simulation):  # type: ignore[misc,name-defined]
        need_workspace = False

        def level_instance(self, fine_level_params: list[Any], coarse_level_params: list[Any]) -> Any:
            config = {"children": int(fine_level_params[0]), "coarse": bool(coarse_level_params[0])}
            return level_module.LevelSimulation(config_dict=config, task_size=fine_level_params[0])

        @staticmethod
        def calculate(config: dict[str, Any], seed_of_sample: int) -> tuple[Any, Any]:
            rng = np.random.default_rng([seed, seed_of_sample])  # the package's seed is a hash of its own
            node = step.draw(0, np.zeros(1, dtype=np.int64), rng)
            child = step.draw(1, np.repeat(node, config["children"]), rng)
            value = problem.value(child)
            fine = problem.link(1, node, value.mean(keepdims=True))
            if not config["coarse"]:
                return fine, np.zeros(1)
            halves = value.reshape(2, -1).mean(axis=1)
            return fine, problem.link(1, np.repeat(node, 2), halves).mean(keepdims=True)

        def result_format(self) -> list[Any]:
            return [spec_module.QuantitySpec(name="value", unit="1", shape=(1,), times=[0], locations=["0"])]

    simulation = Nesting()
    storage = storage_module.Memory()
    levels = [[float(2**n)] for n in range(len(samples))]
    sampler = sampler_module.Sampler(storage, pool_module.OneProcessPool(), simulation, levels)
    sampler.set_initial_n_samples(list(samples))
    sampler.schedule_samples()
    while sampler.ask_sampling_pool_for_samples():
        pass
    root = quantity_module.make_root_quantity(storage, simulation.result_format())
    mean = estimate_module.estimate_mean(root["value"]).mean
    cost = sum(count * (1 + 2**n) for n, count in enumerate(samples))
    return Estimate(float(np.ravel(mean)[0]), cost)
