"""Named test matrices, each small enough for plain loops, and which algorithms to run on them."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import gpuilu
from gpuilu.bench import patterns
from gpuilu.options import resolve_device
from gpuilu.triangle import Triangle
from gpuilu.trsv.base import algorithms

DTYPES = ("float32", "float64", "complex64", "complex128")


# ---- algorithms ----------------------------------------------------------------------------------


def algorithm_parameters(keep=lambda plan: True):
    """(name, device) of every registered algorithm; those of a GPU carry the marker."""
    return [
        pytest.param(
            name, device, id=f"{name}-{device}", marks=() if device == "cpu" else pytest.mark.gpu
        )
        for (name, device), plan in sorted(algorithms().items())
        if keep(plan)
    ]


def every_algorithm(test):
    """Run a test once for each registered algorithm."""
    return pytest.mark.parametrize(("name", "device"), algorithm_parameters())(test)


def every_deterministic_algorithm(test):
    """Run a test once for each that gives the same bits every time."""
    parameters = algorithm_parameters(lambda plan: plan.deterministic)
    return pytest.mark.parametrize(("name", "device"), parameters)(test)


def assert_same_answer(name, device, x, y):
    """The same bits; up to rounding where the algorithm does not promise more."""
    if algorithms()[name, device].deterministic:
        np.testing.assert_array_equal(x, y)
    else:
        assert np.linalg.norm(x - y) <= 1e-12 * np.linalg.norm(y)


def forced(name, device):
    """Keywords that force an algorithm; a skip where its device is not there."""
    try:
        resolve_device(device)
    except gpuilu.BackendUnavailableError as error:
        pytest.skip(str(error))
    deterministic = algorithms()[name, device].deterministic
    return {"algorithm": name, "device": device, "deterministic": deterministic}


def suited(name, device, A):
    """A, or a full band of its order for an algorithm that is made for such triangles alone."""
    return full_band(A.shape[0]) if algorithms()[name, device].special else A


@contextlib.contextmanager
def skipped_where_refused(name, device):
    """Skip a test of one matrix where an algorithm made for others refuses it."""
    try:
        yield
    except gpuilu.UnsupportedAlgorithmError as error:
        if not algorithms()[name, device].special:
            raise
        pytest.skip(str(error))


# ---- patterns of strictly lower triangles --------------------------------------------------------


def _strict(n, rows, cols):
    rows, cols = np.asarray(rows, int), np.asarray(cols, int)
    return sp.coo_array((np.ones(len(rows)), (rows, cols)), shape=(n, n)).tocsr()


def chain(n):
    """Row i depends on row i - 1: one row a level."""
    return _strict(n, range(1, n), range(n - 1))


def arrow(n):
    """Every row depends on row 0: two levels."""
    return _strict(n, range(1, n), [0] * (n - 1))


def wide_row(n):
    """The last row depends on every other."""
    return _strict(n, [n - 1] * (n - 1), range(n - 1))


def dense(n):
    return _strict(n, *np.tril_indices(n, -1))


def band(n, width):
    return sp.csr_array(sp.triu(dense(n), -width))


def random(n, per_row, seed=0):
    """About `per_row` entries in each row, anywhere left of the diagonal."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(1, n), per_row)
    P = _strict(n, rows, rng.integers(0, rows) if n else rows)
    P.data[:] = 1
    return P


