"""CRC-32C: the checksum of TensorFlow's checkpoints, at the speed of memory look-ups instead of Python's."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78  # Castagnoli's, lowest bit first (RFC 3720, appendix B.4)
ONES = 0xFFFFFFFF
ONE = np.uint32(1)
COLUMNS = (16384, 128)  # words of a row; a table's 512 KiB and a state of 64 KiB stay in the cache
WORD = np.dtype("<u4")  # the lowest byte of a register is the next to leave it, on every machine
HALF = np.dtype("<u2")


def extend(crc: int, data: bytes | memoryview) -> int:
    """The CRC-32C of some bytes and then `data`, from the CRC of those bytes; that of no bytes is 0.

    The register is linear over GF(2), so a long message folds into a short one of equal remainder.
    """
    register, message = crc ^ ONES, np.frombuffer(data, np.uint8)
    for columns in COLUMNS:
        register, message = _fold(register, message, columns)
    table = _bytes().tolist()
    for byte in message.tolist():
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ ONES


def masked(crc: int) -> int:
    """The form in which TensorFlow stores a CRC, so that a CRC of bytes that hold CRCs is no special one."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & ONES


def _fold(register: int, message: NDArray[np.uint8], columns: int) -> tuple[int, NDArray[np.uint8]]:
    """The same remainder from less than two rows: each column of words is a register of its own.

    A register that goes over the zero bytes of one row, and then takes in the word of the next, is the linear
    operator of `_over` and an exclusive or, for all columns at once.
    """
    whole = len(message) // (4 * columns) * columns * 4
    if whole < 8 * columns:
        return register, message
    rows = message[:whole].view(WORD).reshape(-1, columns)
    low, high = _over(4 * columns)
    state = rows[0].copy()
    state[0] ^= register
    halves = state.view(HALF).reshape(columns, 2)
    ahead, other = np.empty_like(state), np.empty_like(state)
    for row in rows[1:]:
        # `clip` only lets NumPy write straight into `out`: a half word is always inside its table.
        np.take(low, halves[:, 0], out=ahead, mode="clip")
        np.take(high, halves[:, 1], out=other, mode="clip")
        np.bitwise_xor(ahead, other, out=state)
        np.bitwise_xor(state, row, out=state)
    return 0, np.concatenate([state.view(np.uint8), message[whole:]])


@cache
def _bytes() -> Words:
    """What a register of one byte becomes when that byte has left it."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> ONE) ^ (table & ONE) * np.uint32(POLYNOMIAL)
    return table


@cache
def _over(zeros: int) -> tuple[Words, Words]:
    """Where that many zero bytes take each low half of a register, and each high half."""
    units = ONE << np.arange(32, dtype=np.uint32)
    result, step = units, _bytes()[units & np.uint32(0xFF)] ^ (units >> np.uint32(8))
    while zeros:
        result = _apply(step, result) if zeros & 1 else result
        step, zeros = _apply(step, step), zeros >> 1
    half = np.arange(1 << 16, dtype=np.uint32)
    return _apply(result, half), _apply(result, half << np.uint32(16))


def _apply(operator: Words, registers: Words) -> Words:
    """A linear operator, stated by what it makes of each of the 32 bits."""
    out = np.zeros_like(registers)
    for bit, image in enumerate(operator):
        out ^= ((registers >> np.uint32(bit)) & ONE) * image
    return out
