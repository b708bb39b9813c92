"""Tables as strangers keep them: every delimiter, quotes and line ends, missing values, blocks cut anywhere."""

import csv
import gzip
import io
import zipfile

import polars as pl
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import borrow
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
    assert source.separator == ""
    assert source.read(["b"]).columns == ["b"]


WRONG = {
    "nothing": (b"", "is empty"),
    "blank": (b" \n \n", "is empty"),
    "garbage": (bytes(range(256)) * 4, "holds bytes that are no text"),
    "xlsx": (b"PK\x03\x04" + b"x" * 26 + b"xl/workbook.xml", "is an Excel workbook (.xlsx); save the sheet as CSV"),
    "xls": (b"\xd0\xcf\x11\xe0" + b"x" * 40, "is an old Excel workbook (.xls); save the sheet as CSV"),
    "zip": (b"PK\x03\x04" + b"x" * 40, "is a zip file, not a table"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "latin": ("a,b\n1,caf\xe9\n".encode("latin-1"), "not UTF-8 text in line 2"),
    "old line ends": (b"a,b\r1,2\r", "CR alone"),
    "no names": (b"1,2,3\n4,5,6\n", "it must name the columns"),
    "empty names": (b",,\n4,5,6\n", "names no columns"),
    "no name": (b"a,b,,d\n1,2,3,4\n", "column 3 of"),
    "no name behind row numbers": (b",a,,d\n1,2,3,4\n", "has no name; name it in the first line"),
    "too many fields": (b"a,b\n1,2\n3,4,5\n", "3 fields in line 3 where the header has 2"),
    "too few fields": (b"a,b,c\n1,2,3\n3,4\n", "2 fields in line 3"),
    "open quote": (b'a,b\n1,"2\n3,4\n5,6\n', "quotation mark that is not closed"),
    "damaged parquet": (b"PAR1" + b"x" * 50, "damaged Parquet"),
    "damaged gzip": (gzip.compress(b"a,b\n" * 999)[:40], "damaged gzip"),
    "latin later": (b"a,b\n" + b"1,2\n" * 5 + b"\xff,2\n", "not UTF-8 text in line 7"),
}


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_no_tables_are_named_for_what_they_are(case, tmp_path, capsys):
    data, words = WRONG[case]
    refused(capsys, lambda: opened(tmp_path, data).read(), words)


def test_a_workbook_is_no_model(tmp_path):
    with zipfile.ZipFile(tmp_path / "sheet.xlsx", "w") as book:
        for part in ("[Content_Types].xml", "xl/workbook.xml"):
            book.writestr(part, "<x/>")
    assert s.file_kind(tmp_path / "sheet.xlsx") == "table"  # which is then refused by its name
    borrow.store.save(borrow.kernels.Linear(), tmp_path / "k")
    assert s.file_kind(tmp_path / "k") == "model"


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


cells = st.text(st.sampled_from('ab1,;"\n é '), max_size=5)


def written(rows, quoting, between, ends):
    out = io.StringIO()
    csv.writer(out, lineterminator=ends, quoting=quoting, delimiter=between).writerows(rows)
    return out.getvalue().encode()


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=12),
    quoting=st.lists(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]), min_size=13, max_size=13),
    between=st.sampled_from(",;|\t"),
    ends=st.sampled_from(["\n", "\r\n"]),
    blank=st.integers(0, 13),
    block=st.integers(1, 60),
    change=st.sampled_from(["none", "a field more", "a field less"]),
    at=st.integers(0, 11),
)
def test_every_table_comes_back_and_no_field_too_many_or_few_gets_through(
    rows, quoting, between, ends, blank, block, change, at, tmp_path_factory
):
    at %= len(rows)
    kept = [list(row) for row in rows]
    if change == "a field more":
        kept[at].insert(at % 4, "1")
    elif change == "a field less":
        del kept[at][at % 3]
    records = [written([row], how, between, ends) for row, how in zip([["x", "y", "z"], *kept], quoting, strict=False)]
    begins = [1 + b"".join(records[:i]).count(b"\n") + (blank <= i) for i in range(len(records))]
    records.insert(blank, ends.encode())
    path = tmp_path_factory.getbasetemp() / "random.csv"
    path.write_bytes(b"".join(records))
    source = s.open_source(str(path), between)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s, "BLOCK", block)
        told = []
        patch.setattr(s, "fail", lambda sentence: (_ for _ in ()).throw(AssertionError(told.append(sentence))))
        if change == "none":
            assert source.read(["z", "x"]).fill_null("").rows() == [(row[2], row[0]) for row in rows]
            assert [source.place(i) for i in range(len(rows))] == [f"in line {line}" for line in begins[1:]]
        else:
            with pytest.raises(AssertionError):
                source.read(["x"])
            assert f" in line {begins[at + 1]} " in told[0] or f"the end of line {begins[at + 1]} " in told[0]


