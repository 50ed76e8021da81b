"""Functions of strings: `col("s").str`, named as in Polars where Polars has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from ..habits import STRINGS, unknown
from ..plan.expressions import Cast
from ..plan.json_paths import PathError, json_steps
from ..plan.patterns import PatternError, check_pattern, literal_of
from ..plan.types import DataType, date, timestamp
from .mathematics import builtin
from .values import Expr, lit, mistake

TO_THE_END = 2**62  # more code points than any string has
ALL = -1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Strings:
    """The functions of a string; positions and lengths count code points.

    Patterns are regular expressions of RE2, or plain strings with `literal=True`. Those that are
    plain anyway run in the row loop; the others over whole columns, which `explain()` shows.
    """

    of: Expr

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown(".str", name, STRINGS, dir(type(self)))

    def __repr__(self) -> str:
        return f"{self.of!r}.str"

    # ---- lengths and pieces ----------------------------------------------------------------

    def len_chars(self) -> Expr:
        """The number of code points.

        >>> from headrace.expr import col
        >>> col("s").str.len_chars()
        Expr(length(s))
        """
        return builtin("length", self.of)

    def len_bytes(self) -> Expr:
        """The number of bytes in UTF-8.

        >>> from headrace.expr import col
        >>> col("s").str.len_bytes()
        Expr(byte_length(s))
        """
        return builtin("byte_length", self.of)

    def slice(self, offset: Any, length: Any = None) -> Expr:
        """`length` code points from `offset` on, or all; a negative offset counts from the end.

        >>> from headrace.expr import col
        >>> col("s").str.slice(1, 3)
        Expr(slice(s, 1, 3))
        """
        return builtin("slice", self.of, offset, TO_THE_END if length is None else length)

    def head(self, n: int) -> Expr:
        """The first `n` code points.

        >>> from headrace.expr import col
        >>> col("s").str.head(3)
        Expr(slice(s, 0, 3))
        """
        _not_negative("head", n)
        return self.slice(0, n)

    def tail(self, n: int) -> Expr:
        """The last `n` code points.

        >>> from headrace.expr import col
        >>> col("s").str.tail(3)
        Expr(slice(s, -3, 3))
        """
        _not_negative("tail", n)
        return self.slice(-n, n)

    def split_part(self, by: Any, index: Any) -> Expr:
        """One of the parts between separators, from 0, from the end if negative; null if there is
        none.

        >>> from headrace.expr import col
        >>> col("s").str.split_part("/", 1)
        Expr(split_part(s, '/', 1))
        """
        if isinstance(by, str) and by == "":
            raise mistake("split_part() by an empty string has no parts", 'split_part("/", 0)')
        return builtin("split_part", self.of, by, index)

    def strip_chars(self, characters: Any = None) -> Expr:
        """Without white space, or without any of some characters, at both ends.

        >>> from headrace.expr import col
        >>> col("s").str.strip_chars()
        Expr(strip(s, ''))
        """
        return builtin("strip", self.of, "" if characters is None else characters)

    def strip_chars_start(self, characters: Any = None) -> Expr:
        """The same in front.

        >>> from headrace.expr import col
        >>> col("s").str.strip_chars_start("0")
        Expr(strip_start(s, '0'))
        """
        return builtin("strip_start", self.of, "" if characters is None else characters)

    def strip_chars_end(self, characters: Any = None) -> Expr:
        """The same at the end.

        >>> from headrace.expr import col
        >>> col("s").str.strip_chars_end(".!")
        Expr(strip_end(s, '.!'))
        """
        return builtin("strip_end", self.of, "" if characters is None else characters)

    def strip_prefix(self, prefix: Any) -> Expr:
        """Without another string in front.

        >>> from headrace.expr import col
        >>> col("s").str.strip_prefix("www.")
        Expr(strip_prefix(s, 'www.'))
        """
        return builtin("strip_prefix", self.of, prefix)

    def strip_suffix(self, suffix: Any) -> Expr:
        """Without another string at the end.

        >>> from headrace.expr import col
        >>> col("s").str.strip_suffix(".csv")
        Expr(strip_suffix(s, '.csv'))
        """
        return builtin("strip_suffix", self.of, suffix)

    # ---- made longer, other case -----------------------------------------------------------

    def pad_start(self, length: Any, fill_char: str = " ") -> Expr:
        """With a character in front, as often as it is shorter than `length`.

        >>> from headrace.expr import col
        >>> col("s").str.pad_start(8, "*")
        Expr(pad_start(s, 8, '*'))
        """
        return builtin("pad_start", self.of, length, _one_character(fill_char))

    def pad_end(self, length: Any, fill_char: str = " ") -> Expr:
        """With a character at the end, as often as it is shorter than `length`.

        >>> from headrace.expr import col
        >>> col("s").str.pad_end(8)
        Expr(pad_end(s, 8, ' '))
        """
        return builtin("pad_end", self.of, length, _one_character(fill_char))

    def zfill(self, length: Any) -> Expr:
        """With zeros in front, behind a sign.

        >>> from headrace.expr import col
        >>> col("s").str.zfill(5)
        Expr(zero_fill(s, 5))
        """
        return builtin("zero_fill", self.of, length)

    def to_uppercase(self) -> Expr:
        """In upper case.

        >>> from headrace.expr import col
        >>> col("s").str.to_uppercase()
        Expr(upper(s))
        """
        return builtin("upper", self.of)

    def to_lowercase(self) -> Expr:
        """In lower case.

        >>> from headrace.expr import col
        >>> col("s").str.to_lowercase()
        Expr(lower(s))
        """
        return builtin("lower", self.of)

    # ---- found -----------------------------------------------------------------------------

    def starts_with(self, prefix: Any) -> Expr:
        """Does it begin with another string?

        >>> from headrace.expr import col
        >>> col("s").str.starts_with("ab")
        Expr(starts_with(s, 'ab'))
        """
        return builtin("starts_with", self.of, prefix)

    def ends_with(self, suffix: Any) -> Expr:
        """Does it end with another string?

        >>> from headrace.expr import col
        >>> col("s").str.ends_with("yz")
        Expr(ends_with(s, 'yz'))
        """
        return builtin("ends_with", self.of, suffix)

    def contains(self, pattern: Any, *, literal: bool = False) -> Expr:
        """Is a pattern found in it?

        >>> from headrace.expr import col
        >>> col("s").str.contains("mm"), col("s").str.contains("^a+$")
        (Expr(contains(s, 'mm')), Expr(matches(s, '^a+$')))
        """
        plain = pattern if literal else _plain(pattern)
        if plain is not None:
            return builtin("contains", self.of, plain)
        return builtin("matches", self.of, _regex(pattern))

    def like(self, pattern: Any) -> Expr:
        r"""As SQL's LIKE: `%` is any string, `_` any character, `\\` takes the next one as it is.

        >>> from headrace.expr import col
        >>> col("s").str.like("%.csv")
        Expr(like(s, '%.csv'))
        """
        return builtin("like", self.of, pattern)

    def find(self, piece: Any) -> Expr:
        """The position of the first place where another string is found; null if it is not.

        >>> from headrace.expr import col
        >>> col("s").str.find("@")
        Expr(find(s, '@'))
        """
        return builtin("find", self.of, piece)

    def count_matches(self, piece: Any) -> Expr:
        """How often another string is found in it, without overlaps.

        >>> from headrace.expr import col
        >>> col("s").str.count_matches("/")
        Expr(count_matches(s, '/'))
        """
        return builtin("count_matches", self.of, piece)

    def extract(self, pattern: str, group_index: int = 1) -> Expr:
        r"""What a group of a pattern matches (0: all of it), null where nothing does.

        A group that takes no part in the match is an empty string.

        >>> from headrace.expr import col
        >>> col("s").str.extract(r"id=(\d+)")
        Expr(extract(s, 'id=(\\d+)', 1))
        """
        checked = _regex(pattern)
        found = check_pattern(pattern)
        if not isinstance(group_index, int) or not 0 <= group_index <= found:
            raise mistake(
                f"extract({pattern!r}) has no group {group_index!r}",
                f"it has {found}: put parentheses around what you want, or group_index=0 for all",
            )
        return builtin("extract", self.of, checked, group_index)

    def json_path_match(self, path: str, *, strict: bool = True) -> Expr:
        """What lies at a path such as `$.user.names[0]` in JSON: a text as it is, all else as JSON;
        null where nothing lies there, or a null.

        strict: a string that is no JSON is an error when rows come; otherwise it is null.

        >>> from headrace.expr import col
        >>> col("s").str.json_path_match("$.user.names[0]")
        Expr(json_path(s, '$.user.names[0]'))
        """
        try:
            json_steps(path)
        except (PathError, TypeError) as error:
            raise mistake(str(error), '.str.json_path_match("$.user.names[0]")') from None
        return builtin("json_path" if strict else "try_json_path", self.of, path)

    def replace(self, pattern: Any, value: Any, *, literal: bool = False, n: int = 1) -> Expr:
        """The first `n` places where a pattern is found become `value`, in which `$1` is a group.

        >>> from headrace.expr import col
        >>> col("s").str.replace(",", "."), col("s").str.replace("a+", "<$0>")
        (Expr(replace(s, ',', '.', 1)), Expr(replace_regex(s, 'a+', '<$0>', 1)))
        """
        _not_negative("replace", n)
        return self._replaced(pattern, value, literal, n)

    def replace_all(self, pattern: Any, value: Any, *, literal: bool = False) -> Expr:
        """All places where a pattern is found become `value`.

        >>> from headrace.expr import col
        >>> col("s").str.replace_all(" ", "", literal=True)
        Expr(replace(s, ' ', '', -1))
        """
        return self._replaced(pattern, value, literal, ALL)

    def _replaced(self, pattern: Any, value: Any, literal: bool, most: int) -> Expr:
        plain = pattern if literal else _plain(pattern)
        if plain is not None and (literal or not (isinstance(value, str) and "$" in value)):
            return builtin("replace", self.of, plain, value, most)
        if not isinstance(value, str):
            raise mistake("replace() by a pattern takes a constant string", "or use literal=True")
        return builtin("replace_regex", self.of, _regex(pattern), value, most)

    # ---- times -----------------------------------------------------------------------------

    def to_datetime(self, format: str | None = None, *, strict: bool = True) -> Expr:
        """A timestamp: of ISO 8601, or of a format as in `strptime`, in UTC.

        strict: a string that is none is an error when rows come; otherwise it is null.

        >>> from headrace.expr import col
        >>> col("s").str.to_datetime(), col("s").str.to_datetime("%d.%m.%Y", strict=False)
        (Expr(cast(s, timestamp)), Expr(try_parse_time(s, '%d.%m.%Y')))
        """
        return self._time(timestamp, format, strict)

    def to_date(self, format: str | None = None, *, strict: bool = True) -> Expr:
        """A date: of ISO 8601, or of a format as in `strptime`.

        >>> from headrace.expr import col
        >>> col("s").str.to_date()
        Expr(cast(s, date))
        """
        return self._time(date, format, strict)

    def _time(self, kind: DataType, format: str | None, strict: bool) -> Expr:
        if format is None:
            return Expr(Cast(self.of.node, kind, strict))
        if not isinstance(format, str) or "%" not in format:
            raise mistake(f"{format!r} is not a format of times", 'such as "%d.%m.%Y %H:%M"')
        read = builtin("parse_time" if strict else "try_parse_time", self.of, format)
        return read if kind is timestamp else Expr(Cast(read.node, kind))


def _plain(pattern: Any) -> Any:
    """The string that a pattern stands for, if it stands for one only; columns are strings."""
    return literal_of(pattern) if isinstance(pattern, str) else pattern


def _regex(pattern: Any) -> Expr:
    """A regular expression as a constant, checked."""
    if not isinstance(pattern, str):
        raise mistake(f"{pattern!r} is not a pattern", "give a string, or literal=True")
    try:
        check_pattern(pattern)
    except PatternError as error:
        raise mistake(
            f"{pattern!r} is not a regular expression of RE2: {error}",
            "lookaround and backreferences do not exist there; literal=True takes it as it is",
        ) from None
    return lit(pattern)


def _one_character(fill: Any) -> Any:
    if not isinstance(fill, str) or len(fill) != 1:
        raise mistake(f"{fill!r} is not one character", 'pad_start(8, "0")')
    return fill


def _not_negative(what: str, n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise mistake(f"{what}({n!r}) needs a number from 0 on", f"{what}(3)")
