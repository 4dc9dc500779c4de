"""Records: files, resuming, merging, and what is computed from their rows."""

from __future__ import annotations

import json
import math
import re

import bench_fakes as fakes
import pytest

import gpuilu
from gpuilu.bench import claims, compare, figures, papers, tables
from gpuilu.bench.record import Record, environment, load, merge
from gpuilu.bench.results import Results, Setting, break_even, geometric_mean, gflops, parallelism

F64 = Setting()


# ---- files --------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "results" / "new.json"
    written = Record(path, fakes.header())
    written.add([fakes.row(), fakes.row(algorithm="cusparse", ms=2.0)])
    assert (load(path).header, load(path).rows) == (written.header, written.rows)
    assert [p.name for p in path.parent.iterdir()] == ["new.json"]
    assert list(json.loads(path.read_text())) == [*fakes.header(), "rows"]


def test_an_empty_record_is_valid_json(tmp_path):
    Record(tmp_path / "a.json", fakes.header()).save()
    assert load(tmp_path / "a.json").rows == []


def test_a_new_row_replaces_the_one_of_its_key_alone():
    record = Record(None, fakes.header(), [fakes.row(ms=1.0), fakes.row(phase="setup", ms=9.0)])
    record.add([fakes.row(ms=2.0)])
    assert sorted(row["ms"] for row in record.rows) == [2.0, 9.0]
    assert fakes.row() in record
    assert fakes.row(share=0.5) not in record


def test_what_is_not_finite_is_null_in_the_file(tmp_path):
    record = Record(tmp_path / "a.json", fakes.header())
    record.add([fakes.row(backward_error=math.nan)])
    assert load(tmp_path / "a.json").rows[0]["backward_error"] is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 1, "rows": 3}'])