@settings(max_examples=300, deadline=None)
@given(
    rest=st.lists(st.sampled_from(["a", ",", '"', "\n", ',"', '",', '""', '"a"', "a,a\n", '"a,\n"\n']), max_size=12),
    block=st.integers(1, 20),
)
def test_what_is_not_refused_is_what_the_csv_module_reads(rest, block, tmp_path_factory):
    text = "h,k\n" + "".join(rest)
    path = tmp_path_factory.getbasetemp() / "rest.csv"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        try:
            source = s.open_source(str(path), ",")
            patch.setattr(s, "BLOCK", block)
            rows = source.read().fill_null("").rows()
        except typer.Exit:
            return
    assert rows == [tuple(row) for row in csv.reader(io.StringIO(text)) if row][1:]


QUOTED = {
    "too many": (b'a,b,c\n1,"x",3\n1,"x",3,4\n', "4 fields in line 3 where the header has 3"),
    "too few": (b'a,b,c\n1,"x\ny",3\n1,2\n', "2 fields in line 4 where the header has 3"),
    "one more, one less": (b"a,b,c\n1,2,3,4\n1,2\n", "4 fields in line 2"),
    "after blank lines": (b"\na,b\n\n\r\n1,2\n3\n", "1 field in line 6"),
    "inside a field": (b'a,b\n1,2\n5" pipe,2\n', "a quotation mark inside a field in line 3"),
    "inside two fields": (b'a,b\n5" pipe,6" pipe\n', "a quotation mark inside a field in line 2"),
    "text after a quoted field": (b'a,b\n"1"x,2\n', "a quotation mark inside a field in line 2 (the field begins"),
    "closed by another": (b'a,b\n1,"2\n3,"4"\n', "in line 3 (the field begins with one in line 2"),
    "never closed": (b'a,b\n1,2\n\n1,"2\n3,4\n', "quotation mark that is not closed, in line 4"),
    "in the header": (b'5" pipe,b\n1,2\n', "a quotation mark inside a field in line 1"),
    "header never closed": (b'a,"b\n1,2\n', "quotation mark that is not closed, in line 1"),
    "trailing separators": (b"a;b\n1;2;\n3;4;\n", "a semicolon at the end of line 2 and none at the end of the header"),
    "trailing column with values": (b"a,b,\n1,2,\n\n3,4,x\n", "has no name and holds 'x' in line 4"),
    "latin in a column that is not read": (b"a,b,c\n1,2,3\n1,2,\xe9\n", "not UTF-8 text in line 3"),
}


@pytest.mark.parametrize("sniffed", [1, 20])  # with 1, what stands below the header is found while reading
@pytest.mark.parametrize("case", QUOTED)
def test_fields_are_counted_in_quoted_files_too(case, sniffed, tmp_path, monkeypatch, capsys):
    data, words = QUOTED[case]
    monkeypatch.setattr(s, "SNIFFED_LINES", sniffed)
    with pytest.raises(typer.Exit) as left:
        opened(tmp_path, data).read(["a"])
    assert left.value.exit_code == 2
    assert words in capsys.readouterr().err


def test_an_empty_column_behind_the_last_separator_is_left_out_and_said(tmp_path, capsys):
    source = opened(tmp_path, "a,b,\r\n1,2,\r\n3,4, \r\n")
    assert source.columns == ("a", "b")
    assert source.read().rows() == [("1", "2"), ("3", "4")]
    told = capsys.readouterr().err
    assert told.startswith("borrow: the first line of ")
    assert "ends with a comma: the last column has no name and is left out" in told


@pytest.mark.parametrize("last", ["", ","])
def test_the_row_numbers_of_pandas_and_r_are_left_out_and_said(last, tmp_path, capsys):
    source = opened(tmp_path, f'"",a,b{last}\n0,1,2{last}\n1,3,4{last}\n')
    assert source.columns == ("a", "b")
    assert source.read().rows() == [("1", "2"), ("3", "4")]
    assert source.read(["b"]).rows() == [("2",), ("4",)]
    assert "the first column of" in capsys.readouterr().err


