"""Hostile files for every reader of data and settings, and what a reader may do with them."""

import io
import json
import os
import pickle
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy_format
from PIL import Image

from isopix.codecs.palette_file import read_palette
from isopix.data.dataset import DataConfig, load_dataset
from isopix.recipes import registry
from tests.peak_memory import peak_memory
from tests.reliability.hostile_shards import arrow, shard_payloads, valid_tar

MEMORY = 100 * 2**20  # bytes, besides twice those of the file
SECONDS = 10.0
RANGE = (-1.0, 1.0)  # of the values of the palettes
PIXELS = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(12) % 3

Readers = Mapping[str, Callable[[Path], object]]


class Payload:
    """What a pickle would run."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.canary}",)


def readers(cache: Path) -> Readers:
    """Return the reader of each kind of file, by the name of a valid file of it."""

    def data(path: Path) -> object:
        return load_dataset(DataConfig(source=str(path), rows=8, cols=8, holdout=0.0), cache=cache)

    def folder(path: Path) -> object:
        return data(path.parent)

    def settings(path: Path) -> object:
        return registry.resolve("igpt.tiny", file=path)

    images = dict.fromkeys(("a.png", "a.jpg", "a.gif", "a.bmp", "a.webp", "a.tiff"), folder)
    shards = {"set.tar": data, "set.arrow": data}
    texts = dict.fromkeys(("settings.yaml", "settings.json", "settings.toml"), settings)
    palettes = dict.fromkeys(("kmeans_centers.npy", "palette.npz"), partial(read_palette, value_range=RANGE))
    return {"set.npz": data, "x_trX.npy": data, "set.parquet": data, **shards, **palettes, **images, **texts}


def write_valid(folder: Path) -> None:
    """Write a valid file of every kind, each in a folder of its name with the files that it needs."""
    for name, content in _valid().items():
        (folder / name).mkdir()
        (folder / name / name).write_bytes(content)
    np.save(folder / "x_trX.npy" / "kmeans_centers.npy", np.zeros((4, 3)))


def _valid() -> dict[str, bytes]:
    files = {f"a.{kind}": valid_image(kind) for kind in ("png", "jpg", "gif", "bmp", "webp", "tiff")}
    files["set.npz"] = npz(x_train=PIXELS, y_train=LABELS, class_names=np.array(["a", "b", "c"]))
    files["x_trX.npy"] = _npy(LABELS[:, None].repeat(64, 1))
    files["kmeans_centers.npy"] = _npy(np.linspace(-1, 1, 12).reshape(4, 3))
    files["palette.npz"] = npz(np.linspace(-1, 1, 12).reshape(4, 3))
    files["set.parquet"] = parquet(
        b'{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["a"]}}}}'
    )
    files["set.tar"] = valid_tar()
    files["set.arrow"] = arrow()
    files["settings.yaml"] = b"model:\n  depth: 2\ntrain: {steps: 10, optimizer.lr: 1e-3}\n"
    files["settings.json"] = b'{"model": {"depth": 2}, "train": {"steps": 10}}'
    files["settings.toml"] = b"depth = 2\n[train]\nsteps = 10\n"
    return files


def valid_image(kind: str) -> bytes:
    """Return the content of a small picture."""
    buffer = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(buffer, "JPEG" if kind == "jpg" else kind.upper())
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(*arrays: Any, compressed: bool = False, **named: Any) -> bytes:
    """Return the content of an .npz file."""
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, *arrays, **named)
    return buffer.getvalue()


def parquet(metadata: bytes = b"{}", images: Any = None, labels: Any = None, **options: Any) -> bytes:
    """Return the content of a Parquet file in the Hugging Face layout."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": valid_image("png"), "path": None}] * 12 if images is None else images
    image = rows if isinstance(rows, pa.Array) else pa.array(rows, kind)
    label = pa.array([0] * len(image) if labels is None else labels)
    table = pa.table({"img": image, "label": label}).replace_schema_metadata({b"huggingface": metadata})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **{"store_schema": False, **options})
    return buffer.getvalue()


