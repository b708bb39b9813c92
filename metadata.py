"""What the build adds to pyproject.toml: links that a package index can show, from the one address of the repository.

README links to files beside it, which an index does not have. With `tool.borrow.address` the links lead there, and the
package has its addresses; as long as there is none, links become words, pictures are left out and no address is given.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # read by the tests, which need no builder
    MetadataHookInterface = object

ROOT = Path(__file__).resolve().parent
PICTURE, LINK = r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)", r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)"


def readme_for(address: str, text: str) -> str:
    """README as an index can show it."""
    if address:
        text = re.sub(PICTURE, rf"![\1]({address}/raw/main/\2)", text)
        return re.sub(r"(\]\()(?!https?:|#)([^)\s]+\))", rf"\1{address}/blob/main/\2", text)
    text = re.sub(rf"\[{PICTURE}\]\([^)]*\)|{PICTURE}", "", text)
    return re.sub(LINK, r"\1", text)


def urls_for(address: str) -> dict[str, str]:
    """The addresses of the project, or none."""
    if not address:
        return {}
    pages = {"Documentation": "/tree/main/docs", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
    return {"Source": address, **{name: address + page for name, page in pages.items()}}


class Links(MetadataHookInterface):  # type: ignore[misc]
    """Asked by the builder."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the fields that pyproject.toml calls dynamic."""
        address = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["borrow"]["address"]
        text = readme_for(address, (ROOT / "README.md").read_text("utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls_for(address)
