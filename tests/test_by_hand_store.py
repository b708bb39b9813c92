"""What is looked at before a stored model is built, one by one, and what is just right beside each that is not."""

import io
import json
import zipfile

import numpy as np
import pytest
from scipy import sparse

import borrow
from borrow.data.cells import Cells
from borrow.kernels import Linear
from borrow.numerics import memory
from borrow.store import StoreError, checks, container, describe, load, objects, save
from borrow.store.checks import PageError

# Arrays. --------------------------------------------------------------------------------------------------------------


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0))
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(["ab", "c"]),
     np.zeros((0, 4)), np.array([True, False]), np.array(3.5),
     np.array(["2020-01-01"], dtype="<M8[D]"), np.zeros(2, dtype="<U0")],
)  # fmt: skip
def test_arrays_come_back(array):
    data = npy(array)
    back = checks.read_array(data, len(data))
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype
    assert back.flags.f_contiguous == array.flags.f_contiguous


def test_arrays_are_as_long_as_they_say():
    data = npy(np.arange(4.0))
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(PageError, match="not as long as it says"):
            checks.read_array(wrong, 1000)
    many = npy(np.zeros((0, 100)))
    checks.read_array(many, 100)
    with pytest.raises(PageError, match="not as long as it says"):
        checks.read_array(many, 99)
    with pytest.raises(PageError, match="could carry code"):
        checks.read_array(npy(np.zeros(2, dtype=[("a", "<f8")])), 1000)
    later = io.BytesIO()
    np.lib.format.write_array(later, np.zeros(2), version=(2, 0))
    with pytest.raises(PageError, match=r"an array of format \(2, 0\)"):
        checks.read_array(later.getvalue(), 1000)


def test_truth_and_text_are_what_they_say():
    checks.check_text(np.array([0, 1], dtype=np.uint8).view(bool))
    with pytest.raises(PageError, match="neither true nor false"):
        checks.check_text(np.array([0, 2], dtype=np.uint8).view(bool))
    checks.check_text(np.array([0x10FFFF], dtype=np.uint32).view("<U1"))
    with pytest.raises(PageError, match="characters that do not exist"):
        checks.check_text(np.array([0x110000], dtype=np.uint32).view("<U1"))
    checks.check_text(np.zeros(0, dtype=bool))
    checks.check_text(np.zeros(0, dtype="<U3"))


# Sparse matrices. -----------------------------------------------------------------------------------------------------

GOOD = [np.array([1.0, 2.0, 3.0]), np.array([0, 2, 1]), np.array([0, 2, 3])]  # 2 x 3, by rows


