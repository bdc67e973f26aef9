"""Import OpenAI's Image GPT checkpoints, of TensorFlow's format version 2, without TensorFlow.

`PREFIX.index` is a sorted string table (LevelDB): blocks of entries whose keys share prefixes, each followed
by its compression type and a masked CRC-32C, a block that lists the others, and a footer of 48 bytes. The
empty key holds a header; every other key is the name of a tensor, whose value is a protocol buffer with its
place in one of the files `PREFIX.data-XXXXX-of-YYYYY`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import torch
from jaxtyping import Float
from torch import Tensor

from isopix.codecs.palette import Palette
from isopix.core import text
from isopix.core.files import open_file, read_regular
from isopix.interop.imported_model import ImportedModel, convert_tensors, igpt_recipe, shape_of, square_of
from isopix.interop.name_tables import OPENAI_START, Naming, expand_layers, openai_table
from isopix.interop.weights import WeightFiles
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked

# Variables that are not part of the model: a pattern of one component of the name, and the reason.
SKIPPED = (
    (r"(.*/)?clf(/.*)?", "classifier head"),
    (
        r"(.*/)?(adam_[mv]|Adam(_\d+)?|AdamWeightDecayOptimizer(_\d+)?|beta[12]_power(_\d+)?)(/.*)?",
        "optimizer state",
    ),
    (r"(.*/)?(global_step|_step)(/.*)?", "step counter"),
)
LAYER = re.compile(r"h(\d+)/")
STEP = re.compile(r"-(\d{1,12})$")


def read_checkpoint(prefix: Path, colors: Float[Tensor, "K 3"] | None) -> ImportedModel:
    """Import the model of a checkpoint, given by its prefix, its `.index` file or its folder.

    It is autoregressive if it has a start token. `colors` is its palette, levels of 0..255. Sizes are
    inferred from the shapes; images are square.
    """
    prefix = find_prefix(prefix)
    if colors is None:
        raise ValueError("palette is missing: OpenAI's kmeans_centers.npy, or a palette file")
    stored, naming = open_checkpoint(prefix), Naming("OpenAI", "model/", SKIPPED)
    shapes = {name.removeprefix(naming.prefix): shape for name, shape in stored.shapes.items()}
    count, width = shape_of(shapes, "wte", 2)
    positions, _ = shape_of(shapes, "wpe", 2)
    heads, *_ = shape_of(shapes, "h0/attn/q_proj", 3)
    layers = [LAYER.match(name) for name in shapes if not naming.skip_reason(name)]
    depth = len({match[1] for match in layers if match})
    if count != len(colors):
        raise ValueError(f"it has {count} colors; the palette has {len(colors)}")
    causal = "sos" in shapes
    grid = square_of(positions)
    objective = Autoregressive() if causal else Masked()
    recipe = igpt_recipe(depth, width, grid, TransformerSpec(heads=heads), objective, count)
    table = (*openai_table(heads), *([OPENAI_START] if causal else []))
    mappings = tuple(expand_layers(table, depth))
    tensors, skipped = convert_tensors(stored, naming, mappings, recipe.outline().tensors())
    step = STEP.search(prefix.name)
    return ImportedModel(
        origin=f"OpenAI {prefix.name}",
        recipe=recipe,
        codec=Palette(colors, grid),
        step=int(step[1]) if step else 0,
        tensors=tensors,
        skipped=skipped,
    )


MAGIC, FOOTER = 0xDB4775248B80FB57, 48
CHUNK = 2**22  # bytes read and checked at a time
FLOAT32 = 1  # the number of TensorFlow


class TensorEntry(NamedTuple):
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int  # bytes from the start of the shard
    crc: int  # masked CRC-32C of the bytes


def open_checkpoint(prefix: Path) -> WeightFiles:
    """Open the checkpoint of a prefix. Raises ValueError for a damaged index; `read` for a damaged tensor."""
    index = index_path(prefix)
    with text.naming(f"checkpoint index {index}"):
        items = dict(_table(read_regular(index)))
        header = _message(items.pop(b""))
        if _int(header, 2):
            raise ValueError("it is big-endian, which is not supported")
        entries = {name.decode(): _entry(_message(value)) for name, value in items.items()}

    def read(name: str) -> Tensor:
        entry = entries[name]
        path = prefix.with_name(f"{prefix.name}.data-{entry.shard:05d}-of-{_int(header, 1):05d}")
        return _read(f"checkpoint shard {path}: tensor {name!r}", path, entry)

    return WeightFiles({name: entry.shape for name, entry in entries.items()}, read)


def _read(what: str, path: Path, entry: TensorEntry) -> Tensor:
    if entry.dtype != FLOAT32:
        raise ValueError(f"{what} has TensorFlow's type {entry.dtype}, which is not supported")
    tensor, crc = torch.empty(entry.shape), 0
    memory = tensor.view(-1).view(torch.uint8).numpy().data
    with open_file(path) as file:
        file.seek(entry.offset)
        for start in range(0, tensor.nbytes, CHUNK):
            chunk = memory[start : start + CHUNK]
            crc = google_crc32c.extend(crc, bytes(chunk[: file.readinto(chunk)]))
    if mask_crc(crc) != entry.crc:
        raise ValueError(f"{what} is damaged; its checksum differs")
    return tensor


def find_prefix(given: Path) -> Path:
    """Return the prefix of a checkpoint, given it, its `.index` file, or a folder with no other one."""
    prefix = given.with_suffix("") if given.suffix == ".index" else given
    if prefix.name and index_path(prefix).is_file():
        return prefix
    if not given.is_dir():
        missing = f"checkpoint index {index_path(prefix)} does not exist"
        raise ValueError(f"{missing}; give the PREFIX of PREFIX.index")
    found = sorted(path for path in given.glob("*.index") if path.is_file())
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:10]) or "none"
        raise ValueError(f"folder {given} holds {len(found)} checkpoints ({names}); give the prefix of one")
    return found[0].with_suffix("")


def mask_crc(crc: int) -> int:
    """Return the form in which TensorFlow stores a CRC-32C."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def index_path(prefix: Path) -> Path:
    """Return the path of the index of a checkpoint."""
    return prefix.parent / f"{prefix.name}.index"


