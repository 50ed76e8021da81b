"""Numbers and truth values as strings: read and written, in both modes, without the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from llvmlite import ir

from headrace.stage.memory.arithmetic import float_bits, to_float32
from headrace.stage.memory.instructions import BYTES, WORD, intrinsic, register_instruction
from headrace.stage.memory.records import compiled, u8s
from headrace.stage.strings.building import begin_text, end_text, put, put_digits
from headrace.stage.strings.heap import free, malloc
from headrace.stage.strings.words import LENGTH_MASK, byte_at, write_words

READ, INVALID, TOO_LARGE = 0, 1, 2  # what became of a string

LARGEST_TENTH, LAST_DIGIT = divmod(2**63 - 1, 10)
EXACT_POWERS = tuple(10.0**k for k in range(23))  # those that floats hold exactly
EXACT_WHOLE = 2**53
MANTISSA_DIGITS = 18  # that surely fit in int64
SMALLEST_NORMAL, SMALLEST_NORMAL32 = 2.2250738585072014e-308, 1.1754943508222875e-38
LONGEST_FLOAT = 32  # bytes of its digits and exponent
# Bytes that a float takes besides its decimals, with any locale's point and the zero byte.
BESIDE_FLOAT, BESIDE_FIXED = 16, 330

POINT, PLUS, MINUS, ZERO = 46, 43, 45, 48
LETTER_E, LOWER = 101, 32


@compiled
def _is_blank(byte):
    return byte == 32 or 9 <= byte <= 13


@compiled
def _is_digit(byte):
    return 48 <= byte <= 57


@compiled
def _inside(head, tail):
    """(start, stop) without white space of ASCII around."""
    start, stop = 0, head & LENGTH_MASK
    while start < stop and _is_blank(byte_at(head, tail, start)):
        start += 1
    while stop > start and _is_blank(byte_at(head, tail, stop - 1)):
        stop -= 1
    return start, stop


@compiled
def read_int(head, tail):
    """(what became of it, an int64): digits of ASCII, with a sign and white space around.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(100)
    >>> read_int(*words(" -12 ", heap)), read_int(*words("1.5", heap))
    ((0, -12), (1, 0))
    >>> read_int(*words("9223372036854775808", heap))
    (2, 0)
    """
    at, stop = _inside(head, tail)
    negative = False
    if at < stop:
        sign = byte_at(head, tail, at)
        if sign == MINUS or sign == PLUS:
            negative = sign == MINUS
            at += 1
    if at == stop:
        return INVALID, 0
    number, large = 0, False
    while at < stop:
        byte = byte_at(head, tail, at)
        if not _is_digit(byte):
            return INVALID, 0
        digit = byte - ZERO
        # counted down: there is one more negative number
        if number < -LARGEST_TENTH or (number == -LARGEST_TENTH and digit > LAST_DIGIT + negative):
            large = True
        if not large:
            number = number * 10 - digit
        at += 1
    if large:
        return TOO_LARGE, 0
    return READ, number if negative else -number


# ---- floats --------------------------------------------------------------------------------


def slow_float(address: int) -> float:
    """The float of the digits at an address, up to a zero byte, rounded once."""
    return float(ctypes.string_at(address))


def print_float(address: int, decimals: int, bits: int) -> None:
    """Write a float as C's "%.*e" to an address, and a zero byte behind."""
    said = f"{ctypes.c_double.from_buffer(ctypes.c_int64(bits)).value:.{decimals}e}"
    ctypes.memmove(address, said.encode() + b"\0", len(said) + 1)


def print_fixed(address: int, decimals: int, bits: int) -> None:
    """The same as C's "%.*f"."""
    said = f"{ctypes.c_double.from_buffer(ctypes.c_int64(bits)).value:.{decimals}f}"
    ctypes.memmove(address, said.encode() + b"\0", len(said) + 1)


def _emit_slow_float(context, b, address):
    """C's own reader in the C locale, which glibc keeps ready."""
    number, double = ir.IntType(32), ir.DoubleType()
    name = context.insert_const_string(b.module, "C")
    every_category = number(0x1FBF)  # LC_ALL_MASK
    locale = b.call(
        intrinsic(b, "newlocale", BYTES, number, BYTES, BYTES), [every_category, name, BYTES(None)]
    )
    ends = BYTES.as_pointer()
    read = intrinsic(b, "strtod_l", double, BYTES, ends, BYTES)
    return b.call(read, [b.inttoptr(address, BYTES), ends(None), locale])


