"""Every public error is a `GpuiluError` and the built-in that a user would catch; pickles too."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import gpuilu
from gpuilu import errors
from gpuilu.errors import GpuiluError

BUILT_INS = {
    "InvalidMatrixError": (ValueError,),
    "NotTriangularError": (ValueError,),
    "PatternMismatchError": (ValueError,),
    "ShapeMismatchError": (ValueError,),
    "DeviceMismatchError": (ValueError,),
    "OptionError": (ValueError,),
    "CaptureError": (RuntimeError,),
    "UnsupportedDtypeError": (TypeError,),
    "MissingDiagonalError": (ValueError, errors.InvalidMatrixError),
    "ZeroPivotError": (ArithmeticError, np.linalg.LinAlgError),
    "UnknownAlgorithmError": (ValueError,),
    "UnsupportedAlgorithmError": (ValueError,),
    "BackendUnavailableError": (ImportError,),
    "KernelCompileError": (RuntimeError,),
    "SolveStalledError": (RuntimeError,),
}
ATTRIBUTES = {
    "MissingDiagonalError": {"row": 7},
    "ZeroPivotError": {"row": 7, "value": 0.5 - 2j},
    "KernelCompileError": {"log": "line 3: expected ';'"},
}


def test_the_table_of_this_test_is_the_list_of_errors():
    assert set(errors.__all__) == {"GpuiluError", *BUILT_INS}
    assert set(errors.__all__) <= set(gpuilu.__all__)


@pytest.mark.parametrize("name", BUILT_INS)
def test_an_error_derives_from_the_base_class_and_from_its_built_in(name):
    error = getattr(gpuilu, name)
    assert error is getattr(errors, name)
    assert issubclass(error, GpuiluError)
    for built_in in BUILT_INS[name]:
        assert issubclass(error, built_in)
    assert error.__doc__


@pytest.mark.parametrize("name", BUILT_INS)
def test_an_error_keeps_its_message_and_attributes_in_pickles_and_copies(name):
    attributes = ATTRIBUTES.get(name, {})
    error = getattr(gpuilu, name)("what, where, and what to do", **attributes)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == "what, where, and what to do"
        assert {key: getattr(twin, key) for key in attributes} == attributes


def test_the_base_class_is_no_built_in_that_catches_too_much():
    assert GpuiluError.__bases__ == (Exception,)


@pytest.mark.parametrize("built_in", [ArithmeticError, np.linalg.LinAlgError, GpuiluError])
def test_a_zero_pivot_met_in_use_is_caught_by_each_of_its_names(built_in):
    with pytest.raises(built_in) as caught:
        gpuilu.ilu0(sp.csr_array(np.ones((2, 2))))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.row, error.value, str(error)) == (1, 0.0, str(caught.value))


@pytest.mark.parametrize("built_in", [ValueError, gpuilu.InvalidMatrixError, GpuiluError])
def test_a_missing_diagonal_met_in_use_is_caught_by_each_of_its_names(built_in):
    with pytest.raises(built_in) as caught:
        gpuilu.ilu0(sp.csr_array(np.array([[1.0, 2], [3, 0]])))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.row, str(error)) == (1, str(caught.value))


def test_a_choice_that_does_not_exist_is_answered_with_those_that_do():
    errors.require_choice("sweep", "forward", ("forward", "backward"))
    with pytest.raises(gpuilu.OptionError, match=r"sweep must be one of \('forward', 'backward'\)"):
        errors.require_choice("sweep", None, ("forward", "backward"))
