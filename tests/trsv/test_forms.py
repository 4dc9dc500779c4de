"""One triangle and its transposed forms: made at first use, once, and refilled together."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from cases import DTYPES, PATTERNS, as_triangle, random, random_values, triangle

from gpuilu.backend import held_bytes
from gpuilu.triangle import Transposed
from gpuilu.trsv.forms import Chain, TriangularForms
from gpuilu.trsv.level import Level
from gpuilu.trsv.serial import Serial


def solved(forms, b, trans):
    x = b.copy()
    Chain([forms]).solve(x, trans)
    return x


@pytest.fixture
def counted():
    """A plan that notes every triangle it is made for."""

    class Counted(Serial):
        made = []  # noqa: RUF012

        def __init__(self, T):
            self.made.append(T)
            super().__init__(T)

    return Counted


@pytest.mark.parametrize("unit_diagonal", [False, True], ids=["stored", "unit"])
@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_three_forms_solve_with_t_its_transpose_and_its_adjoint(dtype, lower, unit_diagonal):
    P = random(40, 3)
    T = triangle(P, dtype, lower)
    forms = TriangularForms(as_triangle(T, lower, unit_diagonal), Serial)
    if unit_diagonal:
        T = triangle(P, dtype, lower)
        T.setdiag(1)
    b = random_values(np.random.default_rng(0), (40, 2), dtype)
    for trans in "NTH":
        assert reference.backward_error(reference.op(T, trans), solved(forms, b, trans), b) <= 4


def test_nothing_is_transposed_before_its_first_use(counted):
    forms = TriangularForms(as_triangle(triangle(random(20, 2), "complex128")), counted)
    Chain([forms]).solve(np.ones(20, complex), "N")
    assert len(counted.made) == 1
    Chain([forms]).solve(np.ones(20, complex), "T")
    Chain([forms]).solve(np.ones(20, complex), "T")
    assert len(counted.made) == 2
    Chain([forms]).solve(np.ones(20, complex), "H")
    assert len(counted.made) == 3


def test_a_real_triangle_has_one_transposed_form(counted):
    forms = TriangularForms(as_triangle(triangle(random(20, 2))), counted)
    assert forms.plan("T") is forms.plan("H")
    assert len(counted.made) == 2


def test_threads_that_meet_at_the_first_use_share_one_form(counted):
    forms = TriangularForms(as_triangle(triangle(random(50, 3))), counted)
    together, plans = threading.Barrier(8), []

    def first_use():
        together.wait()
        plans.append(forms.plan("T"))

    threads = [threading.Thread(target=first_use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plans) == 8
    assert len(set(map(id, plans))) == 1
    assert len(counted.made) == 2


@pytest.mark.parametrize("plan", [Serial, Level], ids=["no copy", "a copy in level order"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_new_values_reach_every_form_made_so_far_and_those_made_later(plan, dtype):
    old, new = (triangle(random(30, 3), dtype, seed=s) for s in (1, 2))
    b = random_values(np.random.default_rng(0), 30, dtype)
    for made in ("", "T", "H", "TH"):
        forms = TriangularForms(as_triangle(old), plan)
        for trans in made:
            Chain([forms]).solve(b.copy(), trans)
        forms.assign(as_triangle(new))
        for trans in "NTH":
            expected = solved(TriangularForms(as_triangle(new), plan), b, trans)
            np.testing.assert_array_equal(solved(forms, b, trans), expected)


def test_new_values_are_copied_into_the_arrays_there_are():
    T, new = (as_triangle(triangle(random(30, 3), seed=s)) for s in (1, 2))
    forms = TriangularForms(T, Serial)
    forms.plan("T")
    before = (T.data, T.diag, forms.plan("T").T.data)
    forms.assign(new)
    after = (forms.T.data, forms.T.diag, forms.plan("T").T.data)
    assert all(a is b for a, b in zip(after, before, strict=True))
    assert not np.shares_memory(T.data, new.data)


def test_each_form_counts_its_bytes_once_it_is_there():
    T = as_triangle(triangle(random(30, 3), "complex128"))
    forms = TriangularForms(T, Serial)
    own = held_bytes(T)
    assert held_bytes(forms) == own
    forms.plan("T")
    one_form = own + 4 * len(T.indices)  # and where each entry came from
    assert held_bytes(forms) == own + one_form
    forms.plan("H")
    assert held_bytes(forms) == own + 2 * one_form


def test_a_transposed_triangle_by_hand():
    # [1 . .]            [1 2j 3]
    # [2j 4 .]  becomes  [. 4  5]
    # [3 5 6]            [. .  6]
    T = as_triangle(sp.csr_array(np.array([[1, 0, 0], [2j, 4, 0], [3, 5, 6]])))
    t, h = (Transposed(T, conjugate).triangle for conjugate in (False, True))
    for form in (t, h):
        assert not form.lower
        assert form.indptr.tolist() == [0, 2, 3, 3]
        assert form.indices.tolist() == [1, 2, 2]
        assert form.diag.tolist() == [1, 4, 6]
    assert t.data.tolist() == [2j, 3, 5]
    assert h.data.tolist() == [-2j, 3, 5]


@pytest.mark.parametrize("case", [c for c in PATTERNS if PATTERNS[c]().shape[0] <= 70])
def test_transposing_twice_gives_the_same_triangle(case):
    T = as_triangle(triangle(PATTERNS[case](), "complex128"))
    for conjugate in (False, True):
        back = Transposed(Transposed(T, conjugate).triangle, conjugate).triangle
        assert back.lower
        for name in ("indptr", "indices", "data", "diag"):
            np.testing.assert_array_equal(getattr(back, name), getattr(T, name))
