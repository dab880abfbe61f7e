"""Where names are defined and called in source text, found without any code of ours.

Python is read by its own `ast`; other languages by the tokens of Pygments and a few plain rules. A rule can
be sure or not: a *certain* place is a definition or call beyond doubt, a place that is not certain may be one.
A verdict is false only where not even a doubtful place supports it.
"""

import ast
import re
import warnings
from dataclasses import dataclass

from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, String, Token
from pygments.util import ClassNotFound

EXTENSIONS = {".py", ".pyi", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".js", ".ts", ".tsx", ".java", ".go", ".rb"}
ITSELF = {"self", "cls", "this", "Self", "static"}


@dataclass
class Place:
    name: str
    line: int
    definition: bool
    certain: bool
    # Names of the definitions around it, from the outside in.
    around: list[str]
    # What a call is called on: `a` in `x.a.name()` and `a(x).name()`; "?" where it has no name; None without.
    receiver: str | None = None
    # Whether `around` is exactly the chain of definitions, or just all names in the heads of the blocks around.
    exact: bool = True
    # Whether it is a definition right inside a class; where `exact` is false, whether it may be.
    member: bool = False
    # Those of `around` that are functions; where `exact` is false, all that may be.
    functions: tuple[str, ...] = ()


def places(path: str, text: str) -> list[Place] | None:
    """None where the language is not one of ours."""
    extension = "." + path.rsplit("/", 1)[-1].rpartition(".")[2]
    if extension not in EXTENSIONS:
        return None
    if extension in (".py", ".pyi"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return PythonPlaces(ast.parse(text)).all
        except (SyntaxError, ValueError, RecursionError):
            pass  # An older or newer Python, or no Python at all.
    return token_places(path, text)


class PythonPlaces(ast.NodeVisitor):
    def __init__(self, tree):
        self.all: list[Place] = []
        self.around: list[tuple[str, bool]] = []
        self.visit(tree)

    def add(self, name, line, definition, certain, around=None, receiver=None):
        member = definition and (around is not None or bool(self.around) and self.around[-1][1])
        functions = tuple(name for name, is_class in self.around if not is_class)
        around = [name for name, _ in self.around] if around is None else around
        self.all.append(Place(name, line, definition, certain, around, receiver, True, member, functions))

    def define(self, node, is_class):
        for decorator in node.decorator_list:
            self.decorate(decorator)
            self.visit(decorator)
        self.add(node.name, node.lineno, True, True)
        self.around.append((node.name, is_class))
        for child in ast.iter_child_nodes(node):
            if child not in node.decorator_list:
                self.visit(child)
        self.around.pop()

    def visit_FunctionDef(self, node):
        self.define(node, False)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.define(node, True)

    def decorate(self, node):
        if isinstance(node, ast.Name):
            self.add(node.id, node.lineno, False, False)
        elif isinstance(node, ast.Attribute):
            self.add(node.attr, node.end_lineno, False, False, receiver=last_name(node.value))

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Store):
            self.add(node.id, node.lineno, True, False)

    def visit_Attribute(self, node):
        if isinstance(node.ctx, ast.Store):
            # Belongs to the class, and stands where it is set.
            names = [name for name, _ in self.around]
            classes = [at for at, (_, is_class) in enumerate(self.around) if is_class]
            self.add(node.attr, node.end_lineno, True, False, names[: classes[-1] + 1] if classes else None)
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name):
            self.add(node.func.id, node.func.lineno, False, True)
        elif isinstance(node.func, ast.Attribute):
            self.add(node.func.attr, node.func.end_lineno, False, True, receiver=last_name(node.func.value))
        self.generic_visit(node)


def last_name(node) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return "?"


WORD = re.compile(r"[A-Za-z_$][\w$]*")
PIECE = re.compile(r"[A-Za-z_$][\w$]*|::|->|=>|==|\?\.|\S")
SEPARATORS = {".", "::", "->", "?."}
# A name right after one of these is being defined.
DEFINING = {"fn", "struct", "enum", "union", "trait", "mod", "class", "interface", "function", "func", "record", "def", "module", "macro_rules"}
BINDING = {"let", "const", "static", "var", "mut", "type", "define", "typedef", "final", "val"}
# Words after which a name is used, not declared: `return name;` looks like `int name;`.
USING = {"return", "in", "of", "case", "throw", "else", "do", "await", "yield", "typeof", "delete", "match", "if", "while", "goto", "as", "use", "import", "package", "extends", "implements", "where", "break", "continue", "new", "not", "and", "or"}
# What stands before parentheses and is no name.
KEYWORDS = USING | DEFINING | {"for", "switch", "catch", "sizeof", "function", "super", "with", "loop", "try", "assert", "raise", "except", "lambda", "pub", "unsafe", "move"}


# What is a keyword of every language here. The others are names in one language or another.
NEVER_NAMES = {"if", "while", "for", "switch", "catch", "return", "sizeof", "else", "do", "case", "throw"}


