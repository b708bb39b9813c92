"""Tables in files, spoiled at random: read as Python's own reader reads them, or refused in one sentence.

Commands that are interrupted or killed at random moments: what was there before stays whole.
"""

import csv
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from borrow import store
from borrow.cli.app import main

#: What is put into a file, or in place of a part of it.
PIECES = (b'"', b'""', b",", b";", b"\t", b"\n", b"\r\n", b"\r", b"\0", b"\xef\xbb\xbf", b"\xff", b" ", b"'", b"1,000",
          b"1.000,5", b"inf", b"-inf", b"nan", b"NA", b"1e400", b"9" * 400, b"-", b"+", b"0x10", b"1_000", b"=1+1",
          "\u202e".encode(), "\u00a0".encode(), "\u0663".encode(), b"\x1b[31m", b"a" * 5000, b"|", b"\\", b"#",
          b"")  # fmt: skip


def drawn_file(rng):
    """A small table as text, with a separator, quotation marks and line ends of some kind."""
    separator = rng.choice([",", ",", ";", "\t"])
    rows = [["school", "hours", "score", "note"]]
    for _ in range(int(rng.integers(1, 9))):
        note = str(rng.choice(["", "x", "a b", 'say "so"', f"p{separator}q", "two\nlines", "é"]))
        rows.append([str(rng.choice(["a", "b", "c d"])), f"{rng.normal():.3f}", f"{rng.normal():.2f}", note])
    text = io.StringIO()
    end = str(rng.choice(["\n", "\r\n"]))
    style = csv.QUOTE_ALL if rng.random() < 0.3 else csv.QUOTE_MINIMAL
    csv.writer(text, delimiter=separator, lineterminator=end, quoting=style).writerows(rows)
    return text.getvalue().encode()


def spoil(rng, data):
    """The bytes with one thing changed."""
    at, way = int(rng.integers(0, len(data) + 1)), rng.integers(0, 6)
    piece = PIECES[rng.integers(len(PIECES))]
    if way == 0:
        return data[:at] + piece + data[at:]
    if way == 1:
        return data[:at] + piece + data[at + len(piece) :]
    if way == 2:
        return data[:at] + data[at + int(rng.integers(1, 9)) :]
    if way == 3:
        return data[:at]
    lines = data.splitlines(keepends=True)
    if way == 4 and lines:
        k = rng.integers(len(lines))
        return b"".join([*lines[:k], lines[k], *lines[k:]])
    fields = re.split(rb"([,;\t\n])", data)
    fields[rng.integers(len(fields))] = piece
    return b"".join(fields)


def reference(data, separator):
    """The records as Python's own reader sees them, without blank lines; None where it finds fault.

    A carriage return alone ends a line there and is a character in a field here.
    """
    if re.search(rb"\r(?!\n)", data):
        return None
    try:
        text = data.decode("utf-8-sig")
        found = [r for r in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if r]
    except (UnicodeDecodeError, csv.Error):
        return None
    return found


def command(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


def check_said(answer):
    """It worked, or it said in one sentence why not."""
    assert answer.exit_code in (0, 2), f"exit code {answer.exit_code}: {answer.output[-300:]!r}"
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    lines = answer.stderr.strip().splitlines()
    assert all(line.startswith("borrow: ") for line in lines), f"told {lines[-1]!r}"
    assert "something went wrong" not in answer.stderr, answer.stderr
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", answer.output.replace("\r", "")), (
        "a control character is printed"
    )


def check_file(data, folder):
    """What `borrow info` says of the file agrees with Python's reader; `borrow fit` works or refuses."""
    place = Path(folder) / "t.csv"
    place.write_bytes(data)
    answer = command("info", place, "--json")
    check_said(answer)
    if answer.exit_code == 0:
        found = json.loads(answer.stdout)
        records = reference(data, found["delimiter"])
        if records is not None:  # ours may be milder; where both read, they read the same
            widths = {len(r) for r in records}
            assert len(widths) == 1, f"records of {sorted(widths)} fields were read"
            assert found["rows"] == len(records) - 1, f"{found['rows']} rows were read, {len(records) - 1} are there"
            check_columns(found["columns"], records)
    answer = command(
        "fit", place, "--target", "score", "--task", "school", "-x", "hours", "-m", "ivm", "--save", f"{place}.m"
    )
    check_said(answer)


