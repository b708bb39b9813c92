"""Tables as strangers keep them: every delimiter, quotes and line ends, missing values, blocks cut anywhere."""

import csv
import gzip
import io

import polars as pl
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from borrow.cli import columns as c
from borrow.cli import read as s


def opened(tmp_path, data, delimiter=None, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return s.open_source(str(path), delimiter)


def refused(capsys, call, *words):
    with pytest.raises(typer.Exit) as left:
        call()
    said = capsys.readouterr().err
    assert left.value.exit_code == 2
    assert said.startswith("borrow: ")
    assert said.count("\n") == 1
    for word in words:
        assert word in said


fields = st.text(st.sampled_from('ab1,;"\n\r é'), max_size=5)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(fields, fields, fields), min_size=1, max_size=12),
    block=st.integers(1, 60),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_blocks_cut_anywhere_give_what_the_csv_module_reads(rows, block, ends, tmp_path_factory):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=ends, quoting=csv.QUOTE_ALL)
    writer.writerow(["x", "y", "z"])
    rows = [[v.replace("\r", "") for v in row] for row in rows]
    writer.writerows(rows)
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(out.getvalue().encode())
    source = s.open_source(str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s, "BLOCK", block)
        assert source.read(["z", "x"]).rows() == [(row[2], row[0]) for row in rows]


@pytest.mark.parametrize(
    ("between", "text"),
    [
        (",", 'a,b,c\n1,"x, y",3\n'),
        (";", "a;b;c\n1,5;x, y;3\n"),
        ("\t", "a\tb\tc\n1\tx, y\t3\n"),
        ("|", "a|b|c\n1|x, y|3\n"),
        (",", "\ufeffa,b,c\r\n1,x,3\r\n\r\n"),
        (",", "\n\na,b,c\n1,x,3".lstrip()),
    ],
)
def test_the_delimiter_is_found_out(between, text, tmp_path):
    source = opened(tmp_path, text)
    assert source.separator == between
    assert source.columns == ("a", "b", "c")
    frame = source.read()
    assert frame.height == 1
    assert frame["c"].to_list() == ["3"]


def test_a_sentence_with_commas_does_not_make_the_comma_the_delimiter(tmp_path):
    text = "name;note, long;y\n" + "".join(f"n{i};one, two, {i};3\n" for i in range(9))
    assert opened(tmp_path, text).columns == ("name", "note, long", "y")


def test_given_delimiters(tmp_path, capsys):
    assert opened(tmp_path, "a:b\n1:2\n", ":").columns == ("a", "b")
    assert opened(tmp_path, "a\tb\n1\t2\n", "tab").columns == ("a", "b")
    refused(capsys, lambda: opened(tmp_path, "a;b\n1;2\n", ","), "--delimiter ','", "a semicolon is")
    refused(capsys, lambda: opened(tmp_path, "a;b\n1;2\n", "::"), "expected one character")
    refused(capsys, lambda: opened(tmp_path, "a:b\n1:2\n"), "one column only, 'a:b'", "--delimiter")


def test_packed_and_piped_tables(tmp_path, monkeypatch):
    text = b"a,b\n1,2\n3,4\n"
    assert opened(tmp_path, gzip.compress(text), name="t.csv.gz").read(["b"])["b"].to_list() == ["2", "4"]

    class Pipe:
        def __init__(self, data):
            self.buffer = io.BytesIO(data)

        def isatty(self):
            return False

    parquet = io.BytesIO()
    pl.DataFrame({"a": [1, 3], "b": [2, 4]}).write_parquet(parquet)
    for data, kind in ((text, "2"), (gzip.compress(text), "2"), (parquet.getvalue(), 2)):
        monkeypatch.setattr("sys.stdin", Pipe(data))
        assert s.open_source("-").read(["b"])["b"][0] == kind