def code_tokens(path: str, text: str) -> list[tuple[str, int, bool]]:
    """Words and signs with their lines, and whether they are the preprocessor's; no comments, no strings."""
    try:
        lexer = get_lexer_for_filename(path, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return []
    tokens, line = [], 1
    # The lexer would take a lone carriage return for a line's end.
    for kind, value in lexer.get_tokens(re.sub(r"\r(?!\n)", " ", text)):
        hidden = kind in Comment and kind not in Comment.Preproc or kind in String and kind not in String.Interpol
        if kind is not Token.Text.Whitespace and not hidden:
            for piece in PIECE.finditer(value):
                word = piece.group()
                if tokens and value == word and tokens[-1][0] + word in ("::", "->"):
                    word = tokens.pop()[0] + word
                tokens.append((word, line + value.count("\n", 0, piece.start()), kind in Comment.Preproc))
        line += value.count("\n")
    return tokens


def token_places(path: str, text: str) -> list[Place]:
    tokens = code_tokens(path, text)
    words = [word for word, _, _ in tokens]
    rust = path.endswith(".rs")
    like_c = path.endswith((".c", ".h", ".cc", ".cpp", ".hpp"))
    attribute_ends = 0
    found: list[Place] = []
    heads: list[list[str]] = []
    head: list[str] = []
    at = lambda i: words[i] if 0 <= i < len(words) else ""
    for i, (word, line, preprocessed) in enumerate(tokens):
        if word == "{":
            heads.append(head)
            head = []
        elif word == "}":
            if heads:
                heads.pop()
            head = []
        elif word == ";":
            head = []
        else:
            head.append(word)
        before, after = at(i - 1), at(i + 1)
        if rust and word == "#" and "[" in (after, at(i + 2)):
            attribute_ends = closing(words, i + 1 + (after == "!"))
        if not WORD.fullmatch(word) or word in NEVER_NAMES or rust and word.startswith("$"):
            continue
        around = [name for one in heads for name in owner_first(one)]
        # What no grammar reads as code, but may become code.
        unread = preprocessed or i < attribute_ends or any("macro_rules" in one for one in heads)

        def add(definition, certain, receiver=None):
            certain = certain and not unread and word not in KEYWORDS
            names = tuple(around)
            member = bool(around) or before == "::"
            found.append(Place(word, line, definition, certain, around, receiver, False, member, names))

        macro = after == "!" and at(i + 2) in ("(", "[", "{")
        turbofish = after == "::" and at(i + 2) == "<"
        typed_call = after == "<" and at(closing(words, i + 1)) == "("
        called = after == "(" or macro or turbofish or typed_call or before in ("new", "@")
        defined = before in DEFINING or before == "!" and at(i - 2) == "macro_rules"
        receiver = receiver_of(words, i) if before in SEPARATORS else None
        if word in KEYWORDS:
            if called or receiver:
                add(False, False, receiver)
                add(True, False)
            continue
        if defined:
            # `struct name *other` is a use.
            used = like_c and before in ("struct", "union", "enum", "class") and after not in ("{", ":")
            add(True, not used)
            continue
        if called:
            # `int name(` is a definition, `return name(` is a call.
            typed = bool(WORD.fullmatch(before)) and before not in KEYWORDS or before in ("*", "&", "]", "}", ";", "{", ">")
            certain = before in SEPARATORS | {"=", "(", "return", "!", "new"} and not macro and not turbofish
            # `new name[3]` makes an array, `Name(x) =>` is a pattern.
            certain = certain and not (before == "new" and after != "(") and not (rust and word[0].isupper())
            add(False, certain and not typed_call, receiver)
            if typed or before == "":
                add(True, False)
            continue
        typed = bool(WORD.fullmatch(before)) and before not in USING or before in ("*", "&", "]", ">")
        member = before in SEPARATORS and after == "=" and receiver in ITSELF
        listed = after in (",", "}", "=", "(", "{") and before in ("{", ",", "]", "}", ";")
        if (
            before in BINDING
            or member
            or before not in SEPARATORS
            and (after in ("=", ":") or listed or before == "}" or typed and after in (",", ";", "[", "{", ")", "<", ""))
        ):
            add(True, False)
    return found


def closing(words: list[str], i: int) -> int:
    """Where what opens at `i` has closed: the index after it, or of the end."""
    pairs = {"(": ")", "[": "]", "<": ">"}
    opening = words[i] if i < len(words) else ""
    if opening not in pairs:
        return i
    depth = 0
    for j in range(i, min(i + 200, len(words))):
        depth += (words[j] == opening) - (words[j] == pairs[opening])
        if depth == 0:
            return j + 1
    return len(words)


def owner_first(head: list[str]) -> list[str]:
    """All names in the head of a block: what it defines is among them."""
    return [word for word in head if WORD.fullmatch(word) and word not in KEYWORDS]


def receiver_of(words: list[str], i: int) -> str:
    """The name before the separator before `words[i]`, over a call, an index or type arguments."""
    j = i - 2
    openings = {")": "(", "]": "[", ">": "<"}
    while j >= 0 and words[j] in openings:
        opening, depth, close = openings[words[j]], 0, words[j]
        while j >= 0:
            depth += (words[j] == close) - (words[j] == opening)
            j -= 1
            if depth == 0:
                break
        if j >= 0 and words[j] == "::":
            j -= 1
    return words[j] if j >= 0 and WORD.fullmatch(words[j]) else "?"
