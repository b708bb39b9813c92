"""Writes the tables of `docs/reference/stored.md`: what classes declare, and what the files beside this one hold.

`python tests/stored/page.py`; `tests/test_store.py` compares.
"""

import gzip
import io
import json
import zipfile
from pathlib import Path

from borrow.estimators import registry
from borrow.store import objects

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "stored.md"
BEGIN, END = "<!-- table of {} -->\n", "<!-- end of the table of {} -->\n"


def models():
    """One line per estimator: the parts that its files have, of all that are kept here."""
    found = {}
    for file in sorted(HERE.glob("*.gz")):
        with zipfile.ZipFile(io.BytesIO(gzip.decompress(file.read_bytes()))) as archive:
            entries = json.loads(archive.read("page.json"))["entries"]
        found.setdefault(file.name.split("-")[0], set()).update(entry["class"] for entry in entries if "class" in entry)
    yield "| estimator | parts that its files may have |"
    yield "|---|---|"
    for entry in registry.entries():
        if entry.estimator.__module__.startswith("borrow."):
            yield f"| `{entry.name}` | {code(sorted(found[entry.name] - {entry.name}))} |"


def parts():
    """One line per word of the format: what the class that declares it is, and the names of its state."""
    yield "| part | what it is | what is stored of it |"
    yield "|---|---|---|"
    for word in (HERE / "names.txt").read_text().split():
        kind = objects.declared(registry.class_in_files, word)
        about = kind.__doc__.strip().split("\n")[0].replace("|", "\\|")
        if word.startswith("sklearn."):
            about = "A kernel of scikit-learn, as a setting."
        elif registry.name_in_files(kind) != word:
            about = f"An older word for `{registry.name_in_files(kind)}`, which is read."
        yield f"| `{word}` | {about} | {code(registry.state_names(kind)) or 'nothing'} |"


def code(words):
    """Words as a page shows names."""
    return ", ".join(f"`{word}`" for word in words)


def filled(page):
    """The page with its tables as they are now."""
    objects.declared(registry.class_in_files, "none")  # which is not found before every class has declared itself
    for name, lines in (("models", models()), ("parts", parts())):
        before, _, rest = page.partition(BEGIN.format(name))
        _, _, after = rest.partition(END.format(name))
        page = before + BEGIN.format(name) + "\n".join(lines) + "\n" + END.format(name) + after
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
