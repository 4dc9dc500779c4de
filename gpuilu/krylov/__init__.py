"""A x = b by the host library's Krylov solvers: what a preconditioner M costs and what it saves.

>>> import numpy as np, scipy.sparse as sp, gpuilu
>>> from gpuilu import krylov
>>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tocsr()
>>> x, outcome = krylov.solve(A, np.ones(50), M=gpuilu.ilu0(A))
>>> outcome.iterations, outcome.converged  # tridiagonal: ILU(0) is exact
(1, True)
"""

from gpuilu.krylov.choice import (
    PRECONDITIONERS,
    Jacobi,
    choose_solver,
    is_hermitian,
    preconditioner,
    warm_up,
)
from gpuilu.krylov.compare import Comparison, compare
from gpuilu.krylov.report import break_even, plot, table
from gpuilu.krylov.run import SOLVERS, Outcome, solve

__all__ = [
    "PRECONDITIONERS",
    "SOLVERS",
    "Comparison",
    "Jacobi",
    "Outcome",
    "break_even",
    "choose_solver",
    "compare",
    "is_hermitian",
    "plot",
    "preconditioner",
    "solve",
    "table",
    "warm_up",
]