def test_a_file_that_is_no_record_is_an_error(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(gpuilu.OptionError, match="no record"):
        load(tmp_path / "a.json")


def test_a_record_of_another_schema_is_an_error(tmp_path):
    Record(tmp_path / "a.json", fakes.header(schema=99)).save()
    with pytest.raises(gpuilu.OptionError, match="schema 99, expected 1"):
        load(tmp_path / "a.json")


def test_a_run_goes_on_with_the_record_of_its_card_and_commit_only(tmp_path):
    path = tmp_path / "a.json"
    assert Record.resumed(path, fakes.header()).rows == []
    Record(path, fakes.header(), [fakes.row()]).save()
    assert Record.resumed(path, fakes.header(date="2026-02-02T00:00:00+00:00")).rows
    for other in ({"card": "another"}, {"commit": "another"}):
        with pytest.raises(gpuilu.OptionError, match="write to another file"):
            Record.resumed(path, fakes.header(**other))


def test_the_newest_of_merged_records_wins_whatever_their_order():
    old = Record(
        None,
        fakes.header(date="2025-01-01T00:00:00+00:00", commit="old"),
        [fakes.row(ms=1.0), fakes.row(algorithm="syncfree", ms=5.0)],
    )
    new = Record(None, fakes.header(commit="new"), [fakes.row(ms=2.0)])
    for both in ([old, new], [new, old]):
        merged = merge(both)
        assert merged.header["commit"] == "new"
        found = {row["algorithm"]: row for row in merged.rows}
        assert (found["row"]["ms"], found["syncfree"]["ms"]) == (2.0, 5.0)
        assert "commit" not in found["row"]
        assert found["syncfree"]["commit"] == "old"


def test_records_of_different_cards_are_not_merged():
    with pytest.raises(gpuilu.OptionError, match="of one card"):
        merge([Record(None, fakes.header()), Record(None, fakes.header(card="another"))])


def test_a_record_made_here_says_where_and_of_which_commit():
    header = environment("cpu", "abc")
    assert header["commit"] == "abc"
    assert "threads" in header["card"]
    assert header["cupy"] is None
    assert environment("cpu")["commit"]


# ---- quantities ---------------------------------------------------------------------------------


def test_throughput_and_parallelism_are_counted_as_the_papers_do():
    row = {"nnz": 5_000_000, "nrhs": 2, "ms": 10.0, "n": 1000, "n_levels": 20, "op": "lower"}
    assert gflops(row) == 2.0  # 2 nnz nrhs / t = 2e7 / 10 ms
    assert gflops(row | {"flop": 10**8}) == 10.0
    assert parallelism(row) == 50
    assert parallelism(row | {"op": "apply"}) == 100


@pytest.mark.parametrize(
    ("ours", "theirs", "count"),
    [
        ((10, 1), (0, 2), 11),  # 10 + k < 2 k
        ((10, 1), (9, 2), 2),
        ((10, 1), (9.5, 2), 1),
        ((5, 1), (5, 2), 1),  # at zero solves they are level
        ((4, 1), (5, 2), 0),
        ((4, 2), (5, 2), None),
        ((4, 3), (5, 2), None),
    ],
)
def test_break_even_is_the_first_count_from_which_the_total_is_smaller(ours, theirs, count):
    assert break_even(ours, theirs) == count
    if count is not None:
        totals = [(ours[0] + k * ours[1], theirs[0] + k * theirs[1]) for k in range(count + 3)]
        assert [a < b for a, b in totals] == [k >= count for k in range(count + 3)]


def test_the_geometric_mean_of_nothing_is_none():
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_ratios_leave_out_what_failed():
    rows = [fakes.row(ms=2.0), fakes.row(algorithm="cusparse", ms=6.0)]
    rows += [
        fakes.row("g3d27_128", ms=None, error="SolveStalledError", message=""),
        fakes.row("g3d27_128", "cusparse", ms=3.0),
    ]
    results = Results(Record(None, fakes.header(), rows))
    assert results.ratios(F64, "row", "cusparse") == {"g3d7_128": 3.0}
    assert results.cases(F64) == ["g3d7_128", "g3d27_128"]
    assert results.reference(F64) == "cusparse"


# ---- compare ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ({"ms": 1.0}, {"ms": 0.5}, "faster"),
        ({"ms": 1.0}, {"ms": 2.0}, "slower"),
        ({"ms": 1.0}, {"ms": 1.03}, ""),
        ({"ms": 1.0}, {"ms": None, "error": "X"}, "fails: X"),
        ({"ms": None, "error": "X"}, {"ms": 1.0}, "no longer fails"),
        ({"ms": None, "error": "X"}, {"ms": None, "error": "Y"}, "still fails"),
    ],
)
def test_a_change_counts_only_beyond_the_quartiles(old, new, verdict):
    def made(changes):
        ms = changes["ms"]
        error = {k: v for k, v in changes.items() if k == "error"}
        times = {} if ms else {"q1_ms": None, "q3_ms": None}
        row = fakes.row(ms=ms or 1.0, **error, **times)
        return Record(None, fakes.header(), [row | {"ms": ms}])

    (change,) = compare.changes(made(old), made(new))
    assert change.verdict == verdict
    assert compare.report(made(old), made(new))


def test_a_comparison_shows_ratios_means_and_what_one_record_lacks():
    cases = ["g3d7_128", "road_1M"]
    old = fakes.record(cases, ["row", "cusparse"], ["float64"])
    new = fakes.record(cases, ["row", "syncfree"], ["float64"])
    for row in new.rows:
        for name in ("ms", "q1_ms", "q3_ms"):
            row[name] /= 4
    text = compare.report(old, new)
    assert "4 rows are in the old record only" in text
    assert "4 rows are in the new record only" in text
    assert sum("faster" in line for line in text.splitlines()) == 4
    assert [line.split() for line in text.splitlines() if line.startswith("row")] == [
        ["row", "setup", "4.000", "2"],
        ["row", "solve", "4.000", "2"],
    ]