def _emit_print(format: str, beside: int) -> Callable:
    def emit(context, b, address, decimals, bits):
        from headrace.stage.memory.numba_internals import cgutils

        number = ir.IntType(32)
        kind = ir.FunctionType(number, [BYTES, WORD, BYTES], var_arg=True)
        function = cgutils.get_or_insert_function(b.module, kind, "snprintf")
        said = context.insert_const_string(b.module, format)
        value = b.bitcast(bits, ir.DoubleType())
        places, most = b.trunc(decimals, number), b.add(decimals, WORD(beside))
        b.call(function, [b.inttoptr(address, BYTES), most, said, places, value])

    return emit


register_instruction(slow_float, 1, "float64", _emit_slow_float)
register_instruction(print_float, 3, "none", _emit_print("%.*e", BESIDE_FLOAT))
register_instruction(print_fixed, 3, "none", _emit_print("%.*f", BESIDE_FIXED))


@compiled
def _is_word(head, tail, at, stop, word, count):
    """Do the bytes say a word of lower case, in any case? The word as a string's two words."""
    if stop - at != count:
        return False
    for k in range(count):
        if byte_at(head, tail, at + k) | LOWER != byte_at(word[0], word[1], k):
            return False
    return True


def _word(said: str) -> tuple[int, int]:
    data = len(said).to_bytes(4, "little") + said.encode().ljust(12, b"\0")
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")


NAN_WORD, INF_WORD, INFINITY_WORD = _word("nan"), _word("inf"), _word("infinity")
TRUE_WORD, FALSE_WORD = _word("true"), _word("false")
INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


@compiled
def read_float(head, tail):
    """(what became of it, a float64): as Python's float(), without underscores and other digits.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(100)
    >>> read_float(*words("-1.5e3 ", heap)), read_float(*words("1,5", heap))[0]
    ((0, -1500.0), 1)
    """
    start, stop = _inside(head, tail)
    at, negative = start, False
    if at < stop:
        sign = byte_at(head, tail, at)
        if sign == MINUS or sign == PLUS:
            negative = sign == MINUS
            at += 1
    mantissa, digits, scale, any_digit, behind_point = 0, 0, 0, False, False
    while at < stop:
        byte = byte_at(head, tail, at)
        if byte == POINT and not behind_point:
            behind_point = True
        elif _is_digit(byte):
            any_digit = True
            if digits < MANTISSA_DIGITS:
                mantissa = mantissa * 10 + byte - ZERO
                digits += mantissa > 0
                scale -= behind_point
            else:
                digits += 1  # more than the quick way takes
                scale += not behind_point
        else:
            break
        at += 1
    if not any_digit:
        if behind_point:
            return INVALID, 0.0
        if _is_word(head, tail, at, stop, NAN_WORD, 3):
            return READ, NOT_A_NUMBER
        if _is_word(head, tail, at, stop, INF_WORD, 3) or _is_word(
            head, tail, at, stop, INFINITY_WORD, 8
        ):
            return READ, -INFINITE if negative else INFINITE
        return INVALID, 0.0
    if at < stop:
        if byte_at(head, tail, at) | LOWER != LETTER_E:
            return INVALID, 0.0
        at += 1
        down = False
        if at < stop:
            sign = byte_at(head, tail, at)
            if sign == MINUS or sign == PLUS:
                down = sign == MINUS
                at += 1
        if at == stop:
            return INVALID, 0.0
        exponent = 0
        while at < stop:
            byte = byte_at(head, tail, at)
            if not _is_digit(byte):
                return INVALID, 0.0
            exponent = min(exponent * 10 + byte - ZERO, 100_000)
            at += 1
        scale += -exponent if down else exponent
    if digits <= MANTISSA_DIGITS and mantissa <= EXACT_WHOLE and -22 <= scale <= 22:
        number = float(mantissa)  # one operation on exact numbers is rounded once
        number = number * EXACT_POWERS[scale] if scale >= 0 else number / EXACT_POWERS[-scale]
        return READ, -number if negative else number
    buffer = malloc((head & LENGTH_MASK) + 1)
    if buffer == 0:
        raise MemoryError("no memory to read a number")
    write_words(head, tail, buffer)
    u8s(buffer)[stop] = 0
    number = slow_float(buffer + start)
    free(buffer)
    return READ, number


