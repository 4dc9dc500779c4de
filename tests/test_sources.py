"""SOURCE -> A: what each form gives, and clear errors without large allocations for bad files."""

from __future__ import annotations

import gzip
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import gpuilu
from gpuilu import sources

BANNER = "%%MatrixMarket matrix"


@pytest.fixture
def write(tmp_path):
    """A function that writes text or bytes to a file and returns its path."""

    def written(content, name="A.mtx"):
        path = tmp_path / name
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return written


# ---- Matrix Market -------------------------------------------------------------------------------

FILES = {
    "coordinate real general": ("2 2 3\n1 1 1.5\n2 2 -2e0\n2 1 3\n", [[1.5, 0], [3, -2]]),
    "coordinate integer general": ("2 2 2\n1 1 4\n2 2 5\n", [[4, 0], [0, 5]]),
    "coordinate pattern general": ("2 2 3\n1 1\n2 2\n1 2\n", [[1, 1], [0, 1]]),
    "coordinate complex general": ("2 2 2\n1 1 1 2\n2 2 0 -1\n", [[1 + 2j, 0], [0, -1j]]),
    "coordinate real symmetric": ("2 2 2\n1 1 4\n2 1 -1\n", [[4, -1], [-1, 0]]),
    "coordinate pattern symmetric": ("2 2 2\n1 1\n2 1\n", [[1, 1], [1, 0]]),
    "coordinate real skew-symmetric": ("2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
    "coordinate complex hermitian": ("2 2 2\n1 1 4 0\n2 1 1 2\n", [[4, 1 - 2j], [1 + 2j, 0]]),
    "array real general": ("2 2\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
    "array integer general": ("2 2\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
    "array complex general": ("1 1\n3 4\n", [[3 + 4j]]),
    "array real symmetric": ("2 2\n4\n-1\n5\n", [[4, -1], [-1, 5]]),
    "array real skew-symmetric": ("2 2\n3\n", [[0, -3], [3, 0]]),
}


@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
@pytest.mark.parametrize("kind", FILES)
def test_every_kind_of_matrix_market_file_is_read(kind, name, write):
    body, expected = FILES[kind]
    A = sources.load(write(f"{BANNER} {kind}\n% a comment\n{body}", name))
    assert isinstance(A, sp.csr_array)
    assert A.dtype == (complex if "complex" in kind else float)
    np.testing.assert_array_equal(A.toarray(), expected)


def test_an_entry_given_twice_is_summed_and_an_explicit_zero_kept(write):
    A = sources.load(write(f"{BANNER} coordinate real general\n2 2 3\n1 1 1\n1 1 2\n2 2 0\n"))
    assert A.nnz == 2
    assert A[0, 0] == 3


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n"])
def test_the_end_of_the_last_line_does_not_matter(ending, write):
    A = sources.load(write(f"{BANNER} array real general\n1 1\n7{ending}"))
    assert A[0, 0] == 7


def test_a_matrix_without_entries_is_read(write):
    A = sources.load(write(f"{BANNER} coordinate real general\n3 3 0\n"))
    assert (A.shape, A.nnz) == ((3, 3), 0)


def test_the_content_decides_and_not_the_name_of_the_file(write):
    A = sources.load(write(f"{BANNER} array real general\n1 1\n7\n", "matrix.txt"))
    assert A[0, 0] == 7


HUGE = 2**40

MALFORMED = {
    "empty": ("", "neither a Matrix Market file"),
    "of text": ("to be or not to be\n" * 9, "neither a Matrix Market file"),
    "of one long line": ("x" * 100_000, "neither a Matrix Market file"),
    "binary": (bytes(range(256)) * 40, "neither a Matrix Market file"),
    "with a banner and nothing else": (BANNER, "malformed"),
    "with binary after the banner": (BANNER.encode() + b" \x00\xff\xfe\n\x80", "malformed"),
    "of a vector": ("%%MatrixMarket tensor coordinate real general\n1 1 1\n1 1 1\n", "malformed"),
    "of an unknown field": (f"{BANNER} coordinate quaternion general\n1 1 1\n1 1 1\n", "malformed"),
    "without counts": (f"{BANNER} coordinate real general\n% only comments\n", "malformed"),
    "with words for counts": (f"{BANNER} coordinate real general\ntwo two two\n", "malformed"),
    "with negative counts": (f"{BANNER} coordinate real general\n-2 -2 1\n1 1 1\n", "negative"),
    "with words for entries": (f"{BANNER} coordinate real general\n1 1 1\none 1 1\n", "malformed"),
    "with an index 0": (f"{BANNER} coordinate real general\n2 2 1\n0 1 1.0\n", "malformed"),
    "with an index too large": (f"{BANNER} coordinate real general\n2 2 1\n3 1 1.0\n", "malformed"),
    "cut off": (f"{BANNER} coordinate real general\n9 9 9\n1 1 1.0\n", "is it cut off"),
    "cut off within an entry": (
        f"{BANNER} coordinate real general\n2 2 2\n1 1 1.0\n2",
        "malformed",
    ),
    "cut off array": (f"{BANNER} array real general\n9 9\n1.0\n2.0\n", "is it cut off"),
    "of huge counts": (f"{BANNER} coordinate real general\n9 9 {HUGE}\n1 1 1\n", "is it cut off"),
    "of a huge array": (f"{BANNER} array real general\n{HUGE} {HUGE}\n1\n", "is it cut off"),
    "of a huge symmetric array": (
        f"{BANNER} array real symmetric\n{HUGE} {HUGE}\n1\n",
        "is it cut off",
    ),
    "of a huge order": (f"{BANNER} coordinate real general\n{HUGE} {HUGE} 1\n1 1 1\n", "be empty"),
    "of many lines without entries": (
        f"{BANNER} coordinate real general\n9 9 900000\n" + "\n" * 1_000_000,
        "is it cut off",
    ),
    "rectangular": (f"{BANNER} coordinate real general\n2 3 1\n1 1 1\n", "square"),
    "rectangular array": (f"{BANNER} array real general\n2 1\n1\n2\n", "square"),
}


@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_file_is_an_invalid_matrix(what, name, write):
    content, message = MALFORMED[what]
    with pytest.raises(gpuilu.InvalidMatrixError, match=message):
        sources.load(write(content, name))


def test_a_cut_off_gzip_file_is_an_invalid_matrix(write, tmp_path):
    rng = np.random.default_rng(0)
    body = "\n".join(str(v) for v in rng.random(2500))
    whole = gzip.compress(f"{BANNER} array real general\n50 50\n{body}".encode())
    path = tmp_path / "A.mtx.gz"
    for length in (3, 15, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(gpuilu.InvalidMatrixError, match="gzip"):
            sources.load(str(path))


def test_a_damaged_gzip_file_is_an_invalid_matrix(tmp_path):
    whole = bytearray(gzip.compress(f"{BANNER} array real general\n1 1\n7\n".encode()))
    whole[20] ^= 0xFF
    (tmp_path / "A.mtx.gz").write_bytes(whole)
    with pytest.raises(gpuilu.InvalidMatrixError):
        sources.load(str(tmp_path / "A.mtx.gz"))


def test_a_file_that_is_only_named_gz_is_an_invalid_matrix(tmp_path):
    (tmp_path / "A.mtx.gz").write_text(f"{BANNER} array real general\n1 1\n7\n")
    with pytest.raises(gpuilu.InvalidMatrixError, match="gzip"):
        sources.load(str(tmp_path / "A.mtx.gz"))


def test_a_small_file_that_unpacks_to_a_large_one_does_not_fill_the_memory(tmp_path):
    path = str(tmp_path / "A.mtx.gz")
    with gzip.open(path, "wb") as stream:
        stream.write(f"{BANNER} coordinate real general\n9 9 99999999\n".encode())
        for _ in range(100):
            stream.write(b"\n" * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(gpuilu.InvalidMatrixError, match="is it cut off"):
            sources.load(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("source", ["nowhere.mtx", "laplacain2d:4", ".", ""])
def test_what_is_no_file_says_what_a_source_is(source):
    with pytest.raises(FileNotFoundError, match="laplacian2d:512"):
        sources.load(source)


# ---- Harwell-Boeing ------------------------------------------------------------------------------


def test_a_real_unsymmetric_harwell_boeing_file_is_read(tmp_path):
    A = sp.csc_array([[4.0, 0.0, -1.5], [2.0, 3.0, 0.0], [0.0, 0.0, 5.25]])
    path = str(tmp_path / "A.rua")
    scipy.io.hb_write(path, A)
    np.testing.assert_allclose(sources.load(path).toarray(), A.toarray())


def harwell_boeing(tmp_path):
    path = tmp_path / "A.rua"
    scipy.io.hb_write(str(path), sp.csc_array(np.arange(1.0, 101.0).reshape(10, 10)))
    return path, path.read_text()


@pytest.mark.parametrize("kind", ["RSA", "CUA", "PUA", "RUE", "RRA"])
def test_a_harwell_boeing_file_that_scipy_cannot_read_says_so(kind, tmp_path):
    path, text = harwell_boeing(tmp_path)
    path.write_text(text.replace("RUA", kind, 1))
    with pytest.raises(gpuilu.InvalidMatrixError, match=f"type {kind}.*convert"):
        sources.load(str(path))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_cut_off_harwell_boeing_file_is_an_invalid_matrix(share, tmp_path):
    path, text = harwell_boeing(tmp_path)
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(gpuilu.InvalidMatrixError):
        sources.load(str(path))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_harwell_boeing_file_of_huge_counts_is_an_invalid_matrix(tmp_path):
    path, text = harwell_boeing(tmp_path)
    lines = text.splitlines()
    lines[2] = f"RUA           {10**12:14d}{10**12:14d}{10**12:14d}{0:14d}"
    path.write_text("\n".join(lines))
    with pytest.raises(gpuilu.InvalidMatrixError):
        sources.load(str(path))


# ---- grids and galleries -------------------------------------------------------------------------


def test_one_size_makes_a_square_grid():
    np.testing.assert_array_equal(
        sources.load("laplacian2d:2").toarray(),
        [[4, -1, -1, 0], [-1, 4, 0, -1], [-1, 0, 4, -1], [0, -1, -1, 4]],
    )


def test_the_first_size_varies_fastest():
    A = sources.load("laplacian2d:3x2")
    assert [A[0, j] for j in range(6)] == [4, -1, 0, -1, 0, 0]


def test_a_grid_in_three_dimensions_has_six_neighbours():
    A = sources.load("laplacian3d:3x4x5")
    assert A.shape == (60, 60)
    middle = 1 + 3 * (1 + 4 * 2)
    assert sorted(A[[middle]].indices) == sorted(middle + np.array([0, 1, -1, 3, -3, 12, -12]))
    assert A[middle, middle] == 6


@pytest.mark.parametrize("source", ["laplacian2d:1", "laplacian3d:1"])
def test_a_grid_of_one_point_is_its_diagonal(source):
    A = sources.load(source)
    assert (A.shape, A.nnz) == ((1, 1), 1)


@pytest.mark.parametrize(
    "sizes", ["", "x", "4x", "4x4x4", "-4", "4.5", "0", "4x0", "a", "²", "100000", "9" * 50]
)
def test_a_grid_that_is_none_or_too_large_is_an_option_error(sizes):
    with pytest.raises(gpuilu.OptionError, match="laplacian2d"):
        sources.load(f"laplacian2d:{sizes}")


def test_the_matrices_of_pyamg_go_by_their_names():
    pytest.importorskip("pyamg")
    A = sources.load("pyamg:recirc_flow")
    assert A.shape == (225, 225)
    assert sources.load("pyamg:helmholtz_2D").dtype == complex


def test_an_unknown_matrix_of_pyamg_lists_those_there_are():
    pytest.importorskip("pyamg")
    with pytest.raises(gpuilu.OptionError, match=r"'nothing'.*airfoil, bar.*recirc_flow"):
        sources.load("pyamg:nothing")


def test_without_pyamg_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyamg.gallery.example", None)
    with pytest.raises(gpuilu.BackendUnavailableError, match=r"gpuilu\[amg\]"):
        sources.load("pyamg:recirc_flow")


# ---- right-hand sides ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "array real general\n3 1\n1\n0\n2\n",
        "array integer general\n1 3\n1\n0\n2\n",
        "coordinate real general\n3 1 2\n1 1 1\n3 1 2\n",
    ],
)
def test_a_right_hand_side_is_dense_or_sparse_column_or_row(text, write):
    b = sources.load_rhs(write(f"{BANNER} {text}", "b.mtx.gz"))
    np.testing.assert_array_equal(b, [1, 0, 2])
    assert b.shape == (3,)


def test_a_right_hand_side_of_two_columns_has_the_wrong_shape(write):
    with pytest.raises(gpuilu.ShapeMismatchError, match=r"single column, found shape \(2, 2\)"):
        sources.load_rhs(write(f"{BANNER} array real general\n2 2\n1\n2\n3\n4\n"))


def test_every_real_matrix_and_right_hand_side_is_read(matrices):
    for path in sorted(matrices.glob("*.mtx*")):
        if "_b.mtx" in path.name:
            assert sources.load_rhs(str(path)).ndim == 1
        else:
            assert sources.load(str(path)).nnz > 0
