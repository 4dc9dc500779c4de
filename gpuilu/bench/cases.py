"""L by name: the fixed matrices that are measured, each a lower triangle or a square matrix.

The thirteen of `fast13` are those of the project's design; `grids` are those of table 5.1 of Li
(2017); `papers` are stand-ins, of like size and structure, for the general matrices of the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpuilu import sources
from gpuilu.bench import patterns
from gpuilu.errors import OptionError

__all__ = ["CASES", "GROUPS", "Case", "chosen", "known", "label", "named"]

VERSION = 2  # of the generators: a cached matrix of another version is not used


@dataclass(frozen=True)
class Case:
    """A matrix to measure.

    Parameters
    ----------
    name : str
    groups : tuple of str
    title : str
        What it is, in a few words.
    build : callable
        build(scale) is the matrix, a canonical float64 `csr_array` with a full diagonal, with
        about `scale` times the entries of the full size; scale = 1 is exact.
    like : str
        The matrix of a paper that it stands for.
    """

    name: str
    groups: tuple[str, ...]
    title: str
    build: Callable[[float], sp.csr_array]
    like: str = ""


def chosen(names: Sequence[str] = (), groups: Sequence[str] = ()) -> list[Case]:
    """Cases by name and group, in the order of `CASES`; names of files are added.

    Raises
    ------
    OptionError
        If a name is neither a case nor a file, or there is no such group.
    """
    for group in groups:
        if group not in GROUPS:
            raise OptionError(f"no group is named {group!r}; there are {', '.join(GROUPS)}")
    found = [c for c in CASES.values() if c.name in names or set(groups) & set(c.groups)]
    return found + [named(name) for name in names if name not in CASES]


def named(name: str) -> Case:
    """One case: of the table, or a Matrix Market or Harwell-Boeing file."""
    if name in CASES:
        return CASES[name]
    if not Path(name).is_file():
        raise OptionError(
            f"no case and no file is named {name!r}; `gpuilu bench cases` lists the cases"
        )
    return Case(name, ("files",), Path(name).name, lambda scale: _from_file(name))


def label(case: Case, scale: float) -> str:
    """The name of a case in a record; it tells when the case is not of full size."""
    return case.name if scale == 1 or "files" in case.groups else f"{case.name}@{scale:g}"


def known(label: str) -> Case | None:
    """The case of the table that a name in a record is of; None for a file."""
    return CASES.get(label.partition("@")[0])


def _from_file(path: str) -> sp.csr_array:
    """The file's pattern and a full diagonal; the values are made up: no solve may overflow."""
    return patterns.dominant_square(sources.load(path), 1)


def _side(m: int, scale: float, dimensions: int) -> int:
    return m if scale == 1 else max(4, round(m * scale ** (1 / dimensions)))


def _count(n: int, scale: float) -> int:
    return n if scale == 1 else max(100, round(n * scale))


# ---- grids --------------------------------------------------------------------------------------


def _grid(sizes: tuple[int, ...], full: bool, dof: int = 1) -> Callable[[float], sp.csr_array]:
    """Sizes as (nx, ny[, nz]), x fastest."""

    def build(scale: float) -> sp.csr_array:
        shape = [_side(m, scale, len(sizes)) for m in reversed(sizes)]
        offsets = patterns.star(len(sizes), full)
        return patterns.dominant(patterns.grid(shape, offsets, dof), 1)

    return build


def _grid_cases() -> list[Case]:
    """Table 5.1 of Li (2017), four stencils."""
    aspects: dict[tuple[int, int], list[tuple[int, ...]]] = {
        (5, 9): [(1024, 1024), (512, 2048), (256, 4096), (128, 8192), (64, 16384)],
        (7, 27): [(128,) * 3, (64, 128, 256), (64, 64, 512), (32, 64, 1024), (32, 32, 2048)],
    }
    fast = {"g2d5_1024x1024", "g2d5_64x16384", "g2d9_1024x1024"}
    fast |= {"g3d7_128", "g3d7_32x32x2048", "g3d27_128"}
    found = []
    for points, shapes in aspects.items():
        for p in points:
            for sizes in shapes:
                text = "128" if sizes == (128,) * 3 else "x".join(map(str, sizes))
                name = f"g{len(sizes)}d{p}_{text}"
                groups = ("fast13", "grids") if name in fast else ("grids",)
                title = f"{len(sizes)}-D {p}-point grid, {' x '.join(map(str, sizes))}"
                found.append(Case(name, groups, title, _grid(sizes, p == points[1])))
    return found


# ---- meshes, graphs, bands ----------------------------------------------------------------------