def test_a_comparison_of_two_cards_says_so():
    other = Record(None, fakes.header(card="another"), [fakes.row()])
    assert "not the same card" in compare.report(Record(None, fakes.header(), [fakes.row()]), other)


# ---- tables -------------------------------------------------------------------------------------


def cells(text, first):
    """The cells of the rows of Markdown tables that begin with a word."""
    lines = [[c.strip() for c in line.strip("| ").split("|")] for line in text.splitlines()]
    return [cells for cells in lines if cells[0] == first]


def test_the_tables_show_every_quantity_of_every_case():
    record = fakes.record(["g3d7_128"], ["row", "cusparse"])
    text = tables.document(record)
    expected = fakes.solve_ms("g3d7_128", "row"), fakes.solve_ms("g3d7_128", "cusparse")
    assert cells(text, "g3d7_128")[0][-4:] == ["2,097,152", "8,339,456", "382", "5,490"]
    shown = tables.document(record, ["solve"])
    assert cells(shown, "g3d7_128")[0][1:] == [f"{ms:.4g}" for ms in expected]
    shown = tables.document(record, ["ratio"])
    assert cells(shown, "g3d7_128")[0][1:] == [f"{expected[1] / expected[0]:.3g}", "1"]
    mean = cells(shown, "geometric mean, 1 cases")[0]
    assert mean[1:] == cells(shown, "g3d7_128")[0][1:]
    for title, _ in tables.TABLES.values():
        assert title.format(reference="cusparse") in text
    assert "Speed in double precision, single = 1: lower" in text


def test_a_failure_is_shown_by_its_name():
    rows = [fakes.row("road_1M", "cusparse"), fakes.row(ms=None, error="SolveStalledError")]
    text = tables.document(Record(None, fakes.header(), rows), ["solve"])
    assert cells(text, "g3d7_128")[0][1] == "SolveStalledError"


def test_what_is_not_supported_is_a_dash_with_the_reason_below_the_table():
    rows = [fakes.row(case, "cusparse") for case in ("g3d7_128", "road_1M")]
    rows += [
        fakes.row("road_1M", ms=0.25),
        fakes.row(ms=None, error="UnsupportedAlgorithmError", message="algorithm 'row' cannot"),
    ]
    text = tables.document(Record(None, fakes.header(), rows), ["ratio"])
    assert cells(text, "g3d7_128")[0][1:] == ["-", "1"]
    assert cells(text, "geometric mean, 2 cases")[0][1:] == ["4 (1 cases)", "1"]
    assert "Unsupported" not in text
    assert "A dash of `row`: 1 of 2 cases are not supported; of g3d7_128 it says: cannot." in text


def test_the_set_up_of_auto_stands_beside_the_analysis_of_the_vendor():
    rows = [
        fakes.row(algorithm="auto", phase="setup", ms=9.0, chosen="blocked"),
        fakes.row(algorithm="auto", phase="setup_once", ms=3.0, chosen="row"),
        fakes.row(algorithm="cusparse", phase="setup", ms=6.0),
        fakes.row(algorithm="cusparse", ms=1.0),
    ]
    text = tables.document(Record(None, fakes.header(), rows), ["auto"])
    expected = ["g3d7_128", "6", "blocked", "9", "1.5", "row", "3", "0.5"]
    assert cells(text, "g3d7_128") == [expected]
    assert "###" not in tables.document(Record(None, fakes.header(), rows[2:]), ["auto"])