def layered(layers, width, per_row=3, seed=0):
    """`layers` levels of `width` rows; each row depends on at most `per_row` of the one before."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(width, layers * width), per_row)
    P = _strict(
        layers * width, rows, (rows // width - 1) * width + rng.integers(0, width, len(rows))
    )
    P.data[:] = 1
    return P


def grid(*shape):
    """Neighbours along the axes: 5-point in 2-D, 7-point in 3-D."""
    return sp.csr_array(sp.tril(_laplacian(*shape), -1))


def grid_9_point(nx, ny):
    line = [sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(m, m)) for m in (nx, ny)]
    return sp.csr_array(sp.tril(sp.kron(*line), -1))


def permuted(P, seed=0):
    """The same graph, its nodes numbered at random."""
    order = np.random.default_rng(seed).permutation(P.shape[0])
    return sp.csr_array(sp.tril((P + P.T)[order][:, order], -1))


def gaps(n):
    """Rows 0 to n/3 and 2n/3 to n empty, a chain between."""
    middle = np.arange(n // 3 + 1, 2 * n // 3)
    return _strict(n, middle, middle - 1)


def all_patterns(n):
    """Each of the strictly lower patterns of order n."""
    pairs = list(zip(*np.tril_indices(n, -1), strict=True))
    for chosen in itertools.product([False, True], repeat=len(pairs)):
        kept = [pair for pair, keep in zip(pairs, chosen, strict=True) if keep]
        yield _strict(n, [i for i, _ in kept], [j for _, j in kept])


def mesh(n):
    """A triangulation of n random points in an order of small bandwidth: irregular, many levels."""
    indptr, indices = patterns.mesh(n, True)
    return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n))


PATTERNS = {
    "0x0": lambda: _strict(0, [], []),
    "1x1": lambda: _strict(1, [], []),
    "diagonal 33": lambda: _strict(33, [], []),
    **{f"chain {n}": lambda n=n: chain(n) for n in (2, 31, 32, 33, 1023, 1024, 1025)},
    "arrow 65": lambda: arrow(65),
    "arrow 1025": lambda: arrow(1025),
    "wide row 33": lambda: wide_row(33),
    "wide row 1100": lambda: wide_row(1100),
    "dense 31": lambda: dense(31),
    "dense 65": lambda: dense(65),
    "band 40": lambda: band(40, 5),
    "gaps 30": lambda: gaps(30),
    **{f"random {n}": lambda n=n: random(n, 3, n) for n in (31, 32, 33, 65, 1023, 1025)},
    "layered 8x40": lambda: layered(8, 40),
    "grid 9x7": lambda: grid(9, 7),
    "grid 32x33": lambda: grid(32, 33),
    "grid 4x5x6": lambda: grid(4, 5, 6),
    "grid 9-point 8x9": lambda: grid_9_point(8, 9),
    "permuted grid 9x7": lambda: permuted(grid(9, 7)),
    "permuted grid 32x32": lambda: permuted(grid(32, 32)),
    **{
        f"{n}x{n} pattern {k}": lambda P=P: P for n in (2, 3) for k, P in enumerate(all_patterns(n))
    },
}


def triangle(P, dtype="float64", lower=True, diagonal=True, seed=0):
    """Random values on a pattern, small enough that no solution grows: a CSR triangle.

    The upper one is the lower one turned by 180 degrees, so that rows depend on later rows.
    """
    rng = np.random.default_rng(seed)
    P = sp.coo_array(P)
    n, (rows, cols) = P.shape[0], P.coords
    length = np.maximum(np.bincount(rows, minlength=n), 1)
    data = random_values(rng, len(rows), dtype) / np.sqrt(length[rows])
    if diagonal:
        d = random_values(rng, n, dtype)
        d = np.where(d == 0, 1, d)
        rows, cols = np.append(rows, np.arange(n)), np.append(cols, np.arange(n))
        data = np.append(data, d / abs(d) * rng.uniform(1, 2, n))
    if not lower:
        rows, cols = n - 1 - rows, n - 1 - cols
    return sp.csr_array((data.astype(dtype), (rows, cols)), shape=(n, n))


def as_triangle(T, lower=True, unit_diagonal=False):
    """The `Triangle` of a CSR one that stores its diagonal."""
    T = T.tocoo()
    off = T.row != T.col
    strict = sp.coo_array((T.data[off], (T.row[off], T.col[off])), shape=T.shape).tocsr()
    diag = None if unit_diagonal else T.diagonal()
    indptr, indices = (a.astype(np.int32) for a in (strict.indptr, strict.indices))
    return Triangle(lower, indptr, indices, strict.data, diag)


def random_values(rng, shape, dtype):
    """Values in the square from -1 to 1, of any supported dtype."""
    values = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    return values.astype(dtype)


# ---- square matrices -----------------------------------------------------------------------------


def _laplacian(*shape):
    """2 along each axis on the diagonal, -1 for each neighbour."""
    total = None
    for m in shape:
        line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
        size = 1 if total is None else total.shape[0]
        grown = sp.kron(sp.eye_array(size), line)
        total = grown if total is None else sp.kron(total, sp.eye_array(m)) + grown
    return sp.csr_array(total)


def poisson(*shape):
    """The 5-point (2-D) or 7-point (3-D) Laplacian: symmetric positive definite."""
    return _laplacian(*shape)


def tridiagonal(n=3):
    """tridiag(-1, 4, -1), whose ILU(0) is its LU."""
    return sp.csr_array(sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)))


def complex_3x3():
    """Complex tridiagonal and not Hermitian, so that N, T and H all differ; ILU(0) is exact."""
    return sp.csr_array(np.array([[2 + 1j, 1, 0], [1j, 3, 1 - 1j], [0, 2, 4 - 1j]]))


def unsymmetric(n=60, dtype="float64", seed=0):
    """Diagonally dominant with an unsymmetric random pattern and values of any dtype."""
    rng = np.random.default_rng(seed)
    A = sp.coo_array(random(n, 3, seed) + random(n, 2, seed + 1).T)
    A.data = random_values(rng, A.nnz, dtype)
    return sp.csr_array(A + sp.diags_array(8 + random_values(rng, n, dtype))).astype(dtype)


def full_band(n, width=32, seed=0):
    """Random and diagonally dominant; every entry up to `width` off the diagonal is stored."""
    rng, offsets = np.random.default_rng(seed), np.arange(-width, width + 1)
    values = rng.uniform(-1, 1, (len(offsets), n))
    values[width] += len(offsets)
    return sp.csr_array(sp.dia_array((values, offsets), shape=(n, n)))


def convection_diffusion(m, speed=0.6):
    """First-order upwind on an m x m grid: unsymmetric, where CG is of no use."""
    line = sp.diags_array([-1.0 - speed, 2.0 + speed, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    one = sp.eye_array(m)
    return sp.csr_array(sp.kron(line, one) + sp.kron(one, line))


# ---- memory --------------------------------------------------------------------------------------


def arrays(value, seen=None):
    """Every array reachable from an object of this package."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays(item, seen)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays(item, seen)
    elif type(value).__module__.startswith(("gpuilu", "scipy")):
        yield from arrays(vars(value), seen)


def bytes_held(value):
    """Bytes of all arrays reachable from an object, each counted once."""
    held = {}
    for array in arrays(value):
        while isinstance(array.base, np.ndarray):
            array = array.base
        held[array.__array_interface__["data"][0]] = array.nbytes
    return sum(held.values())
