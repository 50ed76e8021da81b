"""Between Numba's str and words: UTF-8 encoded and decoded in compiled code."""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic, lower_builtin, overload, overload_method, register_jitable

from headrace.stage.memory.instructions import WORD
from headrace.stage.memory.numba_internals import (
    _codepoint_to_kind,
    _empty_string,
    _get_code_point,
    _set_code_point,
    cgutils,
    impl_ret_new_ref,
    lower_cast,
    signature,
)
from headrace.stage.memory.records import u8s
from headrace.stage.strings.heap import take
from headrace.stage.strings.pieces import char_width, code_at
from headrace.stage.strings.text_types import TextType, WordsType, text_type
from headrace.stage.strings.text_values import text, words
from headrace.stage.strings.words import (
    LENGTH_MASK,
    PREFIX,
    SHORT,
    is_ascii_words,
    keep_words,
    make_words,
    put_byte,
    write_words,
)

# ---- to words ------------------------------------------------------------------------------


@intrinsic
def data_address(typingctx, value):
    """The address of the characters of a Numba str; good while the str lives."""

    def emit(context, b, sig, args):
        made = cgutils.create_struct_proxy(sig.args[0])(context, b, value=args[0])
        return b.ptrtoint(made.data, WORD)

    if isinstance(value, types.UnicodeType | types.Bytes):
        return signature(types.int64, value), emit


# The functions below take a Numba str as an argument where they use its memory: the caller holds
# it until they return.  Inside one function Numba may free a str after its last mention.


@register_jitable
def _utf8_width(code):
    if code < 0x80:
        return 1
    if code < 0x800:
        return 2
    return 3 if code < 0x10000 else 4


@register_jitable
def _utf8_length(value):
    total = 0
    for k in range(len(value)):
        total += _utf8_width(_get_code_point(value, k))
    return total


@register_jitable
def _utf8_byte(code, width, k):
    """Byte k of the UTF-8 form of a code point."""
    code = types.int64(code)
    rest = (code >> (6 * (width - 1 - k))) & 0x3F
    if k > 0:
        return 0x80 | rest
    if width == 1:
        return code
    return (0xF00 >> width) & 0xFF | code >> (6 * (width - 1))


@register_jitable
def _encode_to(value, address):
    """Write a Numba str as UTF-8."""
    target = u8s(address)
    at = 0
    for i in range(len(value)):
        code = _get_code_point(value, i)
        width = _utf8_width(code)
        for k in range(width):
            target[at] = _utf8_byte(code, width, k)
            at += 1


@register_jitable
def _encode_short(value, count):
    """The words of a Numba str of at most 12 bytes."""
    head, tail = types.int64(count), types.int64(0)
    at = 0
    for i in range(len(value)):
        code = _get_code_point(value, i)
        width = _utf8_width(code)
        for k in range(width):
            head, tail = put_byte(head, tail, at, _utf8_byte(code, width, k))
            at += 1
    return head, tail


@register_jitable
def _keep_bytes(value, heap):
    """Words of bytes that lie in a Python or Numba object; long ones are copied."""
    head, tail = make_words(data_address(value), len(value))
    return head, keep_words(head, tail, heap)


@register_jitable
def _encode(value, heap):
    """Words of a Numba str."""
    if value._is_ascii:
        return _keep_bytes(value, heap)
    count = _utf8_length(value)
    if count <= SHORT:
        return _encode_short(value, count)
    address = take(heap, count)
    _encode_to(value, address)
    return make_words(address, count)


@overload(words)
def _words(value, heap):
    if isinstance(value, WordsType):
        return lambda value, heap: (value.head, value.tail)
    if isinstance(value, types.UnicodeType):
        return lambda value, heap: _encode(value, heap)
    if isinstance(value, types.Bytes):
        return lambda value, heap: _keep_bytes(value, heap)
    if isinstance(value, types.Integer):
        return lambda value, heap: (0, 0)  # in the place of a None (`support.present`)


@register_jitable
def utf8(value):
    """A Numba str whose characters are the UTF-8 bytes of a str."""
    made = _empty_string(1, _utf8_length(value), 0)
    _encode_into(value, made)
    return made


@register_jitable
def _encode_into(value, made):
    _encode_to(value, data_address(made))


# ---- from words ----------------------------------------------------------------------------


@register_jitable
def _decode(head, tail):
    """A Numba str."""
    count = head & LENGTH_MASK
    if is_ascii_words(head, tail):
        made = _empty_string(1, count, 1)
        _write_data(head, tail, made)
        return made
    highest, chars, at = 0, 0, 0
    while at < count:
        width = char_width(head, tail, at)
        highest = max(highest, code_at(head, tail, at, width))
        chars += 1
        at += width
    made = _empty_string(_codepoint_to_kind(types.uint32(highest)), chars, 0)
    at = 0
    for k in range(chars):
        width = char_width(head, tail, at)
        _set_code_point(made, k, types.uint32(code_at(head, tail, at, width)))
        at += width
    return made


@register_jitable
def _write_data(head, tail, made):
    write_words(head, tail, data_address(made))


@overload_method(TextType, "__str__")
def _text_str(value):
    return lambda value: _decode(value.head, value.tail)


@lower_builtin("getiter", TextType)
def _iterate_text(context, b, sig, args):
    made = context.compile_internal(
        b, lambda x: str(x), signature(types.unicode_type, text_type), args
    )
    iterate = context.get_function("getiter", signature(sig.return_type, types.unicode_type))
    iterator = iterate(b, (made,))
    context.nrt.decref(b, types.unicode_type, made)  # the iterator holds its own
    return impl_ret_new_ref(context, b, sig.return_type, iterator)


# ---- from literals -------------------------------------------------------------------------


@intrinsic(prefer_literal=True)
def literal_words(typingctx, value):
    """The words of a str that is known at compile time."""
    if not isinstance(value, types.StringLiteral):
        return None
    data = value.literal_value.encode()
    pair = types.UniTuple(types.int64, 2)

    def emit(context, b, sig, args):
        head, tail = (WORD(part) for part in words(data[:SHORT], None))
        if len(data) > SHORT:
            head = WORD(int.from_bytes(data[:PREFIX], "little", signed=True) << 32 | len(data))
            tail = b.ptrtoint(context.insert_const_bytes(b.module, data), WORD)
        return context.make_tuple(b, pair, [head, tail])

    return signature(pair, value), emit


@lower_cast(types.StringLiteral, TextType)
def _literal_to_text(context, b, given, target, value):
    def make(value):
        head, tail = literal_words(value)
        return text(head, tail)

    return context.compile_internal(b, make, signature(target, given), [value])
