"""Bytes changed at random: by bits, bytes, numbers and pieces, whatever format they are of."""

import struct
from random import Random

# What lengths, counts and offsets are bad at.
EDGES = [0, 1, 2, 7, 8, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1]
EDGES += [2**63 - 1, 2**63, 2**64 - 1]
TOKENS = [b"null", b"NaN", b"-", b"{", b"}", b"[", b"]", b'"', b"\\u0000", b"1e999", b"../", b"\n"]
TOKENS += [b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"\0" * 8, b"9" * 400, b"[" * 2000]


def flip(content: bytearray, at: int, random: Random) -> None:
    content[at] ^= 1 << random.randrange(8)


def put_byte(content: bytearray, at: int, random: Random) -> None:
    content[at] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])


def step(content: bytearray, at: int, random: Random) -> None:
    content[at] = (content[at] + random.choice([-1, 1])) % 256


def put_number(content: bytearray, at: int, random: Random) -> None:
    width = random.choice([2, 4, 8])
    value = random.choice(EDGES) % 2 ** (8 * width)
    packed = value.to_bytes(width, random.choice(["little", "big"]))
    content[at : at + width] = packed[: len(content) - at]


def put_near_number(content: bytearray, at: int, random: Random) -> None:
    if at + 4 <= len(content):
        (value,) = struct.unpack_from("<I", content, at)
        struct.pack_into("<I", content, at, (value + random.randint(-16, 16)) % 2**32)


def cut(content: bytearray, at: int, random: Random) -> None:
    del content[at : at + random.choice([1, 2, 8, random.randint(1, len(content))])]


def truncate(content: bytearray, at: int, random: Random) -> None:
    del content[at:]


def insert(content: bytearray, at: int, random: Random) -> None:
    content[at:at] = random.choice([*TOKENS, random.randbytes(random.randint(1, 16))])


def repeat(content: bytearray, at: int, random: Random) -> None:
    piece = content[at : at + random.randint(1, 64)]
    content[at:at] = piece * random.choice([1, 2, 50])


def move(content: bytearray, at: int, random: Random) -> None:
    piece = content[at : at + random.randint(1, 64)]
    target = random.randrange(len(content))
    content[target : target + len(piece)] = piece


MUTATORS = (flip, flip, put_byte, put_byte, step, put_number, put_number, put_near_number)
MUTATORS += (cut, truncate, insert, repeat, move)


def mutated(content: bytes, random: Random) -> bytes:
    """Some bytes with a few changes; mostly one, so that the rest stays whole.

    Half of them lie near the end, where files have their footers.
    """
    made = bytearray(content)
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        if made:
            first = random.choice([0, 0, max(0, len(made) - 400)])
            random.choice(MUTATORS)(made, random.randrange(first, len(made)), random)
    return bytes(made)