def archive(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def _header(shape: tuple[int, ...], descr: Any = "|u1", content: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    npy_format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + content


def _pickles(canary: Path) -> Iterator[bytes]:
    payload = Payload(canary)
    for protocol in range(6):
        yield pickle.dumps(payload, protocol)
    yield f"cos\nsystem\n(S'touch {canary}'\ntR.".encode()
    for objects in (np.array([payload], object), np.array([[payload] * 64] * 4, object)):
        yield _npy(objects)
    yield npz(x_train=np.array([payload], object))
    yield npz(x_train=PIXELS, y_train=np.array([payload] * 12, object))
    yield npz(x_train=PIXELS, y_train=LABELS, class_names=np.array([payload] * 3, object))
    yield npz(colors=np.array([payload], object), range=np.zeros(2), source="x", fingerprint="x")
    yield archive({"archive/data.pkl": pickle.dumps(payload), "archive/version": b"3"})
    yield archive({"x_train.npy": pickle.dumps(payload), "arr_0.npy": pickle.dumps(payload)})
    yield archive({"x_train": pickle.dumps(payload)})


def _texts(canary: Path) -> Iterator[str]:
    command = f"touch {canary}"
    yield f'!!python/object/apply:os.system ["{command}"]'
    yield f'a: !!python/object/new:os.system ["{command}"]'
    yield f'a: !!python/name:os.system\nb: !<tag:yaml.org,2002:python/object/apply:os.system> ["{command}"]'
    names = "abcdefghi"
    inner = {name: ", ".join([f"*{name}"] * 9) for name in names}
    nested = [f"{one}: &{one} [{inner[other]}]" for other, one in pairwise(names)]
    yield "\n".join(["a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]", *nested])
    yield "a: &a\n  b: *a"
    yield "a: " + "[" * 10**5
    yield "a: " + "{a: " * 400 + "1" + "}" * 400
    yield json.dumps({"a": 1})[:-1] + ', "b": ' + "[" * 10**5
    yield '{"model": ' * 300 + "1" + "}" * 300
    yield "a = " + "[" * 10**5
    yield "a." * 10**4 + "a = 1"
    yield '{"model": {"depth": 1e999}, "train": {"steps": NaN}}'
    yield '{"depth": ' + "9" * 5000 + "}"
    yield "depth: " + "9" * 5000
    yield "depth = " + "9" * 5000
    yield '{"depth": "' + "x" * 10**6 + '"}'
    yield "depth: " + "x" * 10**6
    yield "\x00\x1b[2J: 1"
    yield '{"model": [], "train": 5, "data": null, "objective": true}'
    yield "? [a, b]\n: 1\n? {c: d}\n: 2"
    yield "1: 2\nnull: 3\ntrue: 4"


def _arrays() -> Iterator[bytes]:
    yield _header((2**62, 8, 8))
    yield _header((2**31, 2**31, 2**31))
    yield _header((-1, 8, 8), content=bytes(64))
    yield _header((2**40,), "<i8")
    yield _header((4, 3), [("f", "|O")])
    yield _header((4,), "|V0")
    yield archive({"x_train.npy": _header((2**50, 8, 8))})
    yield archive({"x_train.npy": _header((1, 2**20, 2**20))})
    yield archive({"x_train.npy": _header((10**9, 0, 8))})
    yield archive({"x_train.npy": _header((200, 1000, 1000), content=bytes(200 * 10**6)), "y_train.npy": b""})
    yield npz(x_train=PIXELS, y_train=LABELS + 2**31)
    yield npz(x_train=PIXELS, y_train=LABELS.astype(np.uint64) + np.uint64(2**63))
    yield npz(x_train=PIXELS, y_train=LABELS - 2**40)
    yield npz(x_train=PIXELS, y_train=LABELS, class_names=np.zeros(200, "<U1000000"), compressed=True)
    yield npz(x_train=PIXELS, y_train=np.zeros(10**8, np.int64), compressed=True)
    yield npz(np.zeros((10**7, 3)), compressed=True)
    yield npz(x_train=np.zeros((0, 8, 8), np.uint8))
    yield npz(x_train=np.zeros((1, 20_000, 20_000), np.uint8), compressed=True)
    yield npz(x_train=np.zeros((80, 1000, 1000), np.uint8), compressed=True)  # 76 MiB
    yield npz(x_train=np.zeros((3, 8, 8), "datetime64[s]"))
    inner = archive({"x_train.npy": bytes(10**8)})
    yield archive({"x_train.npy": inner, "arr_0.npy": inner, "a.zip": inner})
    yield archive({f"{i}.npy": b"" for i in range(30_000)}, zipfile.ZIP_STORED)


def _tables() -> Iterator[bytes]:
    for names in (b"5", b'"abc"', b"[1, 2]", b'{"a": {}}', b"[[[]]]", b"true"):
        feature = b'{"_type": "ClassLabel", "names": ' + names + b"}"
        yield parquet(b'{"info": {"features": {"label": ' + feature + b"}}}")
    for text in (
        b"[]",
        b"5",
        b"{",
        b'{"info": []}',
        b'{"info": {"features": {"label": 3}}}',
        b"[" * 10**5,
        b"\xff",
    ):
        yield parquet(text)
    yield parquet(labels=[2**40 + i for i in range(12)])
    yield parquet(labels=pa.array([2**64 - 1] * 12, pa.uint64()))
    yield parquet(labels=[None, *range(11)])
    yield parquet(images=pa.array([{"bytes": i} for i in range(12)]))
    yield parquet(images=pa.StructArray.from_arrays([pa.array([[b"x"]] * 12)], ["bytes"]))
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 10**6, pa.int32()), pa.array([b"x"]))
    yield parquet(images=pa.StructArray.from_arrays([values], ["bytes"]))
    large = pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), pa.array([b"x" * (90 * 2**20)]))
    options = {"compression": "zstd", "dictionary_pagesize_limit": 2**30}
    many = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), pa.array([b"x" * (20 * 2**20)]))
    yield parquet(images=pa.StructArray.from_arrays([many], ["bytes"]), **options)
    yield parquet(images=pa.StructArray.from_arrays([large], ["bytes"]), **options)


