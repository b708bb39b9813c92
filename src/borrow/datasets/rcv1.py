"""RCV1-v2 topics: 10,000 news documents as sparse TF-IDF vectors, 81 topics, several a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from borrow.datasets.shared_data import find_shared


@dataclass(frozen=True)
class Topics:
    """Documents in rows (CSR, rows of unit length), and which topics each has."""

    X: Any  # (10000, 47236)
    member: Any  # (10000, 81) bool
    names: tuple[str, ...]


def load_rcv1() -> Topics:
    """A selection like that of Yu et al. (2005): 10,000 documents, 81 topics of more than 50 documents each.

    The vectors are those of Lewis, Yang, Rose & Li (JMLR 5, 2004), from a public copy whose label columns were
    repaired; the selection is not the authors', which was never published.
    """
    path = find_shared(
        "rcv1/rcv1_10k_yu_like.npz",
        "The RCV1 documents are not here. The file holds 10,000 documents by 47,236 terms (log TF-IDF, unit length) "
        "and 81 topics, made from the RCV1-v2 vectors of Lewis et al. 2004, described at "
        "https://www.jmlr.org/papers/v5/lewis04a.html.",
    )
    with np.load(path, allow_pickle=False) as z:
        parts = (z["data"].astype(np.float64), z["indices"].astype(np.int32), z["indptr"])
        X = sparse.csr_array(parts, shape=tuple(z["shape"]))
        _, k = z["Y_shape"]
        member = np.unpackbits(z["Y_packed"], axis=1)[:, :k].astype(bool)
        return Topics(X, member, tuple(str(t) for t in z["topics"]))
