"""The paper's claims as data, written before anything is run. NOT WRITTEN YET: replace the examples.

Each claim says by which rule its verdict is computed, and names a measurement for which the rule must say
"not reproduced"; a test holds every rule to it.
"""

from icml26.lab.ledger import Argued, Claim, Direction

CLAIMS = (
    Claim(
        id="pairs-reduce-the-error",
        claim="Mirrored pairs estimate E[exp(U)] with a smaller error than independent points",
        paper="error ratio 5.58 (closed form)",
        source="Eq. (2)",
        kind="value",
        rule=Direction(sign=+1, paper=4.58, zero=1.0),
        refuted_by=(1.02, (0.9, 1.1)),
        unit="×",
    ),
    Claim(
        id="pairs-are-unbiased",
        claim="The estimate from mirrored pairs is unbiased",
        paper="theorem",
        source="Eq. (2)",
        kind="proof",
        rule=Argued(checks=("mean of 1 - u is that of u", "exact for linear f")),
        refuted_by={"mean of 1 - u is that of u": True, "exact for linear f": False},
    ),
)
