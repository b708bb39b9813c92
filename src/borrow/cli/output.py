"""What every command shares: how it fails, what it prints, how far it is."""

from __future__ import annotations

import functools
import json
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from borrow.data.plain import to_json
from borrow.data.table import format_value
from borrow.numerics.warned import capture_warnings

INSTALL = "the command line needs packages that are not installed ({}): pip install 'borrow[app]'"
FAILED, WRONG, INTERRUPTED = 1, 2, 130

CODES = "Exit code: 0 when it worked, 2 for a wrong call or wrong data, 1 for anything else, 130 when interrupted."
#: Arguments of the library that are options here, for its messages.
OPTIONS = "target|task|primary|features|kind|methods|store|scoring|cv|n_jobs|inducing"


def fail(sentence: str, code: int = WRONG) -> NoReturn:
    """Say what is wrong and leave."""
    typer.echo(f"borrow: {visible(sentence)}", err=True)
    raise typer.Exit(code)


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose errors are sentences. `BORROW_DEBUG=1` shows where they come from."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except BrokenPipeError:  # the reader, such as `head`, has had enough
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for the last flush
            raise typer.Exit(FAILED) from None
        except ModuleNotFoundError as absent:
            fail(INSTALL.format(absent.name))
        except Exception as problem:
            if os.environ.get("BORROW_DEBUG"):
                raise
            fail(*_explained(problem))

    return run


def _explained(problem: Exception) -> tuple[str, int]:
    """A sentence, and whether the call was wrong or something else was."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    if isinstance(problem, MemoryError):
        return f"there is not enough memory: {text}", FAILED
    if isinstance(problem, OSError):
        where = f"{str(problem.filename)!r}: " if problem.filename else ""
        return f"{where}{problem.strerror or text}", WRONG
    if (
        isinstance(problem, (ValueError, TypeError))
        and not isinstance(problem, np.linalg.LinAlgError)
        and _ours(problem)
    ):
        return in_options(text), WRONG
    return f"something went wrong ({type(problem).__name__}: {text}); BORROW_DEBUG=1 shows where", FAILED


def _ours(problem: Exception) -> bool:
    """Whether the error was raised on purpose: by this package, or by scikit-learn's checks."""
    frames = traceback.extract_tb(problem.__traceback__)
    here = str(Path(__file__).parent.parent)
    return bool(frames) and (frames[-1].filename.startswith(here) or "validation" in frames[-1].filename)


def in_options(text: str) -> str:
    """A message of the library in the words of the command line: `primary='s9'` is `--primary 's9'`."""
    text = re.sub(rf"\b({OPTIONS})=(?=['\"\w(\[-])", lambda m: f"--{m[1].replace('_', '-')} ", text)
    return re.sub(rf"\b({OPTIONS})=", lambda m: f"--{m[1].replace('_', '-')}", text)


def noted() -> AbstractContextManager[list[str]]:
    """Warnings of the library, collected, in the words of the command line."""
    return capture_warnings(lambda w: in_options(" ".join(str(w.message).split())))


def tell_warnings(found: list[str], most: int = 5) -> None:
    """On standard error, so that results can be piped."""
    for text in found[:most]:
        typer.echo(f"borrow: warning: {visible(text)}", err=True)
    if len(found) > most:
        typer.echo(f"borrow: and {len(found) - most} more warnings", err=True)


@contextmanager
def steps(total: int) -> Iterator[Any]:
    """A bar on standard error, only on a terminal; yields a function that is told each step as it begins, or None."""
    with _bar(TimeElapsedColumn()) as bar:
        if bar is None:
            yield None
            return
        job = bar.add_task("starting", total=total)

        def step(text: str) -> None:
            started = bar.tasks[0].description != "starting"
            bar.update(job, description=text, advance=1 if started else 0)

        yield step


@contextmanager
def counting(what: str) -> Iterator[Any]:
    """A bar with the time left; yields a function of (done, total), or False where there is no terminal."""
    with _bar(TimeElapsedColumn(), TextColumn("spent, about"), TimeRemainingColumn(), TextColumn("left")) as bar:
        if bar is None:
            yield False
            return
        jobs: dict[int, Any] = {}

        def count(done: int, total: int) -> None:
            if total not in jobs:
                jobs.clear()
                for old in bar.task_ids:
                    bar.remove_task(old)
                jobs[total] = bar.add_task(what, total=total)
            bar.update(jobs[total], completed=done, description=f"{what} {done} of {total}")

        yield count


