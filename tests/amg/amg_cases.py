"""Hierarchies by pyamg for the tests, each from a fixed seed.

Importing this skips a test module where pyamg is not installed.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from cases import convection_diffusion

pyamg = pytest.importorskip("pyamg")


def poisson_2d():
    return pyamg.gallery.poisson((24, 20), format="csr")


def poisson_3d():
    return pyamg.gallery.poisson((8, 7, 9), format="csr")


def anisotropic():
    stencil = pyamg.gallery.diffusion_stencil_2d(epsilon=0.01, theta=np.pi / 6, type="FE")
    return sp.csr_array(pyamg.gallery.stencil_grid(stencil, (20, 22), format="csr"))


def elasticity():
    return pyamg.gallery.linear_elasticity((10, 10), format="bsr")


def example(name):
    return pyamg.gallery.load_example(name)["A"]


def rs(A, **options):
    return pyamg.ruge_stuben_solver(sp.csr_array(A), max_coarse=10, **options)


def sa(A, B=None, **options):
    return pyamg.smoothed_aggregation_solver(A, B=B, max_coarse=10, **options)


def _elasticity_sa(**options):
    A, B = elasticity()
    return sa(A, B, **options)


MAKERS = {
    "2-D Poisson, RS": lambda **o: rs(poisson_2d(), **o),
    "2-D Poisson, SA": lambda **o: sa(poisson_2d(), **o),
    "3-D Poisson, RS": lambda **o: rs(poisson_3d(), **o),
    "3-D Poisson, SA": lambda **o: sa(poisson_3d(), **o),
    "anisotropic, RS": lambda **o: rs(anisotropic(), **o),
    "anisotropic, SA": lambda **o: sa(anisotropic(), **o),
    "convection, RS": lambda **o: rs(convection_diffusion(20), **o),
    "convection, SA": lambda **o: sa(convection_diffusion(20), symmetry="nonsymmetric", **o),
    "elasticity, RS": lambda **o: rs(elasticity()[0].tocsr(), **o),
    "elasticity, SA": _elasticity_sa,
}
EXAMPLES = ("airfoil", "bar", "knot", "unit_square", "unit_cube", "recirc_flow")
MAKERS |= {
    f"{name}, {kind}": functools.partial(
        lambda make, name, **o: make(example(name), **o), {"RS": rs, "SA": sa}[kind], name
    )
    for name in EXAMPLES
    for kind in ("RS", "SA")
}


def hierarchy(name, seed=0, **options):
    """A new hierarchy; pyamg estimates spectral radii from random vectors."""
    np.random.seed(seed)  # noqa: NPY002
    return MAKERS[name](**options)


def right_hand_side(ml, seed=1):
    A = ml.levels[0].A
    rng = np.random.default_rng(seed)
    b = rng.standard_normal(A.shape[0])
    if A.dtype.kind == "c":
        b = b + 1j * rng.standard_normal(len(b))
    return b.astype(A.dtype)
