"""The corpus: words of a text, numbered, split in three, and laid out in columns.

The default text is the English prose of Python's reference manual, which every CPython carries in
``pydoc_data.topics``. It is drawn from rendered documentation, so code, grammar, tables, headings and signatures are
left out, as is every paragraph that already occurred. Nothing depends on hashing or on the order of directories, so
that the same Python always gives the same corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np

UNKNOWN, END = "<unk>", "<eos>"
SPLITS = ("train", "valid", "test")

# A word, possibly dotted, hyphenated or with an apostrophe; a number; or one mark of punctuation.
TOKEN = re.compile(r"[^\W\d]\w*(?:[.'-]\w+)*|\d+(?:\.\d+)*|[.,;:?!()]|" + re.escape(UNKNOWN))
PLAIN_QUOTES = str.maketrans({"\N{LEFT SINGLE QUOTATION MARK}": "'", "\N{RIGHT SINGLE QUOTATION MARK}": "'"})
# Left by code, grammar and tables.
NOT_PROSE = re.compile(r"::=|>>>|^\s*[+|]|[*=~-]{4}|[{}<>]|\s=\s|\w = ", re.MULTILINE)


def tokens(text: str) -> list[str]:
    """The lower-case words and punctuation marks of ``text``."""
    return TOKEN.findall(text.translate(PLAIN_QUOTES).lower())


def paragraphs(text: str) -> list[str]:
    """The parts of ``text`` that blank lines separate, each in one line, with hyphenated line ends joined."""
    parts = re.split(r"\n\s*\n", text)
    return [" ".join(re.sub(r"(?<=\w)-\n\s*(?=\w)", "-", part).split()) for part in parts if part.strip()]


def _is_prose(paragraph: str) -> bool:
    """Whether a paragraph of rendered documentation is English: sentences of mostly plain words, not code."""
    words = paragraph.split()
    if len(words) < 8 or NOT_PROSE.search(paragraph) or not re.search(r"[.:?!)]$", paragraph):
        return False
    plain = sum(re.fullmatch(r"\(?[A-Za-z]+(?:['-][A-Za-z]+)*[.,;:?!)]*", word) is not None for word in words)
    return plain >= 0.7 * len(words)


def manual() -> list[list[str]]:
    """Python's reference manual: the prose paragraphs of each topic, topics by name."""
    from pydoc_data.topics import topics

    seen: set[str] = set()
    documents = []
    for name in sorted(topics):
        document = []
        for paragraph in paragraphs(topics[name].translate(PLAIN_QUOTES)):
            paragraph = re.sub(r"^(?:\* |\d+\. )|\s\[\d+\]", "", paragraph)  # bullets and footnote marks
            paragraph = re.sub(r"\*+(?=\w)|(?<=\w)\*+", "", paragraph)  # emphasis
            if paragraph not in seen and _is_prose(paragraph):
                seen.add(paragraph)
                document.append(paragraph)
        if document:
            documents.append(document)
    return documents


def read(path: Path) -> list[list[str]]:
    """A text file as a list of one document."""
    return [paragraphs(path.read_text(encoding="utf-8", errors="replace"))]


def _split(documents: list[list[str]], parts: int = 10) -> dict[str, list[str]]:
    """The last two tenths of each document are for validation and test."""
    splits: dict[str, list[str]] = {name: [] for name in SPLITS}
    for document in documents:
        n = len(document)
        train, valid = n - 2 * (n // parts), n - n // parts
        for name, part in zip(SPLITS, (document[:train], document[train:valid], document[valid:]), strict=True):
            splits[name] += part
    return splits


def load_text(source: str | None) -> dict[str, list[str]]:
    """The paragraphs of each split of a file, a directory, or (None) Python's manual.

    A directory that has ``train.txt``, ``valid.txt`` and ``test.txt`` is used as it is; of any other, all ``*.txt``.
    """
    if source is None:
        return _split(manual())
    path = Path(source)
    if path.is_dir():
        if all((path / f"{name}.txt").is_file() for name in SPLITS):
            return {name: read(path / f"{name}.txt")[0] for name in SPLITS}
        files = sorted(path.rglob("*.txt"), key=lambda p: p.relative_to(path).as_posix())
        if not files:
            raise SystemExit(f"no *.txt files in {path}")
        return _split([document for file in files for document in read(file)])
    if not path.is_file():
        raise SystemExit(f"no such file or directory: {path}")
    return _split(read(path))


class Corpus:
    """Numbered words.

    ``words``: the vocabulary, most frequent first; ``index``: number of each word. ``train``, ``valid``, ``test``:
    int64 arrays. Words that occur in the training text fewer than ``min_count`` times are ``<unk>``; each paragraph
    ends in ``<eos>``.
    """

    def __init__(self, source: str | None = None, min_count: int = 3):
        text = {name: [tokens(p) + [END] for p in part] for name, part in load_text(source).items()}
        for name, part in text.items():
            if sum(map(len, part)) < 2:
                raise SystemExit(f"the text is too short: nothing is left for its {name} split")
        counts = Counter(word for paragraph in text["train"] for word in paragraph)
        rare = [word for word, n in counts.items() if n < min_count]
        counts[UNKNOWN] += sum(counts.pop(word) for word in rare if word != UNKNOWN)
        self.words = sorted(counts, key=lambda word: (-counts[word], word))
        self.index = {word: i for i, word in enumerate(self.words)}
        unknown = self.index[UNKNOWN]
        for name, part in text.items():
            numbers = [self.index.get(word, unknown) for paragraph in part for word in paragraph]
            setattr(self, name, np.array(numbers, dtype=np.int64))

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    def unigram_perplexity(self, split: np.ndarray) -> float:
        """The lowest perplexity on ``split`` that a model without context can reach: that of its own frequencies."""
        counts = np.bincount(split)
        p = counts[counts > 0] / len(split)
        return float(np.exp(-(p * np.log(p)).sum()))


def batchify(numbers: np.ndarray, batch_size: int) -> np.ndarray:
    """``(length, batch_size)``: each column a consecutive part of ``numbers``; the remainder is left out."""
    length = len(numbers) // batch_size
    if length < 2:
        raise SystemExit(f"{len(numbers)} words are too few for {batch_size} columns: use a smaller batch")
    return np.ascontiguousarray(numbers[: length * batch_size].reshape(batch_size, length).T)


def detokenize(words: list[str]) -> str:
    """Words as a line of text."""
    line = " ".join("\n" if word == END else word for word in words)
    line = re.sub(r"\s+([.,;:?!)])", r"\1", line)
    return re.sub(r"\(\s+", "(", re.sub(r" *\n *", "\n", line)).strip()