def test_the_steps_of_a_set_up_are_shown_as_ratios_to_what_they_are_to_be_compared_with():
    steps = {
        ("in_degree", "gpuilu"): 0.1,
        ("transpose", "gpuilu"): 3.0,
        ("transpose", "cupyx"): 2.0,
        ("count_levels", "self_scheduled"): 1.0,
        ("levels", "self_scheduled"): 2.0,
        ("levels", "kahn"): 8.0,
    }
    rows = [fakes.row(op=o, algorithm=a, phase="run", ms=ms) for (o, a), ms in steps.items()]
    rows.append(fakes.row(algorithm="cusparse", ms=4.0))
    text = tables.document(Record(None, fakes.header(), rows), ["steps"])
    (found,) = cells(text, "g3d7_128")
    assert found[1:] == ["0.1", "3", "2", "1", "2", "8", "4", "1.5", "0.25", "0.5", "4"]
    rows.append(fakes.row(algorithm="cusparse", op="apply", ms=8.0))
    again = tables.document(Record(None, fakes.header(), rows), ["steps"])
    assert again == text, "they are not those of both triangles"


def test_an_early_win_of_a_cheap_set_up_is_shown_as_one():
    rows = [
        fakes.row(algorithm=name, phase=phase, ms=ms)
        for name, setup, solve in (
            ("row", 10.0, 1.0),
            ("syncfree", 1.0, 4.0),
            ("cusparse", 8.0, 2.0),
        )
        for phase, ms in (("setup", setup), ("solve", solve))
    ]
    text = tables.document(Record(None, fakes.header(), rows), ["break_even"])
    assert cells(text, "g3d7_128")[0] == ["g3d7_128", "3", "only below 4", "-"]


def test_the_yardstick_and_the_prediction_are_shown_where_there_are_any():
    rows = [fakes.row(ms=1.0, floor_ms=0.25, predicted_ms=0.8), fakes.row("road_1M", ms=1.0)]
    for table, first in (("floor", "4.0"), ("model", "1.25")):
        text = tables.document(Record(None, fakes.header(), rows), [table])
        assert [cells(text, c)[0][1] for c in ("g3d7_128", "road_1M")] == [first, "-"]


def test_nothing_is_compared_where_the_vendor_was_not_measured():
    text = tables.document(fakes.record(["road_1M"], dtypes=["float64"], shares=(0.25,)))
    whole, part = text.split("## float64, lower, 25% of the card")
    assert "### Speed, cusparse = 1" in whole
    assert "### Solves from which it beats cusparse in total" in whole
    assert "### Solve [ms]" in part
    assert not re.search("serial|cusparse|Speed|beats", part)


def test_an_unknown_table_is_an_error():
    with pytest.raises(gpuilu.OptionError, match="table must be one of"):
        tables.document(fakes.record(), ["what"])


# ---- the papers ---------------------------------------------------------------------------------


def test_the_claims_of_every_paper_stand_beside_our_numbers():
    record = fakes.record(shares=(0.25,))
    text = papers.claims_table(record)
    lines = text.splitlines()[2:]
    assert len(lines) == len(claims.CLAIMS)
    assert {line.split()[1] for line in lines} == {"000", "001", "003", "004"}
    assert not any(claims.NOTHING in line for line in lines)
    mean = geometric_mean(
        fakes.solve_ms(c, "cusparse") / fakes.solve_ms(c, "syncfree") for c in fakes.SIZES
    )
    assert f"geometric mean {mean:.3g}x over {len(fakes.SIZES)} cases" in lines[0]


def test_a_claim_without_numbers_says_so():
    text = papers.claims_table(fakes.record(["road_1M"], ["row"], ["float64"]))
    assert all(claims.NOTHING in line for line in text.splitlines()[2:])


def test_the_claims_of_paper_004_are_about_both_sweeps_where_they_were_measured():
    rows = [
        fakes.row("g2d5_1024x1024", name, ms=ms, op=op)
        for op, factor in (("lower", 1.0), ("apply", 3.0))
        for name, ms in (("selfsched_col", 1.0), ("cusparse", factor))
    ]
    claim = next(c for c in claims.CLAIMS if c.text == "SLFC over csrsv2, 2-D 5-point grids")
    both = Results(Record(None, fakes.header(), rows))
    assert claim.ours(both) == "3x (g2d5_1024x1024)"
    lower = Results(Record(None, fakes.header(), rows[:2]))
    assert claim.ours(lower) == "1x (g2d5_1024x1024) (lower solve only)"


