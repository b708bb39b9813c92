"""What the site does beyond Markdown: README and its neighbours as pages, mathematics, a search index, wide tables.

README, CONTRIBUTING and CHANGELOG lie in the root of the repository, where a visitor looks for them. They become pages
as they are; only their links are turned, from places in the repository to pages of the site.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import entries_of_names, link_names  # beside this file

ROOT = Path(__file__).resolve().parents[2]
#: Files of the root that are pages, and the names that they have there.
FROM_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

#: Stands where the commands go.
COMMANDS = "<!-- commands: written from the commands themselves when the site is built -->"
LINK = re.compile(r"(!?)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\(([^)\s#]+)(#[^)]*)?\)")
#: $$TeX$$ as a paragraph, $TeX$ in a line, and code in a line, where a dollar sign is a dollar sign.
MATHEMATICS = re.compile(r"`[^`\n]*`|^\$\$(?P<block>[^$]+)\$\$$|\$(?P<inline>[^$\s](?:[^$\n]*[^$\s])?)\$", re.M)
sections: list[list[str]] = []


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages that come from the root."""
    sections.clear()
    for name, page in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Links to files of the repository become links to pages, or words where the site has no such page."""
    src = page.file.src_uri
    home = next((name for name, as_page in FROM_ROOT.items() if as_page == src), f"docs/{src}")

    def turn(match: re.Match[str]) -> str:
        image, words, target, anchor = match.groups()
        words = LINK.sub(turn, words)  # a picture may be a link
        if re.match(r"\w+:", target):
            return f"{image}[{words}]({target}{anchor or ''})"
        place = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
        uri = FROM_ROOT.get(place, place.removeprefix("docs/"))
        if place not in FROM_ROOT and not place.startswith("docs/"):
            if not (ROOT / place).exists():
                return match[0]  # for the strict build to complain of
            return f"`{place}`" if words.strip("`") == place else f"{words} (`{place}`)"
        relative = posixpath.relpath(uri, posixpath.dirname(src) or ".")
        return f"{image}[{words}]({relative}{anchor or ''})"

    markdown = markdown.replace(COMMANDS, commands() if COMMANDS in markdown else "")
    names = entries_of_names()
    parts = re.split(r"(^```[\s\S]*?^```[^\n]*$|^#.*$)", markdown, flags=re.M)  # code and headings as they are
    return "".join(
        part if i % 2 else link_names(MATHEMATICS.sub(as_mathml, LINK.sub(turn, part)), names)
        for i, part in enumerate(parts)
    )


def as_mathml(match: re.Match[str]) -> str:
    """TeX between dollar signs as MathML, which browsers draw by themselves; code as it is."""
    block, inline = match["block"], match["inline"]
    if block is None and inline is None:
        return match[0]
    drawn = convert(block or inline, display="block" if block else "inline")
    return f'<div class="math">{drawn}</div>' if block else f'<span class="math">{drawn}</span>'


def commands() -> str:
    """Every command with its help, arguments and options, from the command line itself."""
    from borrow.cli.app import COMMANDS, load

    lines = []
    for name in COMMANDS:
        command = load(name)
        example = re.sub(r"^Example: ", "", command.epilog or "")
        lines += [f"### borrow {name}", "", command.help or "", "", "```sh", example, "```", ""]
        lines += ["| option | what it is |", "|---|---|"]
        for p in command.params:
            shown = p.metavar if p.param_type_name == "argument" else ", ".join([*p.opts, *p.secondary_opts])
            words = (getattr(p, "help", None) or "").replace("|", " ")
            if p.param_type_name == "option" and not p.is_flag and p.default not in (None, "", []):
                words += f" Default: `{p.default}`." if "default" not in words else ""
            lines.append(f'| <code class="whole">{shown}</code> | {words} |')
        lines.append("")
    return "\n".join(lines)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Wide tables scroll on their own; every section goes into the search index."""
    for part in re.split(r"(?=<h[1-4][ >])", content):
        head = re.match(r"<h[1-4][^>]*?(?: id=\"([^\"]*)\")?[^>]*>(.*?)</h[1-4]>", part, re.S)
        if head:
            anchor = f"#{head[1]}" if head[1] else ""
            text = " ".join(plain(part[head.end() :]).split())[:1500].lower()
            title = " ".join(plain(re.sub(r"<small.*?</small>", "", head[2], flags=re.S)).split())
            sections.append([title, page.title, page.url + anchor, text])
    # Highlighted text without a single token is what a block prints.
    bare = r'<div class="codehilite">(?=<pre><span></span><code>[^<]*</code>)'
    content = re.sub(bare, '<div class="printed">', content)
    # Short code with a hyphen or a blank, such as `--ignore`, is not cut there.
    inline = r"(?<!<pre>)(?<!</span>)<code>(?=[^<]{1,30}</code>)(?=[^<]*[- ])"
    content = re.sub(inline, '<code class="whole">', content)
    return content.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")


def plain(text: str) -> str:
    """HTML without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", " ", text))


def on_post_build(config: Any, **_: Any) -> None:
    """The index as a script: a page that was opened from disk may not fetch anything."""
    path = Path(config.site_dir) / "search_index.js"
    path.write_text(f"const sections = {json.dumps(sections, ensure_ascii=False)};\n", encoding="utf-8")