@compiled
def read_bool(head, tail):
    """(what became of it, a bool): true or false, in any case.

    >>> from headrace.stage.strings.text import new_heap, words
    >>> heap = new_heap(100)
    >>> read_bool(*words("True", heap)), read_bool(*words("1", heap))
    ((0, True), (1, False))
    """
    stop = head & LENGTH_MASK
    if _is_word(head, tail, 0, stop, TRUE_WORD, 4):
        return READ, True
    return (READ if _is_word(head, tail, 0, stop, FALSE_WORD, 5) else INVALID), False


@compiled
def write_bool(value):
    """
    >>> from headrace.stage.strings.text import text
    >>> text(*write_bool(True))
    'true'
    """
    return TRUE_WORD if value else FALSE_WORD


# ---- written -------------------------------------------------------------------------------


@compiled
def _digits_of(number):
    """How many digits a number has that is not negative."""
    count = 1
    while number > 9:
        number //= 10
        count += 1
    return count


@compiled
def write_int(number, heap):
    """An integer in decimal.

    >>> from headrace.stage.strings.text import new_heap, text
    >>> heap = new_heap(100)
    >>> text(*write_int(-120, heap)), text(*write_int(-(2**63), heap))
    ('-120', '-9223372036854775808')
    """
    negative = number < 0
    last = number % 10 if not negative else (10 - number % 10) % 10
    rest = number // 10 if not negative else -(number // 10 + (number % 10 != 0))
    count = _digits_of(rest) + 1 if rest > 0 else 1
    head, tail = begin_text(count + negative, heap)
    if negative:
        head, tail = put(head, tail, 0, MINUS)
    if rest > 0:
        head, tail = put_digits(head, tail, int(negative), rest, count - 1)
    head, tail = put(head, tail, count + negative - 1, ZERO + last)
    return end_text(head, tail)


@compiled
def keep_digits(buffer):
    """(count, exponent): leaves only the digits of what print_float or print_fixed wrote, whose
    point may be any locale's."""
    bytes_of, count, at = u8s(buffer), 0, 0
    while bytes_of[at] != 0 and bytes_of[at] != LETTER_E:
        if _is_digit(bytes_of[at]):
            bytes_of[count] = bytes_of[at]
            count += 1
        at += 1
    if bytes_of[at] == 0:
        return count, 0
    down = bytes_of[at + 1] == MINUS
    exponent = 0
    at += 2
    while bytes_of[at] != 0:
        exponent = exponent * 10 + bytes_of[at] - ZERO
        at += 1
    return count, -exponent if down else exponent


@compiled
def write_digits(address, number, count):
    """Write so many digits of a number that is not negative to an address."""
    target = u8s(address)
    for k in range(count):
        target[count - 1 - k] = ZERO + number % 10
        number //= 10


@compiled
def _nearest(buffer, number, power, is_float32):
    """The float that is nearest to number * 10 ** power."""
    target, count = u8s(buffer), _digits_of(number)
    write_digits(buffer, number, count)
    target[count] = LETTER_E
    target[count + 1] = MINUS if power < 0 else PLUS
    write_digits(buffer + count + 2, abs(power), 3)
    target[count + 5] = 0
    made = slow_float(buffer)
    return to_float32(made) if is_float32 else made


