"""Trains a recurrent language model on a text, and writes some of its own.

    python main.py                            Python's reference manual, about a minute and a half
    python main.py --data FILE_OR_DIR         any text
    python main.py --resume --epochs 60       goes on where the last run stopped

Prints perplexities per epoch next to that of the best model without context (the split's own word frequencies), and at
the end the trained model as a traced lambda, replayed on text that it has not seen. Exits with status 1 if the trained
model is no better than word frequencies, or the replay differs from the model.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

if "OPENBLAS_NUM_THREADS" not in os.environ:
    # The matrices are small: a second thread gains little, and loses much when another program wants its core.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from data import END, UNKNOWN, Corpus, batchify, detokenize
from model import RNNModel, detach

import torchlite
import torchlite.nn.functional as F
from torchlite import jit, nn, optim
from torchlite.autograd import Variable

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

# What a checkpoint decides on --resume: everything that the model or its training depends on.
SETTINGS = "data min_count rnn emsize nhid nlayers dropout tied bptt batch_size lr anneal clip seed".split()
EVAL_BATCH_SIZE = 10


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", metavar="FILE_OR_DIR", help="the text (default: Python's reference manual)")
    add("--min-count", type=int, default=3, help="rarer words become <unk> (default %(default)s)")
    add("--rnn", default="LSTM", choices=("LSTM", "GRU", "RNN_TANH", "RNN_RELU"), help="default %(default)s")
    add("--emsize", type=int, default=200, help="size of the word vectors (default %(default)s)")
    add("--nhid", type=int, default=200, help="hidden units per layer (default %(default)s)")
    add("--nlayers", type=int, default=2, help="recurrent layers (default %(default)s)")
    add("--dropout", type=float, default=0.5, help="0 for none (default %(default)s)")
    add("--tied", action=argparse.BooleanOptionalAction, default=True, help="one matrix for embedding and decoder")
    add("--lr", type=float, default=20.0, help="initial learning rate (default %(default)s)")
    add("--anneal", type=float, default=4.0, help="divides it when validation stops improving (default %(default)s)")
    add("--clip", type=float, default=0.25, help="largest norm of the gradient (default %(default)s)")
    add("--bptt", type=int, default=35, help="words that gradients flow back over (default %(default)s)")
    add("--batch-size", type=int, default=20, help="default %(default)s")
    add("--epochs", type=int, default=30, help="default %(default)s")
    add("--seed", type=int, default=1111, help="default %(default)s")
    add("--save", metavar="PATH", default="model.pt", help="the checkpoint, written each epoch (default %(default)s)")
    add("--resume", action="store_true", help="go on from the checkpoint, with its settings")
    add("--words", type=int, default=100, help="length of the sample (default %(default)s)")
    add("--temperature", type=float, default=0.8, help="of the sample; higher is more varied (default %(default)s)")
    add("--log-interval", type=int, default=20, metavar="N", help="without a progress bar: a line every N batches")
    return parser.parse_args(argv)


def batches(columns: np.ndarray, bptt: int, volatile: bool = False) -> Iterator[tuple[Variable, Variable]]:
    """Pairs (words, the words that follow): ``(length, batch)`` and ``(length * batch,)``, in order."""
    for start in range(0, len(columns) - 1, bptt):
        stop = min(start + bptt, len(columns) - 1)
        targets = np.ascontiguousarray(columns[start + 1 : stop + 1]).reshape(-1)
        yield Variable(np.ascontiguousarray(columns[start:stop]), volatile=volatile), Variable(targets)


def perplexity(loss: float) -> float:
    """exp(loss), infinite if that is out of range."""
    return math.exp(loss) if not loss > 700 else math.inf


class Progress:
    """A bar over the batches of an epoch or, without tqdm, a line now and then."""

    def __init__(self, title: str, total: int, interval: int):
        self.title, self.total, self.interval, self.done = title, total, interval, 0
        self.bar = tqdm(total=total, desc=title, unit="batch", leave=False, mininterval=0.5) if tqdm else None

    def step(self, state: str) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.set_postfix_str(state, refresh=False)
            self.bar.update()
        elif self.done % self.interval == 0:
            print(f"{self.title}  {self.done:4}/{self.total} batches  {state}", flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def train_epoch(model: RNNModel, optimizer: Any, columns: np.ndarray, args: Any, title: str) -> tuple[float, float]:
    """One pass over the training text. Returns the mean loss per word and the words per second."""
    model.train()
    hidden = model.init_hidden(columns.shape[1])
    total, words, start = 0.0, 0, time.perf_counter()
    progress = Progress(title, math.ceil((len(columns) - 1) / args.bptt), args.log_interval)
    try:
        for inputs, targets in batches(columns, args.bptt):
            hidden = detach(hidden)
            optimizer.zero_grad()
            scores, hidden = model(inputs, hidden)
            loss = F.cross_entropy(scores, targets)
            loss.backward()
            nn.utils.clip_grad_norm(model.parameters(), args.clip)
            optimizer.step()
            n = targets.data.numel()
            total, words = total + loss.data[0] * n, words + n
            speed = words / (time.perf_counter() - start)
            progress.step(f"perplexity {perplexity(total / words):.1f}, {speed:.0f} words/s")
    finally:
        progress.close()
    return total / words, words / (time.perf_counter() - start)


def evaluate(model: RNNModel, numbers: np.ndarray, bptt: int) -> float:
    """The mean loss per word of a split."""
    model.eval()
    columns = batchify(numbers, min(EVAL_BATCH_SIZE, max(1, len(numbers) // 2)))
    hidden = model.init_hidden(columns.shape[1], volatile=True)
    total = 0.0
    for inputs, targets in batches(columns, bptt, volatile=True):
        scores, hidden = model(inputs, hidden)
        total += F.cross_entropy(scores, targets).data[0] * targets.data.numel()
    return total / ((len(columns) - 1) * columns.shape[1])


def sample(model: RNNModel, corpus: Corpus, length: int, temperature: float, seed: int) -> str:
    """``length`` words that the model goes on with after the start of a paragraph. Draws from its own generator."""
    model.eval()
    generator = np.random.default_rng(seed)
    hidden, word, text = model.init_hidden(1, volatile=True), corpus.index[END], []
    for _ in range(length):
        scores, hidden = model(Variable(np.array([[word]]), volatile=True), hidden)
        logits = scores.data.numpy().astype(np.float64).reshape(-1) / temperature
        logits[corpus.index[UNKNOWN]] = -np.inf
        p = np.exp(logits - logits.max())
        word = int(generator.choice(len(p), p=p / p.sum()))
        text.append(corpus.words[word])
    return detokenize(text)


def show_trace(model: RNNModel, numbers: np.ndarray, bptt: int, shown: int = 6) -> bool:
    """Traces the model on one batch and prints the ends of the lambda; whether its replay on the next batches, words
    that the trace has not seen, gives what the model gives, bit by bit."""
    model.eval()
    columns = batchify(numbers, min(EVAL_BATCH_SIZE, max(1, len(numbers) // 2)))
    hidden = model.init_hidden(columns.shape[1], volatile=True)
    traced = jit.trace(model)
    replayed, same, first = 0, True, None
    for words, _ in batches(columns, bptt, volatile=True):
        if first is None:
            first = words.size()
            text = str(traced.graph_for(words, hidden)).rstrip().splitlines()
            left_out = len(text) - 2 * shown
            middle = [f"  ... {left_out} more lines ..."] if left_out > 0 else text[shown:-shown]
            print("\n".join(["the model as a lambda:", *text[:shown], *middle, *text[-shown:]]))
        if words.size() != first or replayed == 20:
            break
        expected, expected_hidden = model(words, hidden)
        scores, hidden = traced(words, hidden)
        pairs = [(scores, expected)]
        pairs += zip(hidden, expected_hidden, strict=True) if isinstance(hidden, tuple) else [(hidden, expected_hidden)]
        same = same and all(np.array_equal(a.data.numpy(), b.data.numpy()) for a, b in pairs)
        replayed += 1
    print(f"replayed on {replayed} batches: {'equal to' if same else 'DIFFERENT from'} the model, bit by bit")
    return same


def snapshot(model: RNNModel) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    checkpoint = None
    if args.resume:
        if not os.path.exists(args.save):
            raise SystemExit(f"there is no checkpoint {args.save} to resume from")
        checkpoint = torchlite.load(args.save)
        vars(args).update(checkpoint["settings"])

    torchlite.manual_seed(args.seed)
    corpus = Corpus(args.data, args.min_count)
    columns = batchify(corpus.train, args.batch_size)
    model = RNNModel(args.rnn, len(corpus.words), args.emsize, args.nhid, args.nlayers, args.dropout, args.tied)
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    unigram = corpus.unigram_perplexity(corpus.valid)
    print(
        f"{len(corpus.train)} / {len(corpus.valid)} / {len(corpus.test)} words to train / validate / test, "
        f"vocabulary {len(corpus.words)}, {sum(p.data.numel() for p in model.parameters())} parameters"
    )
    print(f"unigram perplexity of the valid split: {unigram:.1f}", flush=True)

    epoch, best_loss, best = 0, math.inf, snapshot(model)
    if checkpoint is not None:
        if checkpoint["vocabulary"] != corpus.words:
            raise SystemExit(f"{args.save} was trained on another text: its vocabulary differs")
        model.load_state_dict(checkpoint["model"])
        epoch, best_loss, best = checkpoint["epoch"], checkpoint["best_loss"], checkpoint["best"]
        optimizer.param_groups[0]["lr"] = checkpoint["lr"]
        torchlite.set_rng_state(checkpoint["rng"])
        print(f"resumed {args.save} after epoch {epoch}")

    try:
        while epoch < args.epochs:
            title = f"epoch {epoch + 1:2}/{args.epochs}"
            start = time.perf_counter()
            lr = optimizer.param_groups[0]["lr"]
            train_loss, speed = train_epoch(model, optimizer, columns, args, title)
            valid_loss = evaluate(model, corpus.valid, args.bptt)
            epoch += 1
            print(
                f"{title}  {time.perf_counter() - start:5.1f} s  {speed:6.0f} words/s  lr {lr:<8.4g}  "
                f"perplexity: train {perplexity(train_loss):7.1f}  valid {perplexity(valid_loss):7.1f}  "
                f"(unigram {unigram:.1f})",
                flush=True,
            )
            if valid_loss < best_loss:
                best_loss, best = valid_loss, snapshot(model)
            else:
                optimizer.param_groups[0]["lr"] = lr / args.anneal
            torchlite.save(
                {
                    "settings": {name: getattr(args, name) for name in SETTINGS},
                    "vocabulary": corpus.words,
                    "epoch": epoch,
                    "lr": optimizer.param_groups[0]["lr"],
                    "best_loss": best_loss,
                    "best": best,
                    "model": model.state_dict(),
                    "rng": torchlite.get_rng_state(),
                },
                args.save,
            )
    except KeyboardInterrupt:
        print(f"\nstopped in epoch {epoch + 1}; --resume goes on after epoch {epoch}")

    model.load_state_dict(best)
    valid, test = (perplexity(evaluate(model, split, args.bptt)) for split in (corpus.valid, corpus.test))
    print(
        f"best model: perplexity {valid:.1f} on the valid split (unigram {unigram:.1f}), {test:.1f} on the test split "
        f"(unigram {corpus.unigram_perplexity(corpus.test):.1f})"
    )
    print(f"\n{sample(model, corpus, args.words, args.temperature, args.seed)}\n")
    if not show_trace(model, corpus.test, args.bptt):
        print("the replay of the model's trace differs from the model", file=sys.stderr)
        return 1
    if not valid < unigram:
        print("the model is no better than word frequencies alone", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
