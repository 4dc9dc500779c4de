"""The operator applied: arguments of every shape, layout and dtype, and where the result goes."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from cases import DTYPES, complex_3x3, poisson, random_values, tridiagonal, unsymmetric

import gpuilu

B3 = [1.0, 2.0, 3.0]
X3 = np.array([0.4642857142857143, 0.8571428571428571, 0.9642857142857143])


@pytest.fixture(scope="module")
def M():
    """ILU(0) of an unsymmetric matrix of 60 rows."""
    return gpuilu.ilu0(unsymmetric())


def inverse(M):
    """M^-1, dense."""
    return np.linalg.inv((M.L @ M.U).toarray())


def rhs(*shape, dtype="float64", seed=0):
    return random_values(np.random.default_rng(seed), shape, dtype)


# ---- answers -------------------------------------------------------------------------------------


def test_a_tridiagonal_matrix_is_solved_exactly():
    M = gpuilu.ilu0(tridiagonal())
    for x in (M @ B3, M * B3, M.dot(B3), M.matvec(B3), M.rmatvec(B3), M.solve(B3), M(B3), M.T @ B3):
        np.testing.assert_allclose(x, X3, rtol=1e-15)


def test_n_t_and_h_differ_for_a_complex_matrix_and_each_is_right():
    M, b = gpuilu.ilu0(complex_3x3()), [1, 1j, 2 - 1j]
    answers = {
        "N": [0.40384615 - 0.48076923j, -0.28846154 + 0.55769231j, 0.73076923 - 0.34615385j],
        "T": [0.78846154 - 0.05769231j, -0.67307692 + 0.63461538j, 0.61538462 - 0.42307692j],
        "H": [0.23076923 - 0.15384615j, -0.53846154 + 0.69230769j, 0.69230769 - 0.46153846j],
    }
    views = {"N": M, "T": M.T, "H": M.H}
    for trans, x in answers.items():
        np.testing.assert_allclose(M.solve(b, trans), x, atol=5e-9)
        np.testing.assert_allclose(views[trans] @ b, x, atol=5e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factory", ["ilu0", "gauss_seidel", "ssor"])
def test_the_adjoint_of_the_apply_is_the_apply_of_the_adjoint(factory, dtype):
    M = getattr(gpuilu, factory)(unsymmetric(dtype=dtype))
    u, v = rhs(60, dtype=dtype, seed=1), rhs(60, dtype=dtype, seed=2)
    left, right = np.vdot(v, M @ u), np.vdot(M.H @ v, u)
    assert abs(left - right) <= 60 * np.finfo(dtype).eps * np.linalg.norm(u) * np.linalg.norm(v)


def test_the_result_is_linear_in_b(M):
    u, v = rhs(60, 2, seed=1), rhs(60, 2, seed=2)
    np.testing.assert_array_equal(M @ (-4 * u), -4 * (M @ u))  # powers of two commute with rounding
    np.testing.assert_array_equal(M @ np.zeros(60), np.zeros(60))
    together, apart = M @ (u + v), M @ u + M @ v
    bound = reference.forward_bound((M.L @ M.U).toarray(), abs(M @ u) + abs(M @ v), abs(u) + abs(v))
    assert np.all(abs(together - apart) <= 8 * bound)


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ["serial", "level"])
def test_a_block_gives_the_bits_of_its_columns(algorithm, dtype, trans):
    M = gpuilu.ilu0(unsymmetric(dtype=dtype), algorithm=algorithm)
    B = rhs(60, 6, dtype=dtype)
    alone = np.column_stack([M.solve(b, trans) for b in B.T])
    np.testing.assert_array_equal(M.solve(B, trans), alone)
    np.testing.assert_array_equal(M.solve(B[:, 2:3], trans), alone[:, 2:3])


# ---- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60,), (60, 1), (60, 2), (60, 7), (60, 0)])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_the_result_has_the_shape_of_b(M, shape, trans):
    b = rhs(*shape)
    x = M.solve(b, trans)
    assert (x.shape, x.dtype) == (shape, b.dtype)
    np.testing.assert_allclose(x, reference.op(inverse(M), trans) @ b, rtol=1e-10)


def test_the_public_and_the_private_methods_of_an_operator_agree(M):
    b, B = rhs(60), rhs(60, 3)
    for name, argument, x in [
        ("matvec", b, M.solve(b)),
        ("matvec", b[:, None], M.solve(b)[:, None]),
        ("rmatvec", b, M.solve(b, "H")),
        ("rmatvec", b[:, None], M.solve(b, "H")[:, None]),
        ("matmat", B, M.solve(B)),
        ("rmatmat", B, M.solve(B, "H")),
    ]:
        for method in (name, "_" + name):
            np.testing.assert_array_equal(getattr(M, method)(argument), x, method)
    for X in (M @ B, M.dot(B), M * B, M(B)):
        np.testing.assert_array_equal(X, M.solve(B))


@pytest.mark.parametrize("shape", [(), (59,), (61,), (1, 60), (59, 2), (60, 2, 1), (0,)])
def test_a_right_hand_side_of_the_wrong_shape_is_refused(M, shape):
    for apply in (M.solve, M.matvec, M.rmatvec, M.matmat, M.rmatmat, M.dot):
        with pytest.raises(gpuilu.ShapeMismatchError):
            apply(np.ones(shape))


def test_a_vector_is_no_block_and_a_block_no_vector(M):
    for apply in (M.matmat, M.rmatmat):
        with pytest.raises(gpuilu.ShapeMismatchError, match="2-d"):
            apply(np.ones(60))
    for apply in (M.matvec, M.rmatvec):
        with pytest.raises(gpuilu.ShapeMismatchError, match=r"\(60, 2\)"):
            apply(np.ones((60, 2)))


def test_an_unknown_trans_lists_the_three_there_are(M):
    for trans in ("C", "n", "", None, "TH"):
        with pytest.raises(gpuilu.OptionError, match="'N', 'T', 'H'"):
            M.solve(rhs(60), trans)


def test_an_operator_of_order_0_and_1():
    for n in (0, 1):
        M = gpuilu.ilu0(5 * sp.eye_array(n))
        assert M.shape == (n, n)
        for shape in ((n,), (n, 1), (n, 3), (n, 0)):
            np.testing.assert_array_equal(M @ np.full(shape, 10.0), np.full(shape, 2.0))


# ---- layouts -------------------------------------------------------------------------------------


def layouts(B):
    """The values of B, 60 x 3, laid out in every way NumPy has."""
    wide, tall = np.zeros((60, 8)), np.zeros((180, 3))
    wide[:, 2:5], tall[::3] = B, B
    read_only = B.copy()
    read_only.flags.writeable = False
    unaligned = np.zeros(B.nbytes + 1, np.uint8)[1:].view(float).reshape(B.shape)
    unaligned[...] = B
    return {
        "a list": B.tolist(),
        "F order": np.asfortranarray(B),
        "columns of a wider array": wide[:, 2:5],
        "every third row": tall[::3],
        "backwards": B[::-1].copy()[::-1],
        "both axes backwards": B[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": read_only,
        "unaligned": unaligned,
        "the other byte order": B.astype(B.dtype.newbyteorder()),
        "np.matrix": B.view(np.matrix),
    }


@pytest.mark.parametrize("layout", layouts(np.zeros((60, 3))))
def test_any_layout_of_b_gives_the_same_bits_and_is_not_changed(M, layout):
    B = rhs(60, 3)
    b = layouts(B)[layout]
    for trans in "NTH":
        np.testing.assert_array_equal(M.solve(b, trans), M.solve(B, trans))
    np.testing.assert_array_equal(b, B)
    if layout not in ("a list", "np.matrix"):
        np.testing.assert_array_equal(M @ b[:, 1], M @ B[:, 1].copy())


def test_strided_and_reversed_vectors(M):
    v = rhs(120)
    for b in (v[::2], v[1::2], v[:60][::-1], np.broadcast_to(v[0], 60)):
        np.testing.assert_array_equal(M @ b, M @ b.copy())


# ---- whose memory --------------------------------------------------------------------------------


def test_every_apply_returns_a_new_array(M):
    b, B = rhs(60), rhs(60, 2)
    for apply in (M.solve, M.matvec, M.rmatvec, M.dot, M.T.dot):
        first, second = apply(b), apply(b)
        assert not np.shares_memory(first, second)
        assert not np.shares_memory(first, b)
        kept = first.copy()
        second[:] = 0  # hosts change what they were given
        np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(M @ B, M @ B)
    diagonal = gpuilu.TriangularSolver(tridiagonal(1), unit_diagonal=True)
    one = np.ones(1)
    assert not np.shares_memory(diagonal @ one, one)


def test_out_receives_the_result_whatever_it_held(M):
    b, B = rhs(60), rhs(60, 3)
    for argument in (b, b[:, None], B, B[:, :0]):
        for held in (np.nan, np.inf, 0.0):
            out = np.full(argument.shape, held)
            assert M.solve(argument, "T", out=out) is out
            np.testing.assert_array_equal(out, M.solve(argument, "T"))


def test_out_may_be_b_itself(M):
    for b in (rhs(60), rhs(60, 1), rhs(60, 4), np.asfortranarray(rhs(60, 4)), rhs(120)[::2]):
        x = M.solve(b)
        assert M.solve(b, out=b) is b
        np.testing.assert_array_equal(b, x)


@pytest.mark.parametrize("shift", [0, 1, 3, 59])
def test_out_may_overlap_b(M, shift):
    for step in (1, 2):
        for swap in (False, True):
            buffer = rhs(240)
            first, second = buffer[: 60 * step : step], buffer[shift : shift + 60 * step : step]
            b, out = (second, first) if swap else (first, second)
            x = M.solve(b.copy())
            np.testing.assert_array_equal(M.solve(b, out=out), x)
    buffer = rhs(60)
    x = M.solve(buffer[::-1].copy())
    np.testing.assert_array_equal(M.solve(buffer[::-1], out=buffer), x)


def test_a_strided_out_keeps_what_lies_between(M):
    for out in (np.full((60, 9), 7.0)[:, 1:8:3], np.full((120, 3), 7.0)[::-2]):
        whole = out.base
        np.testing.assert_array_equal(M.solve(rhs(60, 3), out=out), M.solve(rhs(60, 3)))
        assert np.count_nonzero(whole == 7.0) == whole.size - out.size


def test_an_out_that_is_a_column_matrix_receives_the_result(M):
    b = rhs(60, 1)
    out = np.zeros((60, 1)).view(np.matrix)
    M.solve(b, out=out)
    np.testing.assert_array_equal(np.asarray(out), M.solve(b))


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.empty(59), gpuilu.ShapeMismatchError),
        (np.empty((60, 1)), gpuilu.ShapeMismatchError),
        ([0.0] * 60, gpuilu.ShapeMismatchError),
        (np.broadcast_to(0.0, 60), gpuilu.ShapeMismatchError),
        (np.empty(60, np.float32), gpuilu.UnsupportedDtypeError),
        (np.empty(60, complex), gpuilu.UnsupportedDtypeError),
        (np.empty(60, np.dtype(float).newbyteorder()), gpuilu.UnsupportedDtypeError),
    ],
)
def test_an_out_that_does_not_fit_is_refused(M, out, error):
    with pytest.raises(error, match="out"):
        M.solve(rhs(60), out=out)


# ---- dtypes --------------------------------------------------------------------------------------

NUMBERS = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float16", *DTYPES]


@pytest.mark.parametrize("factor", DTYPES)
@pytest.mark.parametrize("b", NUMBERS)
def test_the_result_has_the_result_type_of_b_and_the_factors(factor, b):
    M = gpuilu.ilu0(tridiagonal().astype(factor))
    x = M @ np.array([1, 0, 1]).astype(b)
    assert x.dtype == np.result_type(b, factor)
    np.testing.assert_allclose(x, [4 / 14, 2 / 14, 4 / 14], rtol=4 * np.finfo(factor).eps)


@pytest.mark.parametrize("b", ["longdouble", "clongdouble", "object", "U1", "S1", "M8[s]", "m8[s]"])
def test_a_right_hand_side_of_another_dtype_is_refused_by_name(M, b):
    with pytest.raises(gpuilu.UnsupportedDtypeError, match=str(np.dtype(b))[:4]) as raised:
        M @ np.zeros(60, b)
    assert isinstance(raised.value, TypeError)


def test_a_complex_right_hand_side_of_a_real_operator_keeps_its_imaginary_part(M):
    b, c = rhs(60), rhs(60, seed=1)
    for trans in "NTH":
        x = M.solve(b + 1j * c, trans)
        np.testing.assert_array_equal(x.real, M.solve(b, trans))
        np.testing.assert_array_equal(x.imag, M.solve(c, trans))


@pytest.mark.parametrize("factor_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factory", ["ilu0", "gauss_seidel", "TriangularSolver", "from_factors"])
def test_complex_factors_are_never_stored_as_real_ones(factory, factor_dtype):
    M = gpuilu.ilu0(complex_3x3())
    given = {"TriangularSolver": (M.L,), "from_factors": (M.L, M.U)}.get(factory, (complex_3x3(),))
    with pytest.raises(gpuilu.UnsupportedDtypeError, match="imaginary"):
        getattr(gpuilu, factory)(*given, factor_dtype=factor_dtype)


def test_narrow_factors_under_a_wide_operator_keep_the_wide_result():
    A, b = poisson(6, 5), rhs(30)
    M = gpuilu.ilu0(A, factor_dtype=np.float32)
    assert (M.dtype, M.info.factor_dtype, M.L.dtype) == (np.float64, np.float32, np.float32)
    x = M @ b
    assert x.dtype == np.float64
    LU = (M.L.astype(float) @ M.U.astype(float)).toarray()
    bound = reference.forward_bound(LU, x[:, None], b[:, None])[:, 0]
    assert np.all(abs(x - np.linalg.solve(LU, b)) <= 8 * bound)
    assert 0 < np.max(abs(x - gpuilu.ilu0(A) @ b)) < 1e-5
    wide = gpuilu.ilu0(A.astype(np.float32), factor_dtype=np.float64)
    assert (wide @ b.astype(np.float32)).dtype == np.float64