def payloads(canary: Path) -> list[bytes]:
    """Return hostile contents of files, of which each reader is given all."""
    texts = (text.encode("utf-8", "surrogatepass") for text in _texts(canary))
    return [*_pickles(canary), *texts, *_arrays(), *_tables(), *shard_payloads()]


def mutated(content: bytes, draw: np.random.Generator) -> bytes:
    """Return the content with some bytes changed, removed, inserted, repeated or cut off."""
    data = content
    for _ in range(int(draw.integers(1, 4))):
        place, other = (int(each) for each in draw.integers(0, len(data) + 1, 2))
        length = int(draw.integers(1, 9))
        new = draw.integers(0, 256, length, dtype=np.uint8).tobytes()
        extreme = bytes([int(draw.choice([0, 0x7F, 0x80, 0xFF]))]) * length
        before, after = data[:place], data[place:]
        changes = (
            before + new + after[length:],
            before + extreme + after[length:],
            before + after[length:],
            before + new + after,
            before + data[other : other + 8 * length] + after,
            before,
        )
        data = changes[int(draw.integers(len(changes)))]
    return data


def problem(reader: Callable[[Path], object], path: Path) -> str:
    """Return what is wrong with how a file is read; empty if it is read or refused in one line, in time and
    within memory.
    """
    start, message = time.monotonic(), ""
    with peak_memory() as peak:
        try:
            reader(path)
        except (ValueError, OSError) as error:
            message = f"{len(str(error).splitlines())} lines" if len(str(error).splitlines()) > 1 else ""
            message = message or ("message of 2,000 characters or more" if len(str(error)) >= 2000 else "")
        except Exception as error:
            message = f"{type(error).__name__}: {error}"[:200]
        if peak() > 2 * path.stat().st_size + MEMORY:
            message += f" {peak():,} bytes"
    seconds = time.monotonic() - start
    return message + (f" {seconds:.1f} s" if seconds > SECONDS else "")