@compiled
def shortest(value, is_float32):
    """(digits as one number, their count, exponent): the fewest digits that give a float back that
    is not negative."""
    if value == 0.0:
        return 0, 1, 0
    buffer = malloc(LONGEST_FLOAT)
    if buffer == 0:
        raise MemoryError("no memory to write a number")
    # all numbers of 15 digits come back from a float64, and those of 6 from a float32
    decimals = 0
    if value >= (SMALLEST_NORMAL32 if is_float32 else SMALLEST_NORMAL):
        decimals = 5 if is_float32 else 14
    while True:
        print_float(buffer, decimals, float_bits(value))
        count, exponent = keep_digits(buffer)
        number = 0
        for k in range(count):
            number = number * 10 + u8s(buffer)[k] - ZERO
        if decimals == 16 or _nearest(buffer, number, exponent - decimals, is_float32) == value:
            break
        # a power of two has more room above: then the next number may come back
        if _nearest(buffer, number + 1, exponent - decimals, is_float32) == value:
            number += 1
            break
        decimals += 1
    free(buffer)
    count = _digits_of(number)
    exponent += count - decimals - 1  # where the next number has a digit more
    while count > 1 and number % 10 == 0:
        number //= 10
        count -= 1
    return number, count, exponent


@compiled
def write_float(value, heap):
    """As Python's repr of a float.

    >>> from headrace.stage.strings.text import new_heap, text
    >>> heap = new_heap(100)
    >>> [text(*write_float(x, heap)) for x in (0.1, -1e22, 1.0, float("nan"))]
    ['0.1', '-1e+22', '1.0', 'nan']
    """
    return _write_digits(value, False, heap)


@compiled
def _write_digits(value, is_float32, heap):
    if value != value:
        return NAN_WORD
    negative = float_bits(value) < 0
    size = -value if negative else value
    if size == INFINITE:
        head, tail = begin_text(3 + negative, heap)
        for k in range(3):
            head, tail = put(head, tail, negative + k, byte_at(INF_WORD[0], INF_WORD[1], k))
    else:
        number, count, exponent = shortest(size, is_float32)
        if -4 <= exponent < 16:
            head, tail = _write_plain(number, count, exponent, int(negative), heap)
        else:
            head, tail = _write_scientific(number, count, exponent, int(negative), heap)
    if negative:
        head, tail = put(head, tail, 0, MINUS)
    return end_text(head, tail)


@compiled
def write_float32(value, heap):
    """The fewest digits that give a float32 back.

    >>> from headrace.stage.strings.text import new_heap, text
    >>> text(*write_float32(0.10000000149011612, new_heap(100)))
    '0.1'
    """
    return _write_digits(value, True, heap)


@compiled
def _write_plain(number, count, exponent, at, heap):
    """Digits with a point among them, and zeros where there are none."""
    whole = max(exponent + 1, 1)  # digits in front of the point
    part = max(count - exponent - 1, 1)
    total = at + whole + 1 + part
    head, tail = begin_text(total, heap)
    for k in range(whole + part):
        place = k if exponent >= 0 else k + exponent  # among the digits
        digit = 0
        if 0 <= place < count:
            digit = number // 10 ** (count - 1 - place) % 10
        head, tail = put(head, tail, at + k + (k >= whole), ZERO + digit)
    return put(head, tail, at + whole, POINT)


@compiled
def _write_scientific(number, count, exponent, at, heap):
    """One digit in front of the point, and an exponent of two digits or more."""
    size = abs(exponent)
    places = 3 if size >= 100 else 2
    point = count > 1
    head, tail = begin_text(at + count + point + 2 + places, heap)
    first = number // 10 ** (count - 1)
    head, tail = put(head, tail, at, ZERO + first)
    at += 1
    if point:
        head, tail = put(head, tail, at, POINT)
        head, tail = put_digits(head, tail, at + 1, number - first * 10 ** (count - 1), count - 1)
        at += count
    head, tail = put(head, tail, at, LETTER_E)
    head, tail = put(head, tail, at + 1, MINUS if exponent < 0 else PLUS)
    return put_digits(head, tail, at + 2, size, places)


# ---- what strict casts demand --------------------------------------------------------------


@compiled
def check_int(status):
    """Raise unless a string was read."""
    if status == INVALID:
        raise ValueError("the string is not a whole number")
    if status == TOO_LARGE:
        raise OverflowError("the number does not fit in int64")


@compiled
def check_float(status):
    """The same for floats."""
    if status != READ:
        raise ValueError("the string is not a number")


@compiled
def check_bool(status):
    """The same for truth values."""
    if status != READ:
        raise ValueError("the string is neither true nor false")
