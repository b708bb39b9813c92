"""What every command shares: how it fails, what it prints, how far it is."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from borrow.cli import INSTALL
from borrow.data.plain import to_json
from borrow.data.table import format_value
from borrow.numerics.progress import Progress as Lines
from borrow.numerics.warned import capture_warnings

FAILED, WRONG, INTERRUPTED = 1, 2, 130
#: Arguments of the library that are options here, for its messages.
OPTIONS = "target|task|primary|features|kind|methods|store|scoring|cv|n_jobs|inducing|group|time|wanted|unseen|minutes"
#: Warnings that are printed; more are counted.
MOST_WARNINGS = 5
#: Seconds before the first line of progress where there is no terminal, and between lines.
FIRST_LINE, NEXT_LINE = 10.0, 30.0
#: How a line may be printed; an unbroken one is as long as the path in it.
BOLD, DIM, UNBROKEN = {"style": "bold"}, {"style": "dim"}, {"soft_wrap": True}


def fail(sentence: str, code: int = WRONG) -> NoReturn:
    """Say what is wrong and leave."""
    tell(sentence)
    raise typer.Exit(code)


def tell(sentence: str) -> None:
    """Print a sentence on standard error, so that results can be piped."""
    typer.echo(f"borrow: {visible(sentence)}", err=True)


def refuse(reasons: Mapping[str, bool]) -> None:
    """Fail with the first sentence that holds."""
    for sentence, holds in reasons.items():
        if holds:
            fail(sentence)


class Stopped(KeyboardInterrupt):
    """A signal to end. Where KeyboardInterrupt itself passes an `exec`, Python ends by SIGINT though it is caught."""


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose errors are sentences. `BORROW_DEBUG=1` shows where they come from."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        stopped: list[int] = []

        def stop(number: int, _: object) -> NoReturn:  # SIGTERM takes the way of Ctrl-C: workers end, files are whole
            stopped.append(number)
            raise Stopped

        found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in found.items() if handler not in (None, signal.SIG_IGN)}
        try:
            for number in before:
                signal.signal(number, stop)
            return command(*arguments, **options)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except BrokenPipeError:  # the reader, such as `head`, has had enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for the last flush
            raise typer.Exit(FAILED) from None
        except BaseException as error:
            if stopped:  # code in C that is stopped while it imports raises something else in its place
                fail("interrupted", INTERRUPTED)
            if os.environ.get("BORROW_DEBUG") or not isinstance(error, Exception):
                raise
            fail(*_explained(error))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    return run


def _explained(error: Exception) -> tuple[str, int]:
    """A sentence, and whether the call was wrong or something else was.

    A ValueError or TypeError was raised on purpose where it comes from this package or from scikit-learn's checks.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        return INSTALL.format(error.name), WRONG
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {text}", FAILED
    if isinstance(error, OSError):
        where = f"{str(error.filename)!r}: " if error.filename else ""
        return f"{where}{error.strerror or text}", WRONG
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = last.startswith(str(Path(__file__).parent.parent)) or "validation" in last
    if ours and isinstance(error, (ValueError, TypeError)) and not isinstance(error, np.linalg.LinAlgError):
        return in_options(text), WRONG
    return f"something went wrong ({type(error).__name__}: {text}); BORROW_DEBUG=1 shows where", FAILED


def in_options(text: str) -> str:
    """A message of the library in the words of the command line: `primary='s9'` is `--primary 's9'`."""
    found = rf"\b({OPTIONS})=(?=(['\"\w(\[-])?)"
    text = re.sub(r"\btasks=(?!\w)", "--as", text)
    text = text.replace("max_minutes=", "minutes=")
    text = re.sub(r"\bcv=\((-?\d+), (-?\d+)\)", r"--folds \1 --repeats \2", text)
    return re.sub(found, lambda m: f"--{m[1].replace('_', '-')}{' ' * bool(m[2])}", text)


def library_warnings() -> AbstractContextManager[list[str]]:
    """Collect the warnings of the library, in the words of the command line."""
    return capture_warnings(lambda w: in_options(" ".join(str(w.message).split())))


def encoding_of(encoder: Any) -> list[str]:
    """What became of columns that were no plain numbers, one line each."""
    return [] if encoder is None else [in_a_line(f"column {line}") for line in encoder.report().splitlines()]


def in_a_line(text: str) -> str:
    """A sentence of the library as a line of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def tell_warnings(found: Sequence[str]) -> None:
    """Print warnings on standard error: the first few, and how many more there are."""
    for text in found[:MOST_WARNINGS]:
        tell(f"warning: {text}")
    if len(found) > MOST_WARNINGS:
        tell(f"and {len(found) - MOST_WARNINGS} more warnings")


@contextmanager
def resumable(stored: Path | None, *settings: Any) -> Iterator[Path]:
    """A file for results as they come: the one given, or one that the same settings find again, deleted at the end.

    Ctrl-C, and a signal to terminate, leave it and say how to go on.
    """
    place = stored
    if place is None:
        key = hashlib.sha256(repr(settings).encode()).hexdigest()[:8]
        place = Path("." if os.access(".", os.W_OK) else tempfile.gettempdir()) / f".borrow-{key}.jsonl"
        if place.exists():
            tell(f"going on from {str(place)!r}, which the same command left when it was interrupted")
    try:
        yield place
    except KeyboardInterrupt:
        stored = place  # it stays
        fail(f"interrupted; the same command goes on from {str(place)!r}", INTERRUPTED)
    finally:
        if stored is None:
            place.unlink(missing_ok=True)


@contextmanager
def progress(what: str, counted: bool = True) -> Iterator[Any]:
    """Show a bar on standard error, with the time left where steps are counted; lines now and then in a pipe.

    Yields a function of (done, total).
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = Lines(0, what, True, NEXT_LINE)
        lines.next += FIRST_LINE
        yield lines
        return
    left = (TextColumn("spent, about"), TimeRemainingColumn(), TextColumn("left")) if counted else ()
    parts = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn(), *left
    with Progress(*parts, console=console, transient=True) as bar:
        job = bar.add_task(what, total=None)

        def count(done: int, total: int) -> None:
            if bar.tasks[0].total != total:
                bar.reset(job, total=total)
            bar.update(job, completed=done, description=f"{what} {done} of {total}")

        yield count