def check_columns(columns, records):
    """The range of each column of numbers is that of its fields."""
    header = [name.strip() for name in records[0]]
    for column in columns:
        if column["kind"] != "numbers" or header.count(column["name"]) != 1:
            continue
        values = [r[header.index(column["name"])].strip() for r in records[1:]]
        numbers = [as_number(v) for v in values]
        finite = [v for v in numbers if v is not None and math.isfinite(v)]
        if None not in numbers and finite:
            assert (column["least"], column["most"]) == (min(finite), max(finite)), column


def as_number(text):
    """A plain number; NaN where it stands for none; None where it is written in a way of its own."""
    if text in ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "none"):
        return math.nan
    return float(text) if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text, re.ASCII) else None


@dataclass(frozen=True)
class FileCase:
    """One spoiled file, by a number."""

    number: int

    def data(self):
        rng = np.random.default_rng(self.number)
        data = drawn_file(rng)
        for _ in range(int(rng.geometric(0.5))):
            data = spoil(rng, data)
        return data

    def failure(self, data=None):
        """What went wrong, if anything did."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                check_file(self.data() if data is None else data, folder)
            except AssertionError as wrong:
                return " ".join(str(wrong).split())[:400]
        return None

    def shrunk(self, tries=60):
        """Fewer bytes that fail too."""
        data = self.data()
        size = len(data) // 2
        while size >= 1 and tries > 0:
            for start in range(0, len(data), size):
                fewer = data[:start] + data[start + size :]
                tries -= 1
                if tries > 0 and self.failure(fewer):
                    data = fewer
                    break
            else:
                size //= 2
        return data


# Signals. -------------------------------------------------------------------------------------------------------------

LINES = "school,hours,score\n" + "".join(f"{'ab'[i % 2]},{i / 9:.3f},{math.sin(i):.4f}\n" for i in range(60))


@dataclass(frozen=True)
class SignalCase:
    """A command that is stopped after a random time, by a number."""

    number: int

    def failure(self):
        """What went wrong, if anything did: a file that is not whole, something left behind, a traceback."""
        rng = np.random.default_rng(self.number)
        how = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL][self.number % 3]
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "t.csv").write_text(LINES)
            store.save(store_of(), place / "m")
            before = (place / "m").read_bytes()
            usual = ["t.csv", "--target", "score", "--task", "school"]
            words = ["fit", *usual, "-m", "single", "--save", "m"]
            if rng.random() < 0.5:
                words = [
                    "compare",
                    *usual,
                    "--primary",
                    "a",
                    "--methods",
                    "single,pooled",
                    "--store",
                    "s",
                    "--save",
                    "m",
                ]
            call = [sys.executable, "-m", "borrow", *words]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": place}
            here = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell lets what runs behind it ignore Ctrl-C
            process = subprocess.Popen(call, env={**os.environ, "TMPDIR": folder}, **pipes)
            signal.signal(signal.SIGINT, here)
            time.sleep(float(rng.uniform(0.3, 6.0)))
            process.send_signal(how)
            said = process.communicate(timeout=600)[1]
            try:
                self.check(place, how, process.returncode, said, before)
            except AssertionError as wrong:
                return f"{' '.join(words)} stopped by {how.name}: {wrong}"
        return None

    @staticmethod
    def check(place, how, code, said, before):
        # Until `main` is reached Python itself is starting, and answers in its own words.
        assert "Traceback" not in said or "in main" not in said, said[-500:]
        started = "KeyboardInterrupt" not in said
        assert code in ((0, -9) if how == signal.SIGKILL else (0, 130, -how)) or not started, code
        if (place / "m").read_bytes() != before:
            store.load(place / "m")  # the new one, whole
        left = [p.name for p in place.iterdir() if p.name not in ("t.csv", "m", "s")]
        assert how == signal.SIGKILL or not left, f"left {left}"
        if (place / "s").exists() and (place / "s").stat().st_size:
            again = subprocess.run(
                [sys.executable, "-m", "borrow", "info", "s", "--json"],
                cwd=place,
                capture_output=True,
                text=True,
                check=False,
            )
            assert again.returncode == 0 or how == signal.SIGKILL, again.stderr


def store_of():
    """Something small to be there before."""
    from borrow.kernels import Linear

    return Linear(1.0)
