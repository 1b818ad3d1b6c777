"""recprism: what diversity would cost your recommender, who would pay, and a reason for every change.

The data go one way, and the folders follow it::

    interactions + categories -> split -> vectors (trained or imported) -> lists -> metrics
            data/                data/          models/                   ranking/   metrics/

    -> more diverse lists -> a certified budget -> reasons -> a result -> exports -> live lists
            rule/                 budget/          explain/   result/     forms/     serving/, operate/

``cmb`` is the paper, ``contest`` compares all methods, ``runs`` keeps a run in one directory, and ``cli`` is the
command line.

    >>> import recprism
    >>> data = recprism.load("ml-latest-small")
    >>> split = data.split(seed=0)
    >>> split.n_users, split.n_items
    (601, 1955)

Names load on first use: ``import recprism`` itself needs nothing.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
