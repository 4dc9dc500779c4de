"""Keywords: the same everywhere, keyword-only, each with an error of its own for a bad value."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import gpuilu
from gpuilu.csr import canonical
from gpuilu.errors import (
    BackendUnavailableError,
    OptionError,
    UnknownAlgorithmError,
    UnsupportedDtypeError,
)
from gpuilu.options import Options, resolve_device

T3 = sp.csr_array(np.array([[4.0, -1, 0], [-1, 4, -1], [0, -1, 4]]))
LOWER = sp.csr_array(sp.tril(T3))
FACTORIES = {
    "ilu0": lambda **k: gpuilu.ilu0(T3, **k),
    "gauss_seidel": lambda **k: gpuilu.gauss_seidel(T3, **k),
    "sor": lambda **k: gpuilu.sor(T3, **{"omega": 1.5, **k}),
    "ssor": lambda **k: gpuilu.ssor(T3, **k),
    "from_factors": lambda **k: gpuilu.from_factors(LOWER, sp.csr_array(LOWER.T), **k),
    "TriangularSolver": lambda **k: gpuilu.TriangularSolver(LOWER, **k),
}
COMMON = {
    "algorithm": "auto",
    "device": "auto",
    "factor_dtype": None,
    "expected_solves": 100,
    "deterministic": True,
}
ITERATED = ("gauss_seidel", "sor", "ssor")

every_factory = pytest.mark.parametrize("name", FACTORIES)


@every_factory
def test_every_factory_takes_the_common_keywords_with_the_same_defaults(name):
    parameters = inspect.signature(getattr(gpuilu, name)).parameters
    for keyword, default in COMMON.items():
        assert parameters[keyword].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[keyword].default == default
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


@every_factory
def test_the_defaults_may_be_written_out(name):
    x = FACTORIES[name](**COMMON).matvec(np.ones(3))
    assert_array_equal(x, FACTORIES[name]().matvec(np.ones(3)))


@every_factory
def test_an_unknown_keyword_and_a_positional_option_are_refused(name):
    with pytest.raises(TypeError, match="droptol"):
        FACTORIES[name](droptol=1e-3)
    with pytest.raises(TypeError, match="positional"):
        getattr(gpuilu, name)(T3, None, None, None, "serial")


@every_factory
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_cpu_is_a_device(name, device):
    assert FACTORIES[name](device=device).info.device == "cpu"


@every_factory
@pytest.mark.parametrize("device", ["cuda", "cuda:1", 0, 3])
def test_a_gpu_is_not_available_and_the_error_says_what_is(name, device):
    with pytest.raises(BackendUnavailableError, match=r"device='auto' or device='cpu'"):
        FACTORIES[name](device=device)


@pytest.mark.parametrize("device", ["gpu", "CPU", "", "cudax", "metal:0", None, 1.5, ("cpu",)])
def test_what_is_no_device_is_refused(device):
    with pytest.raises(OptionError, match="device must be"):
        resolve_device(device)


@every_factory
def test_an_unknown_algorithm_is_answered_with_the_known_ones(name):
    with pytest.raises(UnknownAlgorithmError, match=r"'magic'.*'auto'.*'level'.*'serial'"):
        FACTORIES[name](algorithm="magic")


@every_factory
@pytest.mark.parametrize("algorithm", ["serial", "level"])
def test_the_algorithm_asked_for_is_used_and_said(name, algorithm):
    info = FACTORIES[name](algorithm=algorithm).info
    assert (info.algorithm, info.reason) == (algorithm, "asked for")


@every_factory
@pytest.mark.parametrize("dtype", ["f2", "i4", "?", "O", "longdouble", "clongdouble", "U4"])
def test_a_factor_dtype_that_is_not_a_value_dtype_is_refused(name, dtype):
    with pytest.raises(UnsupportedDtypeError, match="factor_dtype must be float32"):
        FACTORIES[name](factor_dtype=dtype)


@every_factory
@pytest.mark.parametrize("dtype", ["f", "d", np.float32, np.dtype("D"), "complex64"])
def test_the_factors_are_kept_in_the_dtype_asked_for(name, dtype):
    M = FACTORIES[name](factor_dtype=dtype)
    assert M.info.factor_dtype == np.dtype(dtype)
    assert M.dtype == np.float64
    assert all(T.dtype == np.dtype(dtype) for T in (M.L, M.U) if T is not None)


@pytest.mark.parametrize("narrow", ["f", "d"])
def test_a_real_factor_dtype_for_a_complex_matrix_is_refused(narrow):
    A = T3.astype(complex)
    for make in (gpuilu.ilu0, gpuilu.gauss_seidel):
        with pytest.raises(UnsupportedDtypeError, match="imaginary"):
            make(A, factor_dtype=narrow)
    with pytest.raises(UnsupportedDtypeError, match="imaginary"):
        gpuilu.TriangularSolver(LOWER.astype(complex), factor_dtype=narrow)


@pytest.mark.parametrize(
    ("matrix", "factor", "wide"),
    ["ddd", "dfd", "fdd", "fff", "dFD", "FDD", "DFD", "fDD", "fFF", ("d", None, "d")],
)
def test_factoring_is_done_in_the_wider_of_both_dtypes(matrix, factor, wide):
    options = Options(factor_dtype=None if factor is None else np.dtype(factor))
    assert options.widened(canonical(T3.astype(matrix))).data.dtype == wide


@every_factory
@pytest.mark.parametrize("count", [0, -3])
def test_fewer_than_one_expected_solve_is_refused(name, count):
    with pytest.raises(OptionError, match=f"expected_solves must be at least 1, found {count}"):
        FACTORIES[name](expected_solves=count)


@pytest.mark.parametrize("name", ITERATED)
@pytest.mark.parametrize("count", [0, -1])
def test_fewer_than_one_iteration_is_refused(name, count):
    with pytest.raises(OptionError, match=f"iterations must be at least 1, found {count}"):
        FACTORIES[name](iterations=count)


@pytest.mark.parametrize("name", ITERATED)
def test_a_number_of_iterations_that_is_no_integer_is_refused_at_once(name):
    with pytest.raises((OptionError, TypeError)):
        FACTORIES[name](iterations=1.5)


@pytest.mark.parametrize("name", ["ilu0", *ITERATED])
def test_an_unknown_rule_for_missing_diagonals_is_refused(name):
    with pytest.raises(OptionError, match=r"missing_diagonal must be one of .*found 'skip'"):
        FACTORIES[name](missing_diagonal="skip")


def test_a_bad_option_is_found_before_the_matrix_is_looked_at():
    with pytest.raises(UnsupportedDtypeError):
        gpuilu.ilu0(None, factor_dtype="f2")
    with pytest.raises(BackendUnavailableError):
        gpuilu.ilu0(None, device="cuda")
    with pytest.raises(OptionError):
        gpuilu.ilu0(None, expected_solves=0)