def _table(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table. Raises ValueError for another or a damaged file."""
    if len(file) < FOOTER or int.from_bytes(file[-8:], "little") != MAGIC:
        raise ValueError("it does not end with the magic number of a table")
    _, _, at = _handle(file, len(file) - FOOTER)  # of the meta-index, which is empty
    for _, place in _block(file, *_handle(file, at)[:2]):
        yield from _block(file, *_handle(place, 0)[:2])


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the offset and the size of a block, and the offset after them."""
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return offset, size, at


def _block(file: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block; each key is a prefix of the previous key and its own suffix."""
    stored = file[offset : offset + size + 5]
    if mask_crc(google_crc32c.value(stored[:-4])) != int.from_bytes(stored[-4:], "little"):
        raise ValueError(f"the block at byte {offset} is damaged; its checksum differs")
    restarts = int.from_bytes(stored[size - 4 : size], "little")
    key, at, end = b"", 0, size - 4 * restarts - 4
    while at < end:
        shared, at = _varint(stored, at)
        own, at = _varint(stored, at)
        length, at = _varint(stored, at)
        key = key[:shared] + stored[at : at + own]
        yield key, stored[at + own : at + own + length]
        at += own + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer (7 bits per byte, the lowest first) and the offset after it."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


Message = Mapping[int, list[int | bytes]]


def _message(data: bytes) -> Message:
    fields: defaultdict[int, list[int | bytes]] = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind, value = tag & 7, 0
        if kind == 0:
            value, at = _varint(data, at)
            fields[tag >> 3].append(value)
            continue
        size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        part, at = data[at : at + size], at + size
        fields[tag >> 3].append(part if kind == 2 else int.from_bytes(part, "little"))
    return fields


def _int(fields: Message, field: int) -> int:
    """Return a field; 0, the format's default, if absent."""
    (value,) = fields.get(field, [0])
    assert isinstance(value, int)
    return value


def _inner(fields: Message, field: int) -> list[Message]:
    return [_message(value) for value in fields.get(field, []) if isinstance(value, bytes)]


def _entry(fields: Message) -> TensorEntry:
    shape = tuple(_int(size, 1) for part in _inner(fields, 2) for size in _inner(part, 2))
    return TensorEntry(_int(fields, 1), shape, *(_int(fields, field) for field in (3, 4, 6)))