def _dominant(
    pattern: Callable[..., Any], *arguments: Any, seed: int = 1, n: int = 1_000_000
) -> Callable[[float], sp.csr_array]:
    def build(scale: float) -> sp.csr_array:
        return patterns.dominant(pattern(_count(n, scale), *arguments), seed)

    return build


def _power_law(scale: float) -> sp.csr_array:
    longest = int(4700 * scale**0.5)
    return patterns.dominant(patterns.power_law(_count(1_000_000, scale), longest), 1)


def _dense(scale: float) -> sp.csr_array:
    return patterns.dominant(patterns.dense(_side(2000, scale, 2)), 1)


FAST = [
    Case(
        "elast3d_64_dof3",
        ("fast13",),
        "3-D elasticity, 3 unknowns a node, 64 x 64 x 64",
        _grid((64, 64, 64), True, 3),
        "elasticity3D, Queen_4147, FEM/ship_003",
    ),
    Case(
        "fem2d_rcm",
        ("fast13",),
        "2-D Delaunay mesh, reverse Cuthill-McKee order",
        _dominant(patterns.mesh, True, seed=12),
    ),
    Case(
        "fem2d_random",
        ("fast13",),
        "the same mesh, random order",
        _dominant(patterns.mesh, False, seed=11),
        "thermal2, hugebubbles-00000",
    ),
    Case("powerlaw_1M", ("fast13",), "power-law graph", _power_law, "webbase-1M, wiki-Talk"),
    Case("road_1M", ("fast13",), "road-like graph", _dominant(patterns.road), "road_usa"),
    Case("band64_60k", ("fast13",), "band, 64 wide", _dominant(patterns.band, 64, n=60_000)),
    Case("dense_2000", ("fast13",), "dense triangle", _dense, "Dense"),
]


# ---- stand-ins for the papers' general matrices -------------------------------------------------


def _convection_diffusion(scale: float) -> sp.csr_array:
    """-Δu + v . grad u by upwind differences, v = (0.5, 0.3, 0.1): the lower triangle."""
    m = _side(108, scale, 3)
    pattern = indptr, indices = patterns.grid((m, m, m), patterns.star(3, False))
    distance = np.repeat(np.arange(m**3), np.diff(indptr)) - indices
    data = -1.0 - np.select([distance == 1, distance == m], [0.5, 0.3], 0.1)
    return patterns.with_diagonal(pattern, data, np.full(m**3, 6.9))


def _conductivities(scale: float) -> sp.csr_array:
    """-div(k grad u) with k log-normal on the edges of a grid: the lower triangle."""
    m = _side(1000, scale, 2)
    pattern = indptr, indices = patterns.grid((m, m), patterns.star(2, False))
    k = np.random.default_rng(1).lognormal(size=len(indices))
    row = np.repeat(np.arange(m * m), np.diff(indptr))
    diag = sum(np.bincount(ends, k, minlength=m * m) for ends in (row, indices)) + 1e-3
    return patterns.with_diagonal(pattern, -k, diag)


def _shell(scale: float) -> sp.csr_array:
    m = _side(318, scale, 2)
    return patterns.dominant(patterns.grid((m, m), patterns.TRIANGULATED, 5), 1)


def _kkt(scale: float) -> sp.csr_array:
    m = _side(100, scale, 3)
    return patterns.dominant(patterns.kkt((m, m, m)), 1)


PAPERS = [
    Case(
        "convdiff_108", ("papers",), "3-D convection-diffusion", _convection_diffusion, "atmosmodd"
    ),
    Case("conduct_1000", ("papers",), "2-D random conductivities", _conductivities, "ecology2"),
    Case("shell_318_dof5", ("papers",), "shell, 35 entries a row", _shell, "af_shell8"),
    Case("kkt_100", ("papers",), "KKT system, two levels", _kkt, "nlpkkt160"),
    Case("arrow_466k", ("papers",), "arrow", _dominant(patterns.arrow, n=466_000), "boyd2"),
    Case(
        "blocks_60k",
        ("papers",),
        "dense blocks of 11 on the diagonal",
        _dominant(patterns.block_diagonal, 11, n=60_000),
        "blockqp1",
    ),
    Case(
        "circuit_683k",
        ("papers",),
        "circuit with a few dense rows",
        _dominant(patterns.circuit, n=683_000),
        "ASIC_680k, circuit5M",
    ),
]

CASES: dict[str, Case] = {case.name: case for case in (*_grid_cases(), *FAST, *PAPERS)}
GROUPS = ("fast13", "grids", "papers")
