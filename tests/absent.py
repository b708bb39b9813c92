"""Code for a fresh Python in which packages are not installed, as far as anybody who imports them can tell."""


def without(*packages: str) -> str:
    """The first lines of such a program. A module that is None in `sys.modules` would be found there by some."""
    return (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(name, *_):\n"
        f"        if name.split('.')[0] in {packages!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hidden)\n"
    )