@contextmanager
def _bar(*columns: Any) -> Iterator[Any]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    parts = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), *columns
    with Progress(*parts, console=console, transient=True) as bar:
        yield bar


def writable(folder: Path, option: str = "--output") -> Path:
    """The folder, made if need be; an answer before the work rather than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make the output folder {str(folder)!r} ({error.strerror}); give another with {option}")
    if not os.access(folder, os.W_OK | os.X_OK):
        fail(f"cannot write to the output folder {str(folder)!r}; give another with {option}")
    return folder


def check_files(inputs: dict[str, Path | str | None], outputs: dict[str, Path | None]) -> None:
    """Refuse an output that cannot be written, or that is an input or another output, before any work is done.

    Files are the same where the system says so: links and other ways to write a path make no difference.
    """
    taken: dict[Any, str] = {}
    for option, path in [*inputs.items(), *outputs.items()]:
        if path is None or (str(path) == "-" and option in outputs):
            continue
        if option in outputs:
            _refuse_unwritable(Path(path), option)
        same = _identity(path)
        if option in outputs and same in taken:
            fail(
                f"{option} {str(path)!r} is the same file as {taken[same]}, which it would overwrite; give another name"
            )
        if same is not None:
            taken.setdefault(same, f"{option} {str(path)!r}")


def _refuse_unwritable(path: Path, option: str) -> None:
    if path.is_dir():
        fail(f"{option} {str(path)!r} is a folder; give the name of a file")
    if path.exists() and not path.is_file():  # the file written would take the place of the device or pipe
        fail(f"{option} {str(path)!r} is a device or a pipe; give the name of a file")
    if not path.parent.is_dir():
        fail(f"{option} {str(path)!r}: there is no folder {str(path.parent)!r}; make it, or give another name")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        fail(f"{option} {str(path)!r} cannot be written; give another name")


def _identity(path: Path | str) -> tuple[Any, ...] | None:
    """What two paths to one file share, also where it is not there yet; None for what is no file, such as a device."""
    real = Path(os.path.realpath(path))
    try:
        found = os.fstat(0) if str(path) == "-" else real.stat()
    except OSError:
        folder = real.parent.stat() if real.parent.is_dir() else None
        return (str(real),) if folder is None else (folder.st_dev, folder.st_ino, os.path.normcase(real.name))
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def say(value: Any) -> None:
    """JSON on standard output; NaN becomes null."""
    typer.echo(json.dumps(to_json(value), allow_nan=False, ensure_ascii=False))


def visible(text: str) -> str:
    """Text whose control characters show as such: a label from a file must not steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Paper(Console):
    """Standard output: plain where it is no terminal, 80 columns where nothing says otherwise."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **more: Any) -> None:
        """Text is shown as it is."""
        super().print(*(visible(o) if isinstance(o, str) else o for o in objects), **more)


class Words(Table):
    """A table whose cells are shown as they are."""

    def add_row(self, *cells: Any, **more: Any) -> None:
        """One row."""
        super().add_row(*(visible(c) if isinstance(c, str) else c for c in cells), **more)


def paper() -> Paper:
    """Where results go."""
    return Paper()


def plain_table(title: str, left: list[str], right: list[str], apart: int = 3) -> Table:
    """A table without a box: words to the left, numbers to the right."""
    look: dict[str, Any] = {"box": None, "padding": (0, apart, 0, 0), "pad_edge": False, "header_style": "dim"}
    table = Words(title=title, title_justify="left", title_style="bold", **look)
    for name in left:
        table.add_column(name, overflow="fold", min_width=min(len(name), 8))
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def percent(share: float | None) -> str:
    """A share in whole percents; a dash where there is none."""
    return "-" if share is None or share != share else f"{100 * share:.0f} %"


def number(value: Any) -> str:
    """Three significant digits, a dash where there is none."""
    return "-" if value is None else format_value(value)