def test_names_of_columns_may_have_line_ends_and_blank_lines_before_them(tmp_path):
    source = opened(tmp_path, '\ufeff\n\n"a\n(cm)","b ""x"""\n\n1,2\n')
    assert source.columns == ("a\n(cm)", 'b "x"')
    assert source.read().rows() == [("1", "2")]
    assert source.place(0) == "in line 6"


def test_large_quoted_files_are_what_the_csv_module_reads(tmp_path):
    rows = [[str(i), 'x, "y"\nz' * (i % 7 == 0), "é" * (i % 5)] for i in range(60_000)]
    (tmp_path / "t.csv").write_bytes(written([["a", "b", "c"], *rows], csv.QUOTE_MINIMAL, ",", "\n"))
    source = s.open_source(str(tmp_path / "t.csv"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s, "BLOCK", 1 << 18)
        assert source.read().fill_null("").rows() == [tuple(row) for row in rows]
    assert source.place(59_999) == f"in line {59_999 + 2 + sum(i % 7 == 0 for i in range(59_999))}"


def table(tmp_path, values, between=";", name="x"):
    out = written([[name, "y"], *[[v, "1"] for v in values]], csv.QUOTE_MINIMAL, between, "\n")
    return opened(tmp_path, out, between)


READ = [
    (";", ["1,5", "1,000"], [1.5, 1.0]),
    (";", ["0,125", "1,250"], [0.125, 1.25]),  # nobody writes 125 as 0,125
    (";", ["1234,567", "2,000"], [1234.567, 2.0]),
    ("\t", ["-1,5", ",5", "1,5e3", "2"], [-1.5, 0.5, 1500.0, 2.0]),
    ("|", ["1.000", "2.5"], [1.0, 2.5]),
    (",", ["1.000", "2.500"], [1.0, 2.5]),
]


@pytest.mark.parametrize(("between", "values", "numbers"), READ)
def test_decimal_commas_where_another_character_separates(between, values, numbers, tmp_path):
    source = table(tmp_path, values, between)
    frame = source.read()
    assert c.as_numbers(source, frame.select("x"), "")["x"].to_list() == numbers
    assert c.as_target(frame["x"], source).to_list() == numbers


REFUSED = [
    (",", ["1", "1,000"], ["'1,000' in line 3", "separator of thousands is not read", "nor is a decimal comma"]),
    (",", ["1,000"], ["column 'x' of", "'1,000' in line 2"]),
    (",", ["2", "1,5"], ["'1,5' in line 3", "nor is a decimal comma where commas separate"]),
    (",", ["1,000.5", "2"], ["'1,000.5' in line 2", "separator of thousands"]),
    (";", ["1", "1,000", "-20,500"], ["'1,000' in line 3", "is 1000 if the comma", "1.000 if it is decimal"]),
    (";", ["1,000", "0.5"], ["write 1000, or 1.000 with a point"]),
    (";", ["1,5", "1.000"], ["'1.000' in line 3", "is 1000 if the point", "write 1000, or 1,000 with a comma"]),
    (";", ["1,5", "1,000,000"], ["'1,000,000' in line 3", "separator of thousands"]),
    (";", ["1.000,5"], ["'1.000,5' in line 2", "separator of thousands"]),
    (";", ["1", "1 000"], ["'1 000' in line 3", "separator of thousands"]),
    (";", ["1", "1\u202f000,5"], ["in line 3", "separator of thousands"]),
    ("|", ["1", "1'000"], ["in line 3", "separator of thousands"]),
]


@pytest.mark.parametrize(("between", "values", "words"), REFUSED)
def test_separators_of_thousands_are_refused_as_inputs_and_as_targets(between, values, words, tmp_path, capsys):
    source = table(tmp_path, values, between)
    frame = source.read()
    refused(capsys, lambda: c.as_numbers(source, frame.select("x"), "cure"), *words)
    refused(capsys, lambda: c.as_target(frame["x"], source), *words)


def test_text_that_is_no_number_at_all_stays_a_label(tmp_path):
    source = table(tmp_path, ["low", "1,000", "high"], ",")
    assert c.as_target(source.read()["x"], source).to_list() == ["low", "1,000", "high"]


def test_lines_are_named_truly_where_values_are_refused(tmp_path, capsys):
    source = opened(tmp_path, 'a,b,y\n\n"1\n2",1,1\n\nx,oops,1\n')
    refused(capsys, lambda: c.read_table(source, "y", "a", ["b"], []), "'oops' in line 6")
    source = opened(tmp_path, 'a,b,y\n"1\n2",1,1\n\n,2,1\n')
    refused(capsys, lambda: c.read_table(source, "y", "a", ["b"], []), "the first in line 5")