def test_a_sparse_matrix_that_is_right():
    found = checks.read_sparse(sparse.csr_array, GOOD, (2, 3))
    np.testing.assert_array_equal(found.toarray(), [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    by_columns = checks.read_sparse(sparse.csc_array, GOOD, (3, 2))
    np.testing.assert_array_equal(by_columns.toarray(), found.toarray().T)
    empty = checks.read_sparse(sparse.csr_array, [np.zeros(0), np.zeros(0, dtype=int), np.zeros(3, dtype=int)], (2, 3))
    assert empty.shape == (2, 3)
    nothing = [np.zeros(0), np.zeros(0, dtype=int), np.zeros(1, dtype=int)]
    assert checks.read_sparse(sparse.csr_array, nothing, (0, 0)).nnz == 0


@pytest.mark.parametrize(
    ("part", "value"),
    [(0, [1.0, 2.0]), (1, [0, 2]), (1, [0, 3, 1]), (1, [0, -1, 1]), (1, [0.0, 2.0, 1.0]), (2, [0, 2]),
     (2, [0, 2, 2, 3]), (2, [1, 2, 3]), (2, [0, 4, 3]), (2, [0, 2, 4]), (2, [0, 3, 2]),
     (0, ["a", "b", "c"]), (2, [[0, 2, 3]])],
)  # fmt: skip
def test_every_index_of_a_sparse_matrix_is_looked_at(part, value):
    parts = [np.array(value) if i == part else a for i, a in enumerate(GOOD)]
    with pytest.raises(PageError, match="sparse matrix"):
        checks.read_sparse(sparse.csr_array, parts, (2, 3))


def test_sizes_of_a_sparse_matrix(monkeypatch):
    with pytest.raises(PageError, match="three rows of numbers"):
        checks.read_sparse(sparse.csr_array, GOOD, (2, -3))
    monkeypatch.setattr(memory, "available", lambda: 80.0)
    nothing = [np.zeros(0), np.zeros(0, dtype=int), np.zeros(3, dtype=int)]
    assert checks.read_sparse(sparse.csr_array, nothing, (2, 10)).shape == (2, 10)
    with pytest.raises(MemoryError, match="a sparse matrix needs about 88 bytes"):
        checks.read_sparse(sparse.csr_array, nothing, (2, 11))


# Keys, generators, fields. --------------------------------------------------------------------------------------------


class Held:
    """An object with attributes of its own."""


KEYS = {"a": True, 1.5: True, (1, ("b", None)): True}
NO_KEYS = [Held(), (1, Held()), [1], (1, [2])]


@pytest.mark.parametrize(("key", "fine"), [*KEYS.items(), *((key, False) for key in NO_KEYS)])
def test_keys_are_single_values_or_tuples_of_them(key, fine):
    if fine:
        checks.check_keys([key])
    else:
        with pytest.raises(PageError, match="neither a single value nor a tuple"):
            checks.check_keys(["a", key])


def test_keys_of_one_hash_are_refused_where_they_are_many():
    period = 2**61 - 1
    one_hash = [k * period for k in range(1, 1002)]
    assert len({hash(k) for k in one_hash}) == 1
    with pytest.raises(PageError, match="one hash"):
        checks.check_keys(one_hash)
    checks.check_keys(one_hash[:1000])
    checks.check_keys(list(range(1001)))
    checks.check_keys([*range(50), *one_hash[:951]])  # a twentieth of them apart is enough


@pytest.mark.parametrize("pos", [0, 624])
def test_generators_stand_within_their_state(pos):
    checks.check_state({"state": {"pos": pos}, "buffer_pos": 4})
    checks.check_state({"state": {}, "buffer_pos": 0})
    for wrong in ({"state": {"pos": 625}}, {"state": {"pos": -1}}, {"state": {"pos": 1.0}}, {"state": {"pos": True}},
                  {"state": {}, "buffer_pos": 5}, {"state": {}, "buffer_pos": -1}):  # fmt: skip
        with pytest.raises(PageError, match="outside its own state"):
            checks.check_state(wrong)


def check(size=10, kind=Cells, **state):
    checks.check_fields(kind, state, size)


def test_fields_of_a_model_stay_within_the_file():
    check(starts=np.array([0, 2, 2, 9]), y=np.zeros(3), labels=("a", 1), n_tasks=10, n_features=2**31)
    check(codes=np.array([-10, 10]))
    check(codes=np.zeros(0, dtype=int))
    said = "points beyond the file|more than the file can hold|not where it says|neither a single value|of the name"
    for wrong in (
        {"starts": np.array([1, 2])}, {"starts": np.array([0, 3, 2])}, {"starts": np.array([[0, 1]])},
        {"starts": np.array([0.0, 1.0])}, {"starts": None}, {"starts": np.zeros(0, dtype=int)},
        {"starts": np.array([0, 11])},
        {"codes": np.array([0, 11])}, {"codes": np.array([-11, 0])}, {"n_tasks": 11}, {"n_tasks": -1}, {"M": 11},
        {"n_features": 2**31 + 1}, {"labels": [Held()]}, {"names": ([1],)}, {"others": [Held()]}, {"__array__": 1},
        {"not a name": 1},
    ):  # fmt: skip
        with pytest.raises(PageError, match=said):
            check(**wrong)
    checks.check_fields(borrow.PooledGPRegressor, {"n_tasks": 99, "labels": [Held()]}, 10)  # settings are the user's
    with pytest.raises(PageError, match="a field of the name '__array__'"):
        checks.check_fields(borrow.PooledGPRegressor, {"__array__": 99}, 10)


# Objects. -------------------------------------------------------------------------------------------------------------


def decode(*entries, root=None, arrays=(), size=10):
    return objects.decode({"entries": list(entries), "root": {"at": len(entries) - 1} if root is None else root},
                          list(arrays), size)  # fmt: skip


def test_objects_may_be_nested_a_hundred_deep_and_no_deeper():
    def nested(n):
        return [{"list": []}, *({"list": [{"at": k}]} for k in range(n - 1))]

    found = decode(*nested(99))  # and where it is used, as the root, one more
    for _ in range(98):
        (found,) = found
    assert found == []
    with pytest.raises(PageError, match="nested deeper"):
        decode(*nested(100))


def test_what_a_page_unfolds_to_is_bounded():
    """Twenty lists of two of the one before are a million values; files of their size may hold them."""
    doubled = [{"list": [1]}, *({"list": [{"at": k}, {"at": k}]} for k in range(19))]
    with pytest.raises(PageError, match="repeated more often"):
        decode(*doubled)
    assert len(decode(*doubled, size=10**7)) == 2
    assert len(decode(*doubled[:13])) == 2


VALUES = [np.float32(1.5), np.int64(-3), np.bool_(True), np.str_("ab"), np.datetime64("2020-01-02"), b"\x00a",
          float("nan"), (1, (2.5, None)), {"a": [1], 2: ()}, slice(1, None, 2)]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_values_come_back_with_their_kind(value):
    page, arrays = objects.encode([value])
    (back,) = objects.decode(json.loads(json.dumps(page)), arrays, 1000)
    assert type(back) is type(value)
    assert back == value or (back != back and value != value)


def test_sparse_matrices_are_written_by_their_class():
    for kind in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix):
        page, arrays = objects.encode(kind(np.eye(2)))
        assert page["entries"][-1]["sparse"] == kind.__name__
        assert type(objects.decode(page, arrays, 1000)) is kind

    class Own(sparse.csr_array):
        """A class of somebody else's."""

    Own.__name__ = "csr_array"
    with pytest.raises(TypeError, match="cannot be saved"):
        objects.encode(Own(np.eye(2)))
    with pytest.raises(TypeError, match=r"an array of .* cannot be saved"):
        objects.encode(np.zeros(2, dtype=[("a", "<f8")]))
    with pytest.raises(TypeError, match="it is a function"):
        objects.encode(len)


def test_a_setting_that_is_newer_than_the_file_has_its_default():
    page, arrays = objects.encode(borrow.PooledGPRegressor(max_iter=7))
    entry = next(e for e in page["entries"] if e.get("class", "").endswith("PooledGPRegressor"))
    assert objects.decode(page, arrays, 1000).max_iter == 7
    del entry["fields"]["max_iter"]
    assert objects.decode(page, arrays, 1000).max_iter == borrow.PooledGPRegressor().max_iter


def test_fields_that_are_missing_and_have_no_default_are_named():
    page, arrays = objects.encode(Linear(1.0) + Linear(2.0))
    entry = next(e for e in page["entries"] if "parts" in e.get("fields", {}))
    del entry["fields"]["parts"]
    with pytest.raises(PageError, match=r"the fields \['parts'\] of Sum do not agree"):
        objects.decode(page, arrays, 1000)


# Files. ---------------------------------------------------------------------------------------------------------------


def test_about_may_not_take_names_that_the_file_says_itself(tmp_path):
    for name in ("class", "format_version", "arrays", "bytes"):
        with pytest.raises(ValueError, match=f"about names '{name}', which the file says by itself"):
            save(Linear(1.0), tmp_path / "m", about={name: 1})
    save(Linear(1.0), tmp_path / "m", about={"note": "mine"})
    told = describe(tmp_path / "m")
    assert (told["note"], told["bytes"], told["format_version"]) == (
        "mine",
        (tmp_path / "m").stat().st_size,
        container.VERSION,
    )


def test_only_a_file_that_begins_as_ours_is_read(tmp_path):
    place = tmp_path / "m"
    save(Linear(2.0), place)
    data = place.read_bytes()
    assert load(place) == Linear(2.0)
    for at in (0, 3, 30, 38):
        place.write_bytes(data[:at] + b"?" + data[at + 1 :])
        with pytest.raises(StoreError, match="not a file that borrow wrote, or it is damaged"):
            load(place)


def signed(members, comment=b""):
    """An archive with these members, signed as ours."""
    import hashlib

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data, how in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=how)
        archive.comment = b"0" * container.DIGEST
    whole = out.getvalue()[: -container.DIGEST]
    return whole + hashlib.sha256(whole).hexdigest().encode()