def test_parquet_reads_only_what_is_asked_for(tmp_path):
    pl.DataFrame({"a": [1.0], "b": ["x"]}).write_parquet(tmp_path / "t.parquet")
    source = s.open_source(str(tmp_path / "t.parquet"))
    assert source.columns == ("a", "b")
    assert not source.is_text
    assert source.read(["b"]).columns == ["b"]


WRONG = {
    "nothing": (b"", "is empty"),
    "blank": (b" \n \n", "is empty"),
    "garbage": (bytes(range(256)) * 4, "holds bytes that are no text"),
    "zip": (b"PK\x03\x04" + b"x" * 40, "a zip or Excel file"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "latin": ("a,b\n1,caf\xe9\n".encode("latin-1"), "not UTF-8 text in line 2"),
    "old line ends": (b"a,b\r1,2\r", "CR alone"),
    "no names": (b"1,2,3\n4,5,6\n", "it must name the columns"),
    "empty names": (b",,\n4,5,6\n", "names no columns"),
    "too many fields": (b"a,b\n1,2\n3,4,5\n", "3 field(s) in line 3 where the header has 2"),
    "too few fields": (b"a,b,c\n1,2,3\n3,4\n", "2 field(s) in line 3"),
    "open quote": (b'a,b\n1,"2\n3,4\n5,6\n', "quotation mark that is not closed"),
    "damaged parquet": (b"PAR1" + b"x" * 50, "damaged Parquet"),
    "damaged gzip": (gzip.compress(b"a,b\n" * 999)[:40], "damaged gzip"),
    "latin later": (b"a,b\n" + b"1,2\n" * 5 + b"\xff,2\n", "not UTF-8 text in line 7"),
}


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_no_tables_are_named_for_what_they_are(case, tmp_path, capsys):
    data, words = WRONG[case]
    refused(capsys, lambda: opened(tmp_path, data).read(), words)


def test_columns_of_the_same_name_are_refused_when_they_are_used(tmp_path, capsys):
    source = opened(tmp_path, "a,b,b\n1,2,3\n")
    refused(capsys, lambda: source.read(["b"]), "2 columns called 'b'")


def test_numbers_as_people_write_them():
    text = pl.Series(["1", " 2.5 ", "-3e2", "+4", ".5", "1,5", "", "NA", "nan", None])
    assert c.to_numbers(text)[0].to_list() == [1.0, 2.5, -300.0, 4.0, 0.5, 1.5, None, None, None, None]
    assert c.to_numbers(pl.Series(["1", "x"]))[1] == 1
    assert c.to_numbers(pl.Series(["1,234,5"]))[1] == 0


def test_labels_are_whole_numbers_only_where_all_are_written_so():
    assert c.as_labels(pl.Series(["10", "2", "-1", "0"])).to_list() == [10, 2, -1, 0]
    assert c.as_labels(pl.Series(["01", "2"])).to_list() == ["01", "2"]
    assert c.as_labels(pl.Series([" a ", "", None])).to_list() == ["a", None, None]
    assert c.as_labels(pl.Series(["NA", "b"])).to_list() == ["NA", "b"]  # Namibia is a label
    assert c.as_labels(pl.Series(["u", "v"], dtype=pl.Categorical)).to_list() == ["u", "v"]


def test_targets_are_numbers_whole_numbers_or_text(tmp_path, capsys):
    source = opened(tmp_path, "a,b\n1,2\n")
    assert c.as_target(pl.Series("y", ["1", "0", ""]), source).to_list() == [1, 0, None]
    assert c.as_target(pl.Series("y", ["1.5", "0", "NA"]), source).to_list() == [1.5, 0.0, None]
    assert c.as_target(pl.Series("y", ["yes", "no", ""]), source).to_list() == ["yes", "no", None]
    mixed = pl.Series("y", ["1", "2", "three"])
    refused(capsys, lambda: c.as_target(mixed, source), "--target 'y'", "'three' in line 4", "among numbers")
