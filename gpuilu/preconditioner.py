"""M^-1 as a SciPy LinearOperator: the face that users and Krylov solvers see.

SciPy's own public methods turn their argument into a NumPy array and may wrap what comes back, so
the public methods (`matvec`, `dot`, `@`, ...) are overridden as well as the private ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from gpuilu.application import Application
from gpuilu.backend import cuda, is_array, namespace
from gpuilu.errors import ShapeMismatchError, require_choice
from gpuilu.info import Info
from gpuilu.operands import as_operator, is_operator
from gpuilu.options import resolve_device
from gpuilu.vectors import as_array, check_out, moved, operands, result_dtype

__all__ = ["Preconditioner"]

# A form is (transposed, conjugated): M, M^T, M^H and conj(M).
FORMS = {"N": (False, False), "T": (True, False), "H": (True, True), "C": (False, True)}
NAMES = {form: name for name, form in FORMS.items()}
COMPOSED = {
    (outer, inner): NAMES[t != s, c != d]
    for outer, (t, c) in FORMS.items()
    for inner, (s, d) in FORMS.items()
    if inner != "C"
}


class Preconditioner(LinearOperator):
    """The operator x = M^-1 b, made by `ilu0`, `gauss_seidel`, `sor`, `ssor` or `from_factors`.

    It can be passed as ``M=`` to the solvers of `scipy.sparse.linalg`, and composes like any
    `LinearOperator`: ``A @ M``, ``M.H``, ``2 * M``. Applying it never changes its argument and
    returns a new array each time. Objects may be shared between threads.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        The matrix's dtype (float64 for an integer matrix). A result has the dtype
        ``numpy.result_type(b, info.factor_dtype)``.
    """

    def __init__(self, application: Application, form: str = "N") -> None:
        super().__init__(application.dtype, (application.n, application.n))
        self._application = application
        self._form = form

    # ---- applying -------------------------------------------------------------------------------

    def solve(self, b: Any, trans: str = "N", out: np.ndarray | None = None) -> np.ndarray:
        """Solve M x = b, M^T x = b or M^H x = b.

        Parameters
        ----------
        b : array_like, shape (n,), (n, 1) or (n, nrhs)
            Right-hand sides, any strides; never changed unless it is `out`.
        trans : {"N", "T", "H"}
            Solve with M, its transpose or its adjoint. The transposed forms are built at their
            first use, see `prepare`.
        out : ndarray, same shape as b, dtype of the result, optional
            Where the result goes; `b` itself is allowed.

        Returns
        -------
        x : ndarray, shape of b, dtype ``result_type(b, info.factor_dtype)``
            `out` if it was given, else a new array.

        Raises
        ------
        ShapeMismatchError, UnsupportedDtypeError
            If b or out does not fit.

        Notes
        -----
        Each column of a block gives the same bits as that column alone, except with the algorithm
        "cusparse".
        """
        form = _composed(self._form, trans)
        b = as_array(b)
        shape = b.shape
        if len(shape) not in (1, 2) or shape[0] != self.shape[0]:
            raise ShapeMismatchError(
                f"expected a right-hand side of shape ({self.shape[0]},) or "
                f"({self.shape[0]}, nrhs), found {shape}"
            )
        application = self._application
        dtype = result_dtype(b.dtype, application.factor_dtype)
        here = cuda.place_of(b)
        if out is not None:
            check_out(out, b, dtype, here)
        if application.is_on_device():
            return self._solve(b, here, form, dtype, out)
        with application.on_device():
            return self._solve(b, here, form, dtype, out)

    def _solve(self, b: Any, here: str, form: str, dtype: np.dtype, out: Any) -> Any:
        application = self._application
        application.raise_known_trouble()
        if here == application.device:
            x, b = operands(b, dtype, out)
            self._apply(x, b, form)
        else:
            b = moved(b, dtype, application.device)
            # Not in place: some plans need more scratch for that, and keep it.
            x = namespace(b).empty_like(b)
            self._apply(x, b, form)
            x = moved(x, dtype, here)
            application.raise_known_trouble()
        if out is None:
            return x
        if x is not out:
            out[...] = x
        return out

    def _apply(self, x: Any, b: Any, form: str) -> None:
        # A single column goes the way of a vector, which is faster and gives the same bits.
        if x.ndim == 2 and x.shape[1] == 1:
            x, b = x.reshape(-1), None if b is None else b.reshape(-1)
        if x.size:
            self._application.apply(x, form, b)

    def matvec(self, x: Any) -> np.ndarray:
        """M^-1 x for x of shape (n,) or (n, 1)."""
        return self.solve(self._column(x))

    def rmatvec(self, x: Any) -> np.ndarray:
        """M^-H x for x of shape (n,) or (n, 1)."""
        return self.solve(self._column(x), "H")

    def matmat(self, X: Any) -> np.ndarray:
        """M^-1 X for X of shape (n, nrhs)."""
        return self.solve(self._block(X))

    def rmatmat(self, X: Any) -> np.ndarray:
        """M^-H X for X of shape (n, nrhs)."""
        return self.solve(self._block(X), "H")

    _matvec, _rmatvec, _matmat, _rmatmat = matvec, rmatvec, matmat, rmatmat

    def dot(self, x: Any) -> Any:
        """M^-1 x for an array; the product or scaled operator for an operator or a scalar."""
        if is_array(x):
            return self.solve(x)
        if is_operator(x):
            return as_operator(self, like=x).dot(as_operator(x))
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().dot(x)
        return self.solve(x)

    def __matmul__(self, x: Any) -> Any:
        if is_array(x):
            return self.solve(x)
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(x)

    def __rmatmul__(self, x: Any) -> Any:
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self._product_from_left(x)

    def __mul__(self, x: Any) -> Any:
        return self.dot(x)

    def __rmul__(self, x: Any) -> Any:
        return super().dot(x) if np.isscalar(x) else self._product_from_left(x)

    def _product_from_left(self, x: Any) -> Any:
        """x M^-1: an operator for a matrix or operator x, an array for an array."""
        if is_operator(x) or isinstance(x, LinearOperator):
            return as_operator(x).dot(as_operator(self, like=x))
        return self.T.solve(as_array(x).T).T

    # ---- forms ----------------------------------------------------------------------------------

    def _adjoint(self) -> Preconditioner:
        return self._view("H")

    def _transpose(self) -> Preconditioner:
        return self._view("T")

    def _view(self, trans: str) -> Preconditioner:
        return Preconditioner(self._application, _composed(self._form, trans))

    def prepare(self, trans: str = "TH") -> None:
        """Build the transposed forms now instead of at their first use.

        Parameters
        ----------
        trans : str
            Any of the letters "N", "T" and "H".
        """
        with self._application.on_device():
            for letter in trans:
                form = _composed(self._form, letter)
                self._application.prepare("N" if form == "C" else form)

    # ---- values ---------------------------------------------------------------------------------

    def update(self, A_or_values: Any, check: bool = True) -> None:
        """Take new values on the same pattern: factor again, without a new analysis.

        Parameters
        ----------
        A_or_values : sparse matrix, or ndarray of shape (nnz,)
            The new matrix (of this object's M, not of a transposed view), or its values in
            canonical CSR order: rows ascending, columns ascending, duplicates summed. An operator
            from `from_factors` takes a pair (L, U) or a SuperLU.
        check : bool
            Compare the pattern entry by entry; False trusts the caller where the number of entries
            agrees.

        Raises
        ------
        ShapeMismatchError, UnsupportedDtypeError, PatternMismatchError
            If the new matrix does not fit; nothing has changed.
        ZeroPivotError
            If the factorisation fails; the old factors stay in use.
        """
        with self._application.on_device():
            self._application.update(A_or_values, check=check)

    def check(self) -> None:
        """Wait for the applies in flight and raise what went wrong in them.

        Raises
        ------
        SolveStalledError
            If a launch was abandoned. Without this call it is raised at the next use of the object;
            replays of a captured CUDA graph are seen by this call only.
        """
        with self._application.on_device():
            self._application.check()

    @property
    def L(self) -> Any:
        """Lower factor with its diagonal, a new sparse matrix, ``L @ U`` = M; None without one."""
        return self._factor(lower=True)

    @property
    def U(self) -> Any:
        """Upper factor with its diagonal, a new sparse matrix, ``L @ U`` = M; None without one."""
        return self._factor(lower=False)

    def _factor(self, lower: bool) -> Any:
        transposed, conjugated = FORMS[self._form]
        application = self._application
        factors = application.factors
        T = factors.L if lower != transposed else factors.U
        if T is None:
            return None
        with application.on_device(), application.reading():
            matrix = T.to_csr()
            matrix = matrix.conj() if conjugated else matrix
            return matrix.T.tocsr() if transposed else matrix

    # ---- facts ----------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """What made it: "ilu0", "gauss_seidel", "sor", "ssor", "from_factors", "triangular"."""
        return self._application.factorization.kind

    @property
    def info(self) -> Info:
        """What it is, what was chosen and why, what it cost."""
        return self._application.info()

    @property
    def nbytes(self) -> int:
        """Bytes held: factors, plans and whatever `update` needs."""
        return self._application.nbytes

    def to(self, device: str | int) -> Preconditioner:
        """Move to another device, "cpu", "cuda" or "cuda:N"; the same object if it is there.

        Raises
        ------
        BackendUnavailableError
            If the device does not exist here.
        """
        name = self._application.device if device == "auto" else resolve_device(device)
        if name == self._application.device:
            return self
        return _restore(type(self), self._application.to(name), self._form)

    def copy(self) -> Preconditioner:
        """An operator with factors of its own."""
        twin = type(self).__new__(type(self))
        Preconditioner.__init__(twin, self._application.copy(), self._form)
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Preconditioner:
        # Views of one operator stay views of one: the factors are copied once.
        application = memo.setdefault(id(self._application), None) or self._application.copy()
        memo[id(self._application)] = application
        return _restore(type(self), application, self._form)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self._application, self._form))

    def __repr__(self) -> str:
        application, form = self._application, {"N": ""}.get(self._form, f", trans={self._form!r}")
        n = self.shape[0]
        return (
            f"<{n}x{n} {type(self).__name__} kind={self.kind!r}, dtype={self.dtype}, "
            f"algorithm={application.algorithm!r}, device={application.device!r}{form}>"
        )

    def __str__(self) -> str:
        return str(self.info)

    def _column(self, x: Any) -> np.ndarray:
        x = as_array(x)
        if x.shape not in ((self.shape[0],), (self.shape[0], 1)):
            raise ShapeMismatchError(
                f"expected a vector of shape ({self.shape[0]},) or ({self.shape[0]}, 1), "
                f"found {x.shape}"
            )
        return x

    def _block(self, X: Any) -> np.ndarray:
        X = as_array(X)
        if X.ndim != 2:
            raise ShapeMismatchError(f"expected a 2-d array, found shape {X.shape}")
        return X


def _restore(cls: type[Preconditioner], application: Application, form: str) -> Preconditioner:
    restored = cls.__new__(cls)
    Preconditioner.__init__(restored, application, form)
    return restored


def _composed(form: str, trans: str) -> str:
    """The form of op(M) for a view of M: transposing or conjugating twice is doing nothing."""
    if not isinstance(trans, str) or (form, trans) not in COMPOSED:
        require_choice("trans", trans, ("N", "T", "H"))
    return COMPOSED[form, trans]