def check_files(inputs: Mapping[str, Path | str | None], outputs: Mapping[str, Path | None]) -> None:
    """Refuse an output that cannot be written, or that is an input or another output, before any work is done.

    Files are the same where the system says so: links and other ways to write a path make no difference.
    """
    taken: dict[Any, str] = {}
    for option, path in [*inputs.items(), *outputs.items()]:
        if path is None or (str(path) == "-" and option in outputs):
            continue
        name = f"{option} {str(path)!r}"
        same = _identity(path)
        if option in outputs:
            place = Path(path)
            refuse(
                {
                    f"{name} is a folder; give the name of a file": place.is_dir(),
                    # The file written would take the place of the device or pipe.
                    f"{name} is a device or a pipe; give the name of a file": place.exists() and not place.is_file(),
                    f"{name}: there is no folder {str(place.parent)!r}; make it, or give another name": not (
                        place.parent.is_dir()
                    ),
                    f"{name} cannot be written; give another name": not os.access(
                        place if place.exists() else place.parent, os.W_OK
                    ),
                    f"{name} is the same file as {taken.get(same)}, which it would overwrite; give another name": (
                        same in taken
                    ),
                }
            )
        if same is not None:
            taken.setdefault(same, name)


def _identity(path: Path | str) -> tuple[Any, ...] | None:
    """What two paths to one file share, also where it is not there yet; None for what is no file, such as a device."""
    real = Path(os.path.realpath(path))
    try:
        found = os.fstat(0) if str(path) == "-" else real.stat()
    except OSError:
        folder = real.parent.stat() if real.parent.is_dir() else None
        return (str(real),) if folder is None else (folder.st_dev, folder.st_ino, os.path.normcase(real.name))
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def command_line(*words: str, **options: Any) -> str:
    """A call of `borrow` as a line for the shell: options that are None are left out, lists are repeated."""
    given = [(n, v) for n, value in options.items() for v in (value if isinstance(value, list) else [value])]
    return shlex.join(["borrow", *words, *(w for n, v in given if v is not None for w in (f"--{n}", str(v)))])


def print_result(result: dict[str, Any], as_json: bool, lines: Callable[[], Iterable[Any]]) -> None:
    """Print a result, warnings included, as JSON; or its warnings on standard error, and these lines."""
    if as_json:
        print_json(result)
    else:
        told = result.get("encoding", [])
        tell_warnings([text for text in result.get("warnings", []) if in_a_line(text) not in told])
        print_lines(*lines())


def print_lines(*lines: Any) -> None:
    """Print texts and tables on standard output; a pair is a text and how to print it."""
    console = SafeConsole()
    for line in lines:
        text, options = line if isinstance(line, tuple) else (line, {})
        console.print(text, **options)


def print_json(value: Any) -> None:
    """Print JSON on standard output; NaN becomes null, and what a terminal would obey is escaped."""
    text = json.dumps(to_json(value), allow_nan=False, ensure_ascii=False)
    typer.echo("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text))


def visible(text: Any) -> Any:
    """Text whose control characters show as such: a label from a file must not steer the terminal."""
    if not isinstance(text, str):
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class SafeConsole(Console):
    """Standard output: plain where it is no terminal, 80 columns where nothing says otherwise. Text stays as it is."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **more: Any) -> None:
        """Print text with its control characters visible."""
        super().print(*map(visible, objects), **more)


class SafeTable(Table):
    """A table without a box, words to the left and numbers to the right, whose cells are shown as they are."""

    def __init__(
        self, left: Sequence[str], right: Sequence[str], rows: Iterable[Any] = (), apart: int = 3, title: str = ""
    ) -> None:
        look: dict[str, Any] = {"box": None, "padding": (0, apart, 0, 0), "pad_edge": False, "header_style": "dim"}
        super().__init__(title=title, title_justify="left", title_style="bold", **look)
        for name in left:
            self.add_column(name, overflow="fold", min_width=min(len(name), 8))
        for name in right:
            self.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            self.add_row(*row)

    def fits(self) -> bool:
        """Whether every cell has room beside the others, in one line."""
        console = SafeConsole()
        return self.__rich_measure__(console, console.options.update(width=sys.maxsize)).maximum <= console.width

    def add_row(self, *cells: Any, **more: Any) -> None:
        """Add one row of cells with their control characters visible."""
        super().add_row(*map(visible, cells), **more)


def percent(share: float | None) -> str:
    """A share in whole percents; a dash where there is none."""
    return "-" if share is None or share != share else f"{100 * share:.0f} %"


def number(value: Any) -> str:
    """Three significant digits; a dash where there is none."""
    return "-" if value is None else format_value(value)


def in_full(value: Any) -> str:
    """A whole number with all its digits, up to 15 of them, as years and identifiers need; others in three digits."""
    whole = isinstance(value, (int, float)) and abs(value) < 1e15 and value == value // 1
    return f"{value:.0f}" if whole else number(value)
