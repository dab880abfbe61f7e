"""Makes claims about files: true ones, moved ones, and forged ones of every kind we could think of.

`expect` says what the maker meant ("verified", "moved") and is None for forgeries; whether a verdict is false
is for the oracle, since a forgery can hold by accident.
"""

import random
import re

from oracle import FEWEST_CHARACTERS, MOST_LINES, File, fold, is_long_enough

# Claims of one kind about one file.
EACH = 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def claims_about(repo: str, files: dict[str, File], seed: int):
    """(kind, expect, claim) for every file of a repository; the same for the same seed."""
    paths = sorted(files)
    for path in paths:
        choose = random.Random(f"{seed} {repo} {path}")
        other = files[choose.choice(paths)]
        yield from Maker(files[path], other, choose).all()


class Maker:
    def __init__(self, file: File, other: File, choose: random.Random):
        self.file, self.other, self.choose = file, other, choose
        self.made: list[tuple[str, str | None, dict]] = []

    def all(self):
        if any(is_long_enough(line) for line in self.file.lines):
            for _ in range(EACH):
                self.true_quotes()
                self.forged_quotes()
                self.forged_paths()
        if self.file.places:
            for _ in range(EACH):
                self.symbols()
                self.forged_symbols()
        return self.made

    def add(self, kind, expect, start, end, quote=None, symbol=None, path=None):
        claim = {"path": path or self.file.path, "start": max(start, 0), "end": max(end, 0)}
        if quote is not None:
            claim["quote"] = quote
        if symbol is not None:
            claim["symbol"] = symbol
        self.made.append((kind, expect, claim))

    # Ranges and quotes

    def count(self) -> int:
        return len(self.file.lines)

    def around(self, first: int, last: int) -> tuple[int, int]:
        """A fair range that has these lines in it."""
        spare = max(0, MOST_LINES - (last - first + 1))
        before = self.choose.randint(0, min(5, spare, first - 1))
        after = self.choose.randint(0, min(5, spare - before, self.count() - last))
        return first - before, last + after

    def elsewhere(self, first: int, last: int) -> tuple[int, int] | None:
        """A fair range that has none of these lines in it."""
        free = [line for line in range(1, self.count() + 1) if not first <= line <= last]
        if not free:
            return None
        start = self.choose.choice(free)
        end = start
        while end - start < 9 and end + 1 in free and self.choose.random() < 0.7:
            end += 1
        return start, end

    def lines(self, most=5) -> tuple[int, int, str]:
        """Some lines with enough in them, and their text."""
        while True:
            first = self.choose.randint(1, self.count())
            last = min(self.count(), first + self.choose.randint(0, most - 1))
            lines = self.file.lines[first - 1 : last]
            # A quote that begins or ends with an empty line says nothing of that line.
            if lines[0].strip() and lines[-1].strip() and is_long_enough("\n".join(lines)):
                return first, last, "\n".join(lines)

    def part(self) -> tuple[int, str]:
        """Part of one line, cut between words or within them."""
        while True:
            line = self.choose.randint(1, self.count())
            text = self.file.lines[line - 1].strip()
            begin = self.choose.randint(0, len(text))
            end = self.choose.randint(begin, len(text))
            if is_long_enough(text[begin:end]):
                return line, text[begin:end]
            if is_long_enough(text):
                return line, text

    # Quotes

    def true_quotes(self):
        first, last, quote = self.lines()
        self.add("quote", "verified", *self.around(first, last), quote)
        self.add("quote, exactly its lines", "verified", first, last, quote)
        self.add("quote, white space folded", "verified", *self.around(first, last), fold(quote))
        self.add("quote, indented anew", "verified", first, last, re.sub(r"\s*\n\s*", "\n      ", quote))
        self.add("quote with an invented symbol", "verified", first, last, quote, "no_such_symbol_anywhere")
        line, part = self.part()
        self.add("part of a line", "verified", *self.around(line, line), part)
        widest = min(self.count(), first + MOST_LINES - 1)
        if last <= widest:
            self.add("quote, widest range", "verified", first, widest, quote)
        if self.file.quote_places(quote) == {(first, last)}:
            if away := self.elsewhere(first, last):
                self.add("quote, range elsewhere", "moved", *away, quote)
            self.add("quote, range past the end", "moved", self.count() + 1, self.count() + 9, quote)
            self.add("quote, range backwards", "moved", last + 1, last, quote)
            self.add("quote, range from line 0", "moved", 0, last, quote)
            if last > first:
                self.add("quote, range cut", "moved", first, last - 1, quote)
            if self.count() > MOST_LINES:
                start = max(1, min(first, self.count() - MOST_LINES))
                self.add("quote, range too long", "moved", start, start + MOST_LINES, quote)

    def forged_quotes(self):
        first, last, quote = self.lines()
        wide = self.around(first, last)
        at = self.choose.choice([i for i, c in enumerate(quote) if not c.isspace()])
        replaced = self.choose.choice([c for c in LETTERS if c != quote[at].lower()])
        self.add("forged: one character changed", None, *wide, quote[:at] + replaced + quote[at + 1 :])
        self.add("forged: one character left out", None, *wide, quote[:at] + quote[at + 1 :])
        self.add("forged: one character more", None, *wide, quote[:at] + replaced + quote[at:])
        self.add("forged: other case", None, *wide, quote.swapcase())
        self.add("forged: space within a word", None, *wide, quote[:at] + " " + quote[at:])
        self.add("forged: no spaces", None, *wide, "".join(quote.split()))
        words = quote.split()
        if len(words) > 2:
            cut = self.choose.randint(1, len(words) - 2)
            self.add("forged: a word left out", None, *wide, " ".join(words[:cut] + words[cut + 1 :]))
            self.add("forged: shortened by dots", None, *wide, " ".join([*words[:cut], "...", *words[cut + 1 :]]))
            swapped = words[:cut] + [words[cut + 1], words[cut]] + words[cut + 2 :]
            self.add("forged: two words swapped", None, *wide, " ".join(swapped))
        one, two = self.lines(1), self.lines(1)
        self.add("forged: two lines joined", None, *self.around(one[0], one[1]), one[2] + "\n" + two[2])
        self.add("forged: what follows is invented", None, *wide, quote + " and_more_that_is_not_there")
        if any(is_long_enough(line) for line in self.other.lines):
            _, _, foreign = Maker(self.other, self.other, self.choose).lines()
            self.add("forged: quote of another file", None, *wide, foreign)
        short = "".join(quote.split())[: FEWEST_CHARACTERS - 1]
        self.add("forged: too short", None, *wide, short)
        self.add("forged: too short but for spaces", None, *wide, short + " " * 20)
        self.add("forged: nothing to check", None, *wide)
        self.add("forged: empty quote and symbol", None, *wide, "", "")
        if self.count() > 2 * MOST_LINES:
            start = self.choose.randint(1, self.count() - MOST_LINES - 10)
            long = "\n".join(self.file.lines[start - 1 : start + MOST_LINES + 4])
            self.add("forged: quote of more than 80 lines", None, start, start + MOST_LINES + 4, long)
            self.add("forged: quote of more than 80 lines, range elsewhere", None, 1, 5, long)
        repeated = self.file.repeated_lines
        if repeated:
            quote = self.choose.choice(repeated)
            places = sorted(self.file.quote_places(quote))
            if away := self.elsewhere(places[0][0], places[-1][1]):
                self.add("forged: quote at several other places", None, *away, quote)

    def forged_paths(self):
        first, last, quote = self.lines()
        path = self.file.path
        folder = path.rpartition("/")[0]
        for forged in [
            path + "x",
            path.swapcase(),
            "../" + path,
            "/" + path,
            "/workspace/" + path,
            path + "/",
            folder or ".",
            "x/../" + path,
            path.replace("/", "//") if folder else "//" + path,
            path.replace("/", "\\") if folder else "\\" + path,
            ".git/config",
            "",
            path.rsplit("/", 1)[-1] if folder else "deep/" + path,
        ]:
            self.add("forged: path", None, first, last, quote, path=forged)
        self.add("path with ./ before it", "verified", first, last, quote, path="./" + path)

    # Symbols

    def symbols(self):
        certain = [place for place in self.file.places if place.certain]
        if not certain:
            return
        place = self.choose.choice(certain)
        kind = "definition" if place.definition else "call"
        line = place.line
        self.add(f"symbol, {kind}", "verified", *self.around(line, line), symbol=place.name)
        self.add(f"symbol, {kind}, as a call", "verified", line, line, symbol=f"`{place.name}()`")
        self.add("symbol with an invented quote", "verified", line, line, "this_quote_is_invented = True", place.name)
        if place.exact and place.definition and place.around:
            for separator in (".", "::"):
                scoped = place.around[-1] + separator + place.name
                self.add("symbol with its scope", "verified", *self.around(line, line), symbol=scoped)
        if not place.definition and place.receiver not in (None, "?"):
            self.add("call on its receiver", "verified", line, line, symbol=f"{place.receiver}.{place.name}")
        possible = self.file.symbol_lines(place.name, certain=False)
        if possible == {line} and (away := self.elsewhere(line, line)):
            self.add("symbol, range elsewhere", "moved", *away, symbol=place.name)

    def forged_symbols(self):
        names = sorted({place.name for place in self.file.places})
        place = self.choose.choice(self.file.places)
        line, name = place.line, place.name
        wide = self.around(line, line)
        self.add("forged: part of a name", None, *wide, symbol=name[: max(1, len(name) // 2)])
        self.add("forged: longer name", None, *wide, symbol=name + "_x")
        self.add("forged: name in other case", None, *wide, symbol=name.swapcase())
        self.add("forged: name of another place", None, *wide, symbol=self.choose.choice(names))
        if self.other.places:
            self.add("forged: name of another file", None, *wide, symbol=self.choose.choice(self.other.places).name)
        # Words that stand in the lines but may well be no symbols: in comments, strings, as arguments.
        words = re.findall(r"[A-Za-z_]\w+", self.file.lines[line - 1])
        if words:
            self.add("forged: any word of the line", None, line, line, symbol=self.choose.choice(words))
        some = self.choose.randint(1, self.count())
        if words := re.findall(r"[A-Za-z_]\w+", self.file.lines[some - 1]):
            self.add("forged: any word of any line", None, some, some, symbol=self.choose.choice(words))
        hidden = [
            (number, word)
            for number, text in enumerate(self.file.lines, 1)
            for word in re.findall(r"[A-Za-z_]\w+", re.sub(r"^[^#\"'/]*", "", text))
            if word in names
        ][:500]
        if hidden:
            number, word = self.choose.choice(hidden)
            self.add("forged: name in a comment or string", None, number, number, symbol=word)
        scopes = sorted({scope for one in self.file.places for scope in one.around})
        for separator in (".", "::", "#"):
            if scopes:
                wrong = self.choose.choice(scopes)
                self.add("forged: another scope of the file", None, *wide, symbol=wrong + separator + name)
            self.add("forged: invented scope", None, *wide, symbol="NoSuchScope" + separator + name)
        self.add("forged: another name as scope", None, *wide, symbol=f"{self.choose.choice(names)}.{name}")
        if words := re.findall(r"[A-Za-z_]\w+", self.file.lines[line - 1]):
            self.add("forged: a word of the line as scope", None, line, line, symbol=f"{self.choose.choice(words)}.{name}")
        if place.around:
            outer = f"NoSuchScope.{place.around[-1]}.{name}"
            self.add("forged: invented outer scope", None, *wide, symbol=outer)
        if away := self.elsewhere(line, line):
            self.add("forged: symbol, range elsewhere", None, *away, symbol=name)
        self.add("forged: symbol, range past the end", None, self.count() + 1, self.count() + 1, symbol=name)
        self.add("forged: symbol, range of 200 lines", None, 1, 200, symbol=name)
        for odd in ["", " ", "()", "::", ".", "`", "*", "<T>", ".*", name + " " + name, "\n" + name]:
            self.add("forged: odd symbol", None, *wide, symbol=odd)


def texts_about(files: dict[str, File], seed: str):
    """(text, names that exist, names that do not) with the names as a host should find them."""
    choose = random.Random(seed)
    paths = sorted(path for path in files if re.fullmatch(r"[\w/.-]+\.(py|rs|c|h|js|ts|java|md|toml|txt)", path))
    symbols = sorted({
        place.name
        for path in paths
        for place in files[path].places or []
        # A name that cannot be taken for an ordinary word, which a host may pass over.
        if "_" in place.name.strip("_") and re.fullmatch(r"\w{7,}", place.name, re.ASCII)
    })
    for _ in range(20):
        there, invented = [], []
        for path in choose.sample(paths, min(4, len(paths))):
            there.append(path)
            there.append(f"{path}:{choose.randint(1, max(1, len(files[path].lines)))}")
            stem, _, extension = path.rpartition(".")
            invented.append(f"{stem}_of_nowhere.{extension}")
            invented.append(f"{path}:{len(files[path].lines) + choose.randint(1, 999)}")
        for name in choose.sample(symbols, min(6, len(symbols))):
            there.append(name)
            invented.append(f"{name}_of_nowhere_{choose.randint(1, 99)}")
            invented.append(f"nowhere_to_be_{choose.choice(LETTERS)}.{name}")
        # A line of an empty file is none.
        there = [name for name in there if not re.search(r":\d+$", name) or files[name.rpartition(":")[0]].lines]
        invented = [name for name in invented if not stands_somewhere(name, files)]
        mixed = there + invented
        choose.shuffle(mixed)
        yield "\n\n".join(f"It rests on `{name}` as well [1]." for name in mixed), there, invented


def stands_somewhere(name: str, files: dict[str, File]) -> bool:
    """By accident."""
    path, _, line = name.rpartition(":")
    if line.isdigit():
        return any(other.endswith("/" + path) and len(file.lines) >= int(line) for other, file in files.items())
    word = re.compile(rf"(?<!\w){re.escape(name.rsplit('.', 1)[0] if name.startswith('nowhere') else name)}(?!\w)")
    return any(word.search(file.text) or word.search(path) for path, file in files.items())
