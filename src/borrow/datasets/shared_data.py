"""Loaders of public data that are not part of this package: a folder beside the checkout, or `$BORROW_DATA`."""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from borrow.data.cells import Codes
from borrow.numerics.linalg import Array

Text = npt.NDArray[np.str_]
#: By folder: what is not here, what its files hold, and where the public copy is described.
DESCRIPTIONS = {
    "air_quality": "The air quality data are not here. The file is a table of 9,357 hours (date, time, five analysers, "
    "five sensors, weather; -200 is missing), De Vito et al. 2008, described at "
    "https://archive.ics.uci.edu/dataset/360/air+quality.",
    "computers": "The ratings of computers are not here. The file is a table of 3,800 ratings (person, 13 attributes, "
    "rating), described in Lenk, DeSarbo, Green & Young, Marketing Science 15, 1996.",
    "landmine": "The landmine data are not here. The file is a table of 14,820 rows (x0 to x8, field, y), described in "
    "Xue, Liao, Carin & Krishnapuram, Journal of Machine Learning Research 8, 2007.",
    "compiler": "The PolyBench times are not here. The files are tables of 30 programs by 128 settings and of 99 "
    "counters, described in Cereda et al., arXiv 2005.04092 (repository stefanocereda/polybench_data).",
    "config_perf": "The SPEAR times are not here. The file is a table of 16384 settings, 14 options and 10 times, "
    "described in Jamshidi et al., ASE 2017 (repository pooyanjamshidi/ase17).",
    "eeg_smni": "The EEG trials are not here. The file is a table of 924 trials (subject, condition, uci_split, 30 "
    "principal components) made from the SMNI_CMI part of the UCI EEG Database, described at "
    "https://archive.ics.uci.edu/dataset/121/eeg+database.",
    "jura": "The Jura data are not here. The file is a table of 359 places and 7 metals (Goovaerts 1997), as in the R "
    "package gstat.",
    "rcv1": "The RCV1 documents are not here. The file holds 10,000 documents by 47,236 terms (log TF-IDF, unit "
    "length) and 81 topics, made from the RCV1-v2 vectors of Lewis et al. 2004, described at "
    "https://www.jmlr.org/papers/v5/lewis04a.html.",
    "school": "The school data are not here. The two files are tables of 15362 students, as integer codes and as 27 "
    "inputs, made from the 'School effectiveness' data of the Centre for Multilevel Modelling, described at "
    "https://www.bristol.ac.uk/cmm/.",
    "vowel": "The vowel frames are not here. The file is a table of 990 rows (speaker, frame, vowel, vowel_word, x0 to "
    "x9) made from vowel-context.data of the UCI set 'Connectionist Bench (Vowel Recognition - Deterding Data)', "
    "described at https://archive.ics.uci.edu/dataset/152/connectionist+bench+vowel+recognition+deterding+data.",
}


@dataclass(frozen=True)
class Trials:
    """One row per trial: inputs, who, which stimulus, and whether it comes from the early half of the recording."""

    X: Array
    subject: Text
    group: Text  # 'a' alcoholic, 'c' control
    condition: Text  # 'S1_obj', 'S2_match', 'S2_nomatch'
    early: npt.NDArray[np.bool_]
    names: tuple[str, ...]  # of the columns of X


@dataclass(frozen=True)
class School:
    """One row per student: inputs, raw codes, school, which distinct row of school features, and the exam score."""

    X: Array  # (15362, 27): 19 dummies of the student, then 8 features of the school (two of them percentages)
    student: Codes  # (15362, 4): codes of year, gender, vr_band, ethnic
    school: Codes  # 1 to 139
    descriptor: Codes  # 0 to 287: which distinct row of school features
    score: Array
    names: tuple[str, ...]  # of the columns of X


@dataclass(frozen=True)
class Topics:
    """Documents in rows (CSR, rows of unit length), and which topics each has."""

    X: Any  # (10000, 47236)
    member: Any  # (10000, 81) bool
    names: tuple[str, ...]


@dataclass(frozen=True)
class Vowels:
    """One row per frame: ten log area ratios, who spoke, which of the six frames, which vowel."""

    X: Array  # (990, 10)
    speaker: Codes  # 0 to 14
    frame: Codes  # 0 to 5 within a speaker and a vowel
    vowel: Codes  # 0 to 10
    word: Text  # 'hid', ...


@dataclass(frozen=True)
class Responses:
    """Settings by tasks: `Y[i, t]` is the response of task t at `X[i]`."""

    X: Array
    Y: Array
    tasks: tuple[str, ...]
    columns: tuple[str, ...]
    features: Array | None = None  # (M, p), what describes a task


@dataclass(frozen=True)
class Jura:
    """Metals in the soil at 359 places; `validation` marks the 100 places that the literature keeps for testing."""

    X: Array  # (359, 2), kilometres
    metals: dict[str, Array]
    validation: npt.NDArray[np.bool_]


def find_shared(name: str, what: str | None = None) -> Path:
    """Path of `name` under `$BORROW_DATA`, or under ../shared/data beside the checkout; an error says what it is."""
    places = [Path(os.environ["BORROW_DATA"])] if os.environ.get("BORROW_DATA") else []
    places += [parent / "shared" / "data" for parent in Path(__file__).resolve().parents[3:5]]
    for place in places:
        if (place / name).is_file():
            return place / name
    looked = ", ".join(str(p / name) for p in places)
    what = what or DESCRIPTIONS[name.partition("/")[0]]
    raise FileNotFoundError(f"{what} Looked for {looked}; set BORROW_DATA to the folder that holds {name}.")


