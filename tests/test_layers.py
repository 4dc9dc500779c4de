"""Imports go down the layers only, and CuPy is imported in one place."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import gpuilu

PACKAGE = Path(gpuilu.__file__).parent

FACE = [
    *("options", "info", "application", "vectors", "operands", "preconditioner", "factories"),
    "relaxation",
]
HOSTS = ["amg", "krylov", "petsc", "bench", "sources"]
# From the ground up; "" is gpuilu/__init__.py, the public names. Units of one rank do not import
# each other, but those of the two groups may.
RANKS = [
    ["errors", "kernels", "text"],
    ["backend"],
    ["csr", "triangle", "products"],
    ["dag"],
    ["kahn"],
    ["factor", "trsv"],
    FACE,
    [""],
    HOSTS,
    ["__main__"],
]
RANK = {unit: rank for rank, units in enumerate(RANKS) for unit in units}
CUPY = {"backend.compile", "backend.devices", "backend.arrays"}


def modules(package):
    """{name below the package: parsed source} of every module; a package has its folder's name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(), str(path))
    return found


def imports(name, tree, known, package="gpuilu"):
    """The modules of the package that a module imports anywhere, function bodies included."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively, line {node.lineno}"
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [b if b.removeprefix(f"{package}.") in known else node.module for b in below]
        else:
            continue
        ours = [target for target in targets if target.split(".")[0] == package]
        found |= {target.removeprefix(package).lstrip(".") for target in ours}
    return found


def upward(graph):
    """Imports that do not go down: 'importer -> imported'."""
    wrong = []
    for name, targets in graph.items():
        unit = name.split(".")[0]
        for target in targets:
            other = target.split(".")[0]
            same_group = any({unit, other} <= set(group) for group in (FACE, HOSTS))
            if unit != other and not same_group and RANK[other] >= RANK[unit]:
                wrong.append(f"{name or 'gpuilu'} -> {target or 'gpuilu'}")
    return wrong


def cupy_imports(tree):
    """(line, whether it runs when the module is imported) of every import of CuPy."""
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(name.split(".")[0] in ("cupy", "cupyx", "cupy_backends") for name in names):
            yield node.lineno, id(node) not in lazy


@pytest.fixture(scope="module")
def trees():
    return modules(PACKAGE)


@pytest.fixture(scope="module")
def graph(trees):
    return {name: imports(name, tree, trees) for name, tree in trees.items()}


def test_every_module_has_a_rank(graph):
    assert {name.split(".")[0] for name in graph} <= set(RANK)
    assert {"errors", "csr", "dag", "factor.ilu0", "trsv.serial", "preconditioner"} <= set(graph)


def test_imports_only_go_down(graph):
    assert upward(graph) == []


def test_imports_have_no_cycle_but_a_package_and_its_own_modules(graph):
    def outside(name, target):
        return target and not name.startswith(f"{target}.")

    acyclic = {name: {t for t in graph[name] if outside(name, t)} for name in graph}
    assert list(TopologicalSorter(acyclic).static_order())  # raises CycleError


def test_the_public_names_are_imported_by_nothing_below_them(graph):
    below = [name for name in graph if RANK[name.split(".")[0]] < RANK[""]]
    assert [name for name in below if "" in graph[name]] == []


def test_cupy_is_imported_by_its_backend_alone_and_only_when_it_is_needed(trees):
    found = {name: list(cupy_imports(tree)) for name, tree in trees.items()}
    assert {name for name, lines in found.items() if lines} <= CUPY
    assert [lines for lines in found.values() if any(eager for _, eager in lines)] == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("csr", "from gpuilu.errors import GpuiluError", []),
        ("csr", "from gpuilu.factor.base import Factors", ["csr -> factor.base"]),
        ("csr", "import gpuilu.triangle", ["csr -> triangle"]),
        ("factor.ilu0", "from gpuilu.factor.base import Factors", []),
        ("factor.ilu0", "from gpuilu.trsv import base", ["factor.ilu0 -> trsv.base"]),
        (
            "trsv.serial",
            "def f():\n    from gpuilu.options import Options",
            ["trsv.serial -> options"],
        ),
        ("factories", "from gpuilu.options import Options", []),
        ("dag", "from gpuilu import ilu0", ["dag -> gpuilu"]),
        ("errors", "import numpy", []),
    ],
)
def test_the_checker_sees_imports_of_every_form(module, source, wrong, trees):
    assert upward({module: imports(module, ast.parse(source), trees)}) == wrong


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import cupy as cp", [(1, True)]),
        ("from cupyx.scipy import sparse", [(1, True)]),
        ("try:\n    import cupy\nexcept ImportError:\n    pass", [(2, True)]),
        ("def f():\n    import cupyx.scipy.sparse", [(2, False)]),
        ("import numpy\ncupy = None", []),
    ],
)
def test_the_checker_tells_lazy_imports_of_cupy_from_eager_ones(source, found):
    assert list(cupy_imports(ast.parse(source))) == found