def test_members_are_those_that_borrow_writes_and_none_is_packed(tmp_path):
    place = tmp_path / "m"
    save(Linear(2.0), place)
    page = zipfile.ZipFile(place).read("page.json")
    plain, packed = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    place.write_bytes(signed([("page.json", page, plain)]))
    assert load(place) == Linear(2.0)
    array = npy(np.zeros(100))
    for members in (
        [("page.json", page, plain), ("1.npy", array, plain)],
        [("page.json", page, plain), ("0.npy", array, packed)],
        [("page.json", page, packed)],
        [("page.json", page, plain), ("0.npy", array, plain), ("more", b"", plain)],
    ):
        place.write_bytes(signed(members))
        with pytest.raises(StoreError, match="its members are not those of one"):
            load(place)


def test_a_page_of_many_marks_asks_for_memory_first(monkeypatch, tmp_path):
    """Braces take 232 bytes each when they are unfolded: more than the file and 16 MiB are asked for, twice over."""
    asked = []
    monkeypatch.setattr(container, "_ask", lambda n_bytes, path: asked.append(n_bytes))
    text = b"[" + b",".join([b"{}"] * 70000) + b"]"
    container._page(text, len(text), "it")
    unfolded = 232 * 70000 + 88 + 40 * 69999
    assert unfolded > 2**24
    assert asked == [2 * len(text) + 2 * unfolded]
    asked.clear()
    container._page(b"[" + b",".join([b"{}"] * 60000) + b"]", len(text), "it")
    assert asked == []  # 232 * 60,000 + 40 * 59,999 is below 2^24
    text = b"[" + b",".join([b'{"a":[]}'] * 50000) + b"]"
    container._page(text, len(text), "it")
    assert asked == [2 * len(text) + 2 * (50000 * (232 + 2 * 40 + 40 + 88) + 88 + 40 * 49999)]