def read_columns(name: str) -> dict[str, Text]:
    """The columns of a table, compressed or not, as they are written."""
    path = find_shared(name)
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
        head, *rows = csv.reader(file)
    return {name: np.array(column) for name, column in zip(head, zip(*rows, strict=True), strict=True)}


def numbers(table: dict[str, Text], names: tuple[str, ...]) -> Array:
    """These columns as a matrix of floats."""
    return np.column_stack([table[n].astype(float) for n in names])


def load_eeg() -> Trials:
    """EEG of 16 subjects looking at pictures, 924 trials, as 30 principal components (fitted without labels).

    A stand-in for the fMRI recordings of Leen et al. (2011), which were never published. The data are the SMNI_CMI part
    of the UCI EEG Database (H. Begleiter; CC BY 4.0): mean voltages of 61 electrodes in five time windows, reduced by
    PCA on all trials of all subjects.
    """
    table = read_columns("eeg_smni/eeg_smni_pc30.csv")
    names = tuple(n for n in table if n.startswith("pc"))
    early = table["uci_split"] == "train"
    return Trials(numbers(table, names), table["subject"], table["group"], table["condition"], early, names)


def load_school() -> School:
    """Exam scores of 15362 students of 139 London schools, 1985 to 1987, with 27 inputs as in Bakker & Heskes (2003).

    Public teaching data of the Inner London Education Authority ("School effectiveness", Centre for Multilevel
    Modelling, Bristol). Categories are dummies; the two percentages (free school meals, students in VR band 1) are
    columns 19 and 20. The 15 students whose VR band was not recorded have zeros in its three dummies.
    """
    raw, table = read_columns("school/school_raw.csv.gz"), read_columns("school/school_dummy27.csv.gz")
    names = tuple(table)[1:28]
    X, codes = numbers(table, names), numbers(raw, ("school", "year", "gender", "vr_band", "ethnic")).astype(np.intp)
    descriptor = np.unique(X[:, 19:], axis=0, return_inverse=True)[1].reshape(-1)
    return School(X, codes[:, 1:], codes[:, 0], descriptor, raw["score"].astype(float), names)


def load_rcv1() -> Topics:
    """A selection like that of Yu et al. (2005): 10,000 documents, 81 topics of more than 50 documents each.

    The vectors are those of Lewis, Yang, Rose & Li (JMLR 5, 2004), from a public copy whose label columns were
    repaired; the selection is not the authors', which was never published.
    """
    with np.load(find_shared("rcv1/rcv1_10k_yu_like.npz"), allow_pickle=False) as z:
        parts = (z["data"].astype(np.float64), z["indices"].astype(np.int32), z["indptr"])
        X = sparse.csr_array(parts, shape=tuple(z["shape"]))
        member = np.unpackbits(z["Y_packed"], axis=1)[:, : z["Y_shape"][1]].astype(bool)
        return Topics(X, member, tuple(str(t) for t in z["topics"]))


def load_vowel() -> Vowels:
    """Deterding's vowels as in Lawrence & Platt (2004), section 5.2: 15 speakers, 11 vowels, 6 frames of each."""
    table = read_columns("vowel/vowel.csv")
    speaker, frame, vowel = (table[n].astype(np.intp) for n in ("speaker", "frame", "vowel"))
    return Vowels(numbers(table, tuple(f"x{j}" for j in range(10))), speaker, frame, vowel, table["vowel_word"])


def load_spear() -> Responses:
    """Solving time in seconds of the SPEAR SAT solver in ten environments, all 2^14 settings of 14 options.

    Jamshidi et al., Transfer learning for performance modeling of configurable systems, ASE 2017. Times are cut at
    about 5 s.
    """
    table = read_columns("config_perf/spear.csv.gz")
    options, times = tuple(table)[:14], tuple(table)[14:]
    tasks = tuple(name.removeprefix("solving_time_") for name in times)
    return Responses(numbers(table, options), numbers(table, times), tasks, options)


def load_polybench() -> Responses:
    """Speed-up of 30 PolyBench programs under all 128 settings of seven gcc flags, against no flag given.

    Times of the standard input size, Cereda et al., arXiv 2005.04092. Features: the first eight principal components of
    the logarithms of 99 counters of the running program (MICA), standardised.
    """
    table = read_columns("compiler/polybench_gcc_30prog.csv.gz")
    other = ("program", "path", "code_size")
    flags = tuple(c for c in table if c not in other and not c.startswith("time_"))
    settings, setting = np.unique(numbers(table, flags), axis=0, return_inverse=True)
    programs, program = np.unique(table["program"], return_inverse=True)
    seconds = np.empty((len(settings), len(programs)))
    seconds[setting.ravel(), program] = table["time_standard"].astype(float)
    counted = read_columns("compiler/polybench_mica_features.csv")
    run = np.flatnonzero(counted["dataset"] == "dataset3")
    run = run[np.argsort(counted["program"][run])]
    raw = numbers(counted, tuple(c for c in counted if c not in ("program", "dataset")))[run]
    logs = np.log1p(np.maximum(raw, 0.0))
    sd = logs.std(axis=0)
    Z = (logs[:, sd > 0] - logs[:, sd > 0].mean(axis=0)) / sd[sd > 0]
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    return Responses(settings, seconds[0] / seconds, tuple(programs.tolist()), flags, U[:, :8] * s[:8])


def load_jura() -> Jura:
    """Concentrations (ppm) of seven heavy metals in the Swiss Jura (Goovaerts 1997)."""
    table = read_columns("jura/jura.csv")
    metals = {m: table[m].astype(float) for m in ("Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn")}
    return Jura(numbers(table, ("x", "y")), metals, table["set"] == "validation")
