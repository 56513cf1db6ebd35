"""CHAPTER_TITLE: NOT WRITTEN YET (one sentence: what a reader can do with this package).

Paper: PAPER_TITLE. PAPER_LINK

Where the paper's equations live: NOT WRITTEN YET

* `antithetic`: Eq. (1), the plain estimate of a mean; Eq. (2), the estimate from mirrored pairs.
* `peers`: what the method is compared with. * `claims`: what the paper says. * `experiment`: what we measure.
* `figures`, `exercises`: what the lesson shows and asks.
"""

from icml26.CHAPTER_SLUG.antithetic import antithetic_mean, plain_mean

__all__ = ["antithetic_mean", "plain_mean"]