@pytest.mark.parametrize(("theirs", "verdict"), [(2.0, "yes"), (1.0, "level"), (0.5, "no")])
def test_a_claim_says_whether_the_same_one_wins(theirs, verdict):
    rows = [fakes.row(algorithm="syncfree"), fakes.row(algorithm="cusparse", ms=theirs)]
    results = Results(Record(None, fakes.header(), rows))
    assert claims.CLAIMS[0].text == "sync-free over csrsv2, double"
    assert claims.CLAIMS[0].verdict(results) == verdict
    single = claims.CLAIMS[1]
    assert (single.ours(results), single.verdict(results)) == (claims.NOTHING, "")
    table = papers.claims_table(Record(None, fakes.header(), rows))
    assert table.splitlines()[2].split("|")[-2].strip() == verdict


def test_an_algorithm_that_both_sweeps_were_not_measured_of_is_judged_by_the_lower_solve():
    rows = [fakes.row(algorithm=a, op="apply") for a in ("row", "cusparse")]
    rows += [fakes.row(algorithm="selfsched_col"), fakes.row(algorithm="cusparse", ms=3.0)]
    claim = next(c for c in claims.CLAIMS if c.text == "SLFC over csrsv2, 3-D 7-point grids")
    results = Results(Record(None, fakes.header(), rows))
    assert claim.ours(results) == "3x (g3d7_128) (lower solve only)"
    assert claim.verdict(results) == "yes"


def test_the_table_replaces_what_is_between_its_marks(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"before\n{papers.BEGIN}\nold\n{papers.END}\nafter\n")
    for _ in range(2):
        papers.written_into(path, "new")
    assert path.read_text() == f"before\n{papers.BEGIN}\n\nnew\n\n{papers.END}\nafter\n"
    path.write_text("nothing")
    with pytest.raises(gpuilu.OptionError, match="no place"):
        papers.written_into(path, "new")


# ---- figures ------------------------------------------------------------------------------------


def test_every_figure_is_drawn_for_the_settings_that_have_it(tmp_path):
    pytest.importorskip("matplotlib")
    made = figures.draw(fakes.record(shares=(0.25, 0.5), products=True), tmp_path / "new")
    assert [path.name for path in made] == [
        "throughput.png",
        "throughput_float32.png",
        "ratio.png",
        "ratio_float32.png",
        "precision.png",
        "aspect.png",
        "aspect_float32.png",
        "shares.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)


def test_the_vendor_is_in_the_figure_of_shares_where_it_was_measured_on_the_whole_card():
    drawing = pytest.importorskip("matplotlib.figure")
    record = fakes.record(dtypes=["float64"], shares=(0.25, 0.5), products=True)
    ((_, figure),) = figures.FIGURES["shares"](Results(record), drawing.Figure)
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert shown == set(fakes.COSTS) | set(fakes.PRODUCTS)
    (line,) = (one for one in figure.axes[0].lines if one.get_label() == "cusparse")
    assert [math.isnan(y) for y in line.get_ydata()] == [True, True, False]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()][-1] == "all"


def test_a_figure_without_numbers_is_left_out(tmp_path):
    pytest.importorskip("matplotlib")
    record = fakes.record(["road_1M"], ["row"], ["float64"])
    assert [path.name for path in figures.draw(record, tmp_path)] == ["throughput.png"]


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(gpuilu.BackendUnavailableError, match=r"gpuilu\[bench\]"):
        figures.draw(fakes.record(), tmp_path)


def test_an_unknown_figure_is_an_error(tmp_path):
    with pytest.raises(gpuilu.OptionError, match="figure must be one of"):
        figures.draw(fakes.record(), tmp_path, ["what"])
