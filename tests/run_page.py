"""Runs the code of a page as its reader would, top to bottom in an empty folder, and prints what each block printed.

python -W error tests/run_page.py docs/tutorial.md     one JSON list: [[language, code, expected, printed], ...]
python tests/run_page.py --write docs/tutorial.md      puts what is printed into the page, where it has no ellipsis

Python blocks share their names. Of shell blocks the commands that are `borrow`'s own or show a file are run; those that
set up the project or take hours are looked up instead: a make target, a script, must be there. A text block right after
another is what that one prints. A block of `py` needs machines that a test does not have: it must compile, and names of
`borrow` in it must exist.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Commands that a reader runs and a test does not: how to know that they are right all the same.
ELSEWHERE = ("make", "python", "gcc", "valgrind", "git", "pip")
#: Plain commands that show a file.
SHELL = ("head", "cat", "ls")
#: What the commands find as their terminal.
TERMINAL = {"COLUMNS": "90", "NO_COLOR": "1"}
#: The command line of the source under test, whatever is installed.
BORROW = f"borrow() {{ {shlex.quote(sys.executable)} -W error -c 'from borrow.cli.app import main; main()' \"$@\"; }}\n"


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """(language, code, what the page says that it prints) of every fenced block that is code."""
    found: list[tuple[str, str, str]] = []
    text, end = page.read_text(encoding="utf-8"), -1
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        language = match[1].strip()
        if language == "text":
            if found and text[end : match.start()].strip() == "":
                found[-1] = (*found[-1][:2], match[2])
        else:
            found.append((language, match[2], ""))
        end = match.end()
    return found


def commands(code: str) -> list[str]:
    """The commands of a shell block: comments dropped, continued lines joined."""
    lines = code.replace("\\\n", " ").splitlines()
    return [" ".join(shlex.split(line, comments=True)) and line for line in lines if shlex.split(line, comments=True)]


def run_command(words: list[str], line: str) -> str:
    """One call of the command line, in this process: starting another costs more than most of them do."""
    from typer.testing import CliRunner

    from borrow.cli.app import main

    done = CliRunner().invoke(main, words, env=TERMINAL)
    if done.exit_code:
        raise SystemExit(f"{line}\n{done.output}")
    return done.stdout


def run_shell(code: str) -> str:
    """What the commands print. A command of another kind must name something that exists."""
    printed, env = "", {**os.environ, **TERMINAL}
    for line in commands(code):
        words = shlex.split(line, comments=True)
        if words[0] == "borrow" and not set("|<>") & set(words):
            printed += run_command(words[1:], line)
        elif words[0] == "borrow" or words[0] in SHELL:
            done = subprocess.run(["bash", "-c", BORROW + line], capture_output=True, text=True, env=env)
            if done.returncode:
                raise SystemExit(f"{line}\n{done.stdout}{done.stderr}")
            printed += done.stdout
        elif words[0] not in ELSEWHERE:
            raise SystemExit(f"{line}: neither run nor looked up; see tests/run_page.py")
        elif words[0] == "make" and not re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M):
            raise SystemExit(f"{line}: no such target")
        elif words[0] == "python" and not (ROOT / words[1]).is_file():
            raise SystemExit(f"{line}: no such script")
    return printed


def run(page: Path) -> list[list[str]]:
    """Every block, run in the order of the page."""
    sys.modules["__main__"] = reader = types.ModuleType("__main__")  # classes of a page can be pickled
    names: dict[str, Any] = vars(reader)
    done = []
    for i, (language, code, expected) in enumerate(blocks(page)):
        out = io.StringIO()
        if language == "python":
            with contextlib.redirect_stdout(out):
                exec(compile(code, f"{page.name}, block {i}", "exec"), names)
        elif language == "sh":
            out.write(run_shell(code))
        elif language == "py":
            compile(code, f"{page.name}, block {i}", "exec")
            for name in re.findall(r"\bborrow\.(\w+)", code):
                getattr(importlib.import_module("borrow"), name)
        else:
            raise SystemExit(f"{page.name}: a block of {language!r}; expected python, sh, or text for what is printed")
        done.append([language, code, expected, out.getvalue()])
    return done


def write(page: Path) -> None:
    """Put what the blocks print into the page."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for _, code, expected, printed in run(page):
            if expected and "…" not in expected:
                at = text.index(code)
                text = text[:at] + text[at:].replace(f"```text\n{expected}", f"```text\n{tidy(printed)}", 1)
    page.write_text(text, encoding="utf-8")


def tidy(printed: str) -> str:
    """Without spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())


if __name__ == "__main__":
    *option, place = sys.argv[1:]
    if option == ["--write"]:
        write(Path(place).resolve())
    else:
        json.dump(run(Path(place).resolve()), sys.stdout)
