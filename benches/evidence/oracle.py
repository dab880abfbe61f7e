"""Judges verdicts by the contract of "verified", written down here anew from its words:

    The range (at most 80 lines) exists in that file at that commit, and inside it stands the quote (at least
    12 characters that are not space; compared with white space folded) or the symbol is defined or called
    there. "Moved": not there, but at exactly one other place of that file; the range is corrected.

What a citation still shows beside its mark, quote and symbol, must hold in the range that it shows.
"""

import re
from collections import defaultdict
from functools import cached_property
from itertools import islice

from places import ITSELF, places

MOST_LINES = 80
FEWEST_CHARACTERS = 12


class File:
    def __init__(self, path: str, content: bytes):
        self.path = path
        self.text = content.decode("utf-8", errors="replace")
        lines = self.text.split("\n")
        if lines[-1] == "":
            lines.pop()
        self.lines = lines

    @cached_property
    def places(self):
        return places(self.path, self.text)

    @cached_property
    def by_name(self):
        named = defaultdict(list)
        for place in self.places or []:
            named[place.name].append(place)
        return named

    @cached_property
    def words(self) -> list[tuple[str, int]]:
        return [(word, number) for number, line in enumerate(self.lines, 1) for word in line.split()]

    @cached_property
    def repeated_lines(self) -> list[str]:
        """Some lines, long enough to be quotes, that stand at several places."""
        folded = fold(self.text)
        candidates = (line for line in self.lines if is_long_enough(line) and folded.count(fold(line)) > 1)
        return list(islice((line for line in candidates if len(self.quote_places(line)) > 1), 20))

    def has_range(self, start: int, end: int) -> bool:
        return 1 <= start <= end <= len(self.lines) and end - start + 1 <= MOST_LINES

    def quote_stands(self, quote: str, start: int, end: int) -> bool:
        return fold(quote) in fold("\n".join(self.lines[start - 1 : end]))

    def shows(self, shown: str, claimed: str, start: int, end: int) -> bool:
        """Whether `shown` are whole lines of the range; of very long lines, what was claimed on one line."""
        if not self.quote_stands(shown, start, end):
            return False
        lines = [line.removesuffix("\r") for line in self.lines[start - 1 : end]]
        count = shown.count("\n") + 1
        if any(lines[at : at + count] == shown.split("\n") for at in range(len(lines) - count + 1)):
            return True
        return shown == fold(claimed) and any(len(line.encode()) > 1_000 for line in lines)

    def quote_places(self, quote: str) -> set[tuple[int, int]]:
        """First and last line of each place where it stands."""
        wanted = quote.split()
        found = set()
        if len(wanted) == 1:
            return {(line, line) for word, line in self.words if wanted[0] in word}
        first, *middle, last = wanted
        for at in range(len(self.words) - len(wanted) + 1):
            here = self.words[at : at + len(wanted)]
            if (
                here[0][0].endswith(first)
                and here[-1][0].startswith(last)
                and all(word == other for word, (other, _) in zip(middle, here[1:-1]))
            ):
                found.add((here[0][1], here[-1][1]))
        return found

    def symbol_lines(self, symbol: str, certain: bool) -> set[int]:
        """Where it is defined or called: beyond doubt, or possibly."""
        parts = symbol_parts(symbol)
        if not parts:
            return set()
        return {
            place.line
            for place in self.by_name.get(parts[-1], [])
            if (place.certain or not certain) and self.in_scope(parts[:-1], place, certain)
        }

    def in_scope(self, scope: list[str], place, certain: bool) -> bool:
        """Whether `place` is `scope.name`, not just some `name`."""
        if not scope:
            return True
        module = re.split(r"[/.]", self.path)
        if place.definition:
            if scope[-1] in ITSELF and place.member:
                return is_within(scope[:-1], module + place.around)
            if not place.exact:
                return scope[-1] in place.around or not place.around and scope[-1] in module
            if not place.around:
                return scope[-1] in module
            return place.around[-1] == scope[-1] and is_within(scope[:-1], module + place.around[:-1])
        if place.receiver == scope[-1]:
            return True
        if place.receiver is None:
            # What a bare name is depends on what else there is, but it is no member of a Python class.
            return not certain and (scope[-1] in place.functions or scope[-1] in module)
        return place.receiver in ITSELF and scope[-1] in place.around


def is_within(names: list[str], chain: list[str]) -> bool:
    """Whether `names` stand in `chain` in this order; what only says "here" is passed over."""
    rest = iter(chain)
    return all(name in rest for name in names if name not in ITSELF | {"crate"})


def fold(text: str) -> str:
    return " ".join(text.split())


def is_long_enough(quote: str | None) -> bool:
    return quote is not None and len("".join(quote.split())) >= FEWEST_CHARACTERS


def symbol_parts(symbol: str) -> list[str]:
    """`Parser::parse()` is Parser, parse."""
    return re.findall(r"[\w$]+", re.split(r"[(<]", symbol.strip().strip("`"))[0])


def judge(files: dict[str, File], claim: dict, verdict: dict) -> str | None:
    """Why a verdict is false; None when it holds. What was called unverified is never false."""
    if verdict["check"] == "unverified":
        return None
    file = files.get(verdict["path"])
    if file is None or verdict["path"] != claim["path"].removeprefix("./"):
        return "the file is not in the commit"
    start, end = verdict["start"], verdict["end"]
    if not file.has_range(start, end):
        return "the range does not exist or is too long"
    quote, symbol = verdict["quote"], verdict["symbol"]
    if quote is None and symbol is None:
        return "nothing stands beside the mark"
    if quote is not None and not is_long_enough(claim["quote"]):
        return "the quote is too short"
    if quote is not None and fold(claim["quote"]) not in fold(quote):
        return "the quote is another one"
    if quote is not None and not file.shows(quote, claim["quote"], start, end):
        return "the quote does not stand in the range, or is not what the file's lines are"
    if symbol is not None and not any(start <= line <= end for line in file.symbol_lines(symbol, certain=False)):
        return "the symbol is neither defined nor called in the range"
    if verdict["check"] == "verified":
        return None if (start, end) == (claim["start"], claim["end"]) else "the range is another one"
    return judge_move(file, claim, verdict)


def judge_move(file: File, claim: dict, verdict: dict) -> str | None:
    """What was moved must not have stood in the claimed range, and must stand nowhere but where it is now."""
    claimed = (claim["start"], claim["end"])
    inside = lambda first, last: file.has_range(*claimed) and claimed[0] <= first and last <= claimed[1]
    if verdict["quote"] is not None:
        found = file.quote_places(claim["quote"])
        if any(inside(*place) for place in found):
            return "it was not moved: the quote stands in the claimed range"
        if found == {(verdict["start"], verdict["end"])}:
            return None
    if verdict["symbol"] is not None:
        certain = file.symbol_lines(verdict["symbol"], certain=True)
        if any(inside(line, line) for line in certain):
            return "it was not moved: the symbol stands in the claimed range"
        if certain <= {verdict["start"]} and verdict["start"] in file.symbol_lines(verdict["symbol"], certain=False):
            return None
    return "there are other places"
