"""The word language model: its corpus, a small training run, and resuming bit for bit."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import torchlite

EXAMPLE = Path(__file__).parents[2] / "examples" / "word_language_model"


@pytest.fixture
def example(monkeypatch):
    """The example's modules by name, imported afresh as its own directory's."""
    names = ("data", "model", "main")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    modules = {name: importlib.import_module(name) for name in names}
    monkeypatch.setattr(modules["main"], "tqdm", None)
    yield type("Example", (), modules)
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def text(tmp_path):
    """A file of sentences in which the next word depends on the last."""
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(120):
        a, b = generator.choice(["dog", "cat", "bird"], 2)
        sound = {"dog": "barks", "cat": "meows", "bird": "sings"}
        lines.append(f"The {a} {sound[a]} and the {b} {sound[b]}.")
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(lines))
    return path


def run(example, tmp_path, *arguments, save="model.pt"):
    """Runs main with a small model; returns its exit status."""
    small = "--emsize 8 --nhid 8 --bptt 10 --batch-size 5 --dropout 0.2 --lr 5 --words 10 --log-interval 1000"
    return example.main.main([*small.split(), "--save", str(tmp_path / save), *map(str, arguments)])


# ---- corpus --------------------------------------------------------------------------------------------------------


def test_words_and_punctuation_are_tokens(example):
    assert example.data.tokens("It\N{RIGHT SINGLE QUOTATION MARK}s 3.11: don't (re-raise) __del__()!") == [
        "it's", "3.11", ":", "don't", "(", "re-raise", ")", "__del__", "(", ")", "!",
    ]


def test_paragraphs_join_lines_and_hyphenated_words(example):
    assert example.data.paragraphs("a post-\n  mortem\nday\n\n \nnext\n") == ["a post-mortem day", "next"]


def test_the_manual_is_prose(example):
    documents = example.data.manual()
    everything = [paragraph for document in documents for paragraph in document]
    assert len(everything) == len(set(everything))
    assert sum(len(p.split()) for p in everything) > 25_000
    assert not any(mark in p for p in everything for mark in ("::=", ">>>", "+---", "****"))


def test_the_manual_corpus_is_the_same_each_time(example):
    a, b = example.data.Corpus(), example.data.Corpus()
    assert a.words == b.words and np.array_equal(a.train, b.train)
    assert 500 < len(a.words) < 5000
    assert len(a.train) > 5 * len(a.valid) > 0


def test_rare_words_become_unknown(example, text):
    text.write_text(text.read_text().replace("dog", "zebra", 2))
    corpus = example.data.Corpus(str(text), min_count=3)
    assert "zebra" not in corpus.index and "<unk>" in corpus.index
    assert (corpus.train == corpus.index["<unk>"]).sum() == 2


def test_a_directory_gives_its_splits_or_all_of_its_texts(example, tmp_path):
    for name, content in (("train", "a b a b"), ("valid", "a b"), ("test", "b a")):
        (tmp_path / f"{name}.txt").write_text(content)
    corpus = example.data.Corpus(str(tmp_path), min_count=1)
    assert [corpus.words[i] for i in corpus.test] == ["b", "a", "<eos>"]
    (tmp_path / "test.txt").unlink()
    assert [len(part) for part in example.data.load_text(str(tmp_path)).values()] == [2, 0, 0]


@pytest.mark.parametrize("make, message", [
    (lambda path: path / "missing", "no such file"),
    (lambda path: path, "no \\*.txt files"),
])
def test_a_source_without_text_is_refused(example, tmp_path, make, message):
    with pytest.raises(SystemExit, match=message):
        example.data.Corpus(str(make(tmp_path)))


def test_unigram_perplexity_is_that_of_the_frequencies(example, text):
    corpus = example.data.Corpus(str(text))
    assert corpus.unigram_perplexity(np.array([0, 1, 2, 3])) == pytest.approx(4)
    assert corpus.unigram_perplexity(np.array([0, 0, 0])) == pytest.approx(1)


def test_columns_are_consecutive(example):
    columns = example.data.batchify(np.arange(11), 2)
    assert columns.T.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_text_is_put_together_again(example):
    assert example.data.detokenize(["a", "(", "b", ")", ",", "c", ".", "<eos>", "d"]) == "a (b), c.\nd"


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.no_leak_check(reason="trains whole models; the engine's own tests look for leaks")
def test_training_beats_word_frequencies_and_says_so(example, tmp_path, text, capsys):
    assert run(example, tmp_path, "--data", text, "--epochs", 6) == 0
    out = capsys.readouterr().out
    assert "unigram perplexity of the valid split" in out
    assert out.count("words/s") == 6 and "epoch  6/6" in out
    assert {p.name for p in tmp_path.iterdir()} == {"text.txt", "model.pt"}


@pytest.mark.no_leak_check(reason="trains whole models; the engine's own tests look for leaks")
def test_a_model_that_learns_nothing_exits_with_1(example, tmp_path, text):
    assert run(example, tmp_path, "--data", text, "--epochs", 1, "--lr", 0) == 1


@pytest.mark.no_leak_check(reason="trains whole models; the engine's own tests look for leaks")
@pytest.mark.parametrize("rnn, tied", [("LSTM", "--tied"), ("LSTM", "--no-tied"), ("GRU", "--no-tied"),
                                       ("RNN_TANH", "--tied")])
def test_resuming_continues_bit_for_bit(example, tmp_path, text, rnn, tied):
    settings = ["--data", text, "--rnn", rnn, tied]
    run(example, tmp_path, *settings, "--epochs", 2, save="whole.pt")
    run(example, tmp_path, *settings, "--epochs", 1, save="parts.pt")
    torchlite.manual_seed(99)
    run(example, tmp_path, "--resume", "--epochs", 2, save="parts.pt")
    whole, parts = (torchlite.load(str(tmp_path / f"{name}.pt")) for name in ("whole", "parts"))
    for key in ("model", "best"):
        assert list(whole[key]) == list(parts[key])
        for name, tensor in whole[key].items():
            assert tensor.numpy().tobytes() == parts[key][name].numpy().tobytes(), (key, name)
    for key in ("epoch", "lr", "best_loss", "settings", "vocabulary"):
        assert whole[key] == parts[key], key


@pytest.mark.no_leak_check(reason="trains whole models; the engine's own tests look for leaks")
def test_the_learning_rate_is_annealed_when_validation_does_not_improve(example, tmp_path, text):
    run(example, tmp_path, "--data", text, "--epochs", 2, "--lr", 0, "--anneal", 2)
    assert torchlite.load(str(tmp_path / "model.pt"))["lr"] == 0
    run(example, tmp_path, "--data", text, "--epochs", 3, "--lr", 1e-30, "--anneal", 2)
    assert torchlite.load(str(tmp_path / "model.pt"))["lr"] == 1e-30 / 4


def test_resuming_without_a_checkpoint_is_refused(example, tmp_path):
    with pytest.raises(SystemExit, match="there is no checkpoint"):
        run(example, tmp_path, "--resume")


def test_tied_weights_need_equal_sizes(example):
    with pytest.raises(ValueError, match="emsize equal to nhid, but got 4 and 5"):
        example.model.RNNModel("LSTM", 10, 4, 5, 1, 0.0, True)


def test_the_trained_model_is_shown_as_a_lambda_and_replayed(example, text, tmp_path, capsys):
    run(example, tmp_path, "--data", text, "--epochs", 1)
    out = capsys.readouterr().out
    assert "the model as a lambda:\nlambda %0 : Long(" in out and "= Embedding %0, %" in out
    assert " more lines" in out or "Ret %" in out
    assert "equal to the model, bit by bit" in out
