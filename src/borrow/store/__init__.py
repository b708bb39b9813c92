"""Save and load without pickle: plain arrays and a JSON page in one file. Loading executes nothing that the file says.

`objects` turns an estimator or a kernel into a page and arrays, and back; `kinds` is the closed list of classes that a
page may name; `container` writes and reads the file, checked to the last byte before anything is built.
"""

from borrow.store.container import VERSION, StoreError, describe, load, save

__all__ = ["VERSION", "StoreError", "describe", "load", "save"]
