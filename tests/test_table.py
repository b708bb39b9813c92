import numpy as np
import pandas as pd

from borrow.data.table import Table, format_value

TABLE = Table(
    task=["s1", "a longer name"],
    rows=np.array([5, 1200]),
    rho=np.array([1.0, -0.123456]),
    std_error=[0.0, np.nan],
    sure=[True, False],
)


def test_prints_aligned_numbers_to_the_right_and_text_to_the_left():
    assert repr(TABLE).splitlines() == [
        "task           rows     rho  std_error  sure",
        "s1                5       1          0  True",
        "a longer name  1200  -0.123          -  False",
    ]


def test_is_a_data_frame_for_pandas():
    frame = pd.DataFrame(TABLE)
    assert frame.columns.tolist() == ["task", "rows", "rho", "std_error", "sure"]
    assert frame["rows"].tolist() == [5, 1200]
    assert frame["rho"].dtype == float  # full precision, whatever is printed
    assert frame["rho"][1] == -0.123456


def test_rows_are_dicts():
    assert TABLE.rows()[0] == {"task": "s1", "rows": 5, "rho": 1.0, "std_error": 0.0, "sure": True}
    assert len(TABLE.rows()) == 2


def test_html_escapes_what_is_in_the_data():
    page = Table({"<b>": ["a & b", "<script>alert(1)</script>"], "n": [1, 2]})._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<th>&lt;b&gt;</th><th>n</th>" in page
    assert "<td>a &amp; b</td><td>1</td>" in page
    assert page.count("<tr>") == page.count("</tr>") == 3


def test_a_table_without_rows_prints_its_head():
    empty = Table(task=[], rho=np.zeros(0))
    assert repr(empty) == "task  rho"
    assert empty.rows() == []
    assert "<th>rho</th>" in empty._repr_html_()
    assert repr(Table()) == ""
    assert "<table>" in Table()._repr_html_()


def test_values_have_three_digits():
    assert [format_value(v) for v in (1234567.0, 12345.6, -0.0, np.float32(0.5), np.nan, np.inf, 7, "x", None)] == [
        "1.23e+06",
        "12346",
        "0",
        "0.5",
        "-",
        "inf",
        "7",
        "x",
        "None",
    ]
