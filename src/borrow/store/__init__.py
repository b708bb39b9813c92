"""Save and load without pickle: plain arrays and a JSON page in one file. Loading executes nothing that the file says.

`objects` turns an estimator or a kernel into a page and arrays, and back. Which classes a page may name, and what the
state of each is, they declare themselves, and the registry (`borrow.estimators.registry`) knows. `container` writes and
reads the file, checked to the last byte before anything is built.
"""

from borrow.store.container import VERSION, StoreError, describe, load, save

__all__ = ["VERSION", "StoreError", "describe", "load", "save"]
