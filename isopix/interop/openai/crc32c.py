"""CRC-32C, the checksum of TensorFlow checkpoints, vectorized with NumPy."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78  # Castagnoli polynomial, lowest bit first (RFC 3720, appendix B.4)
ONES = 0xFFFFFFFF
ONE = np.uint32(1)
COLUMNS = (16384, 128)  # words per row; the tables (512 KiB) and the state (64 KiB) stay in the cache
WORD = np.dtype("<u4")  # little endian on every machine: the lowest byte is shifted out first
HALF = np.dtype("<u2")


def extend_crc(crc: int, data: bytes | memoryview) -> int:
    """Return the CRC-32C of earlier bytes followed by `data`; `crc` is that of the earlier bytes, 0 for none.

    The CRC is linear over GF(2), so a long message folds into a short one with the same remainder.
    """
    register, message = crc ^ ONES, np.frombuffer(data, np.uint8)
    for columns in COLUMNS:
        register, message = _fold(register, message, columns)
    table = _bytes().tolist()
    for byte in message.tolist():
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ ONES


def mask_crc(crc: int) -> int:
    """Return the masked form in which TensorFlow stores a CRC."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & ONES


def _fold(register: int, message: NDArray[np.uint8], columns: int) -> tuple[int, NDArray[np.uint8]]:
    """Fold the message into less than two rows with the same remainder; each column is its own register.

    Advancing a register over one row of zero bytes is the linear operator of `_advance`; adding the next
    word is an exclusive or. Both are applied to all columns at once.
    """
    whole = len(message) // (4 * columns) * columns * 4
    if whole < 8 * columns:
        return register, message
    rows = message[:whole].view(WORD).reshape(-1, columns)
    low, high = _advance(4 * columns)
    state = rows[0].copy()
    state[0] ^= register
    halves = state.view(HALF).reshape(columns, 2)
    low_part, high_part = np.empty_like(state), np.empty_like(state)
    for row in rows[1:]:
        # mode="clip" lets NumPy write directly into `out`; indices are always in range.
        np.take(low, halves[:, 0], out=low_part, mode="clip")
        np.take(high, halves[:, 1], out=high_part, mode="clip")
        np.bitwise_xor(low_part, high_part, out=state)
        np.bitwise_xor(state, row, out=state)
    return 0, np.concatenate([state.view(np.uint8), message[whole:]])


@cache
def _bytes() -> Words:
    """Return the CRC table: the register after one byte is shifted out."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> ONE) ^ (table & ONE) * np.uint32(POLYNOMIAL)
    return table


@cache
def _advance(zeros: int) -> tuple[Words, Words]:
    """Return the registers that each low and each high half word becomes after that many zero bytes."""
    units = ONE << np.arange(32, dtype=np.uint32)
    result, step = units, _bytes()[units & np.uint32(0xFF)] ^ (units >> np.uint32(8))
    while zeros:
        result = _apply(step, result) if zeros & 1 else result
        step, zeros = _apply(step, step), zeros >> 1
    half = np.arange(1 << 16, dtype=np.uint32)
    return _apply(result, half), _apply(result, half << np.uint32(16))


def _apply(operator: Words, registers: Words) -> Words:
    """Apply a linear operator, given by its image of each of the 32 bits."""
    out = np.zeros_like(registers)
    for bit, image in enumerate(operator):
        out ^= ((registers >> np.uint32(bit)) & ONE) * image
    return out
