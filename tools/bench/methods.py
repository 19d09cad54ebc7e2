"""What a call of each tensor method costs beside the NumPy call of the same meaning: nanoseconds, worst first.

`methods.py [--size N] [--limit NS] [NAME ...]`. Operands have N elements (10). With --limit the exit status is 1 if a
method costs more than that many nanoseconds above NumPy."""

import argparse
import sys
import timeit

import numpy as np

import torchlite

# name: (torchlite, NumPy). Upper-case letters are arrays; the lower-case ones are tensors with the same contents: a, b
# positive, i integer indices, k bytes, m a square matrix, v its size, c three matrices.
POINTWISE = {
    "abs": "np.abs(A)", "acos": "np.arccos(A)", "asin": "np.arcsin(A)", "atan": "np.arctan(A)", "ceil": "np.ceil(A)",
    "cos": "np.cos(A)", "cosh": "np.cosh(A)", "exp": "np.exp(A)", "expm1": "np.expm1(A)", "floor": "np.floor(A)",
    "log": "np.log(A)", "log1p": "np.log1p(A)", "neg": "np.negative(A)", "reciprocal": "np.reciprocal(A)",
    "round": "np.rint(A)", "sign": "np.sign(A)", "sin": "np.sin(A)", "sinh": "np.sinh(A)", "sqrt": "np.sqrt(A)",
    "square": "np.square(A)", "tan": "np.tan(A)", "tanh": "np.tanh(A)", "trunc": "np.trunc(A)",
}
BINARY = {
    "add": "np.add(A, B)", "sub": "np.subtract(A, B)", "mul": "np.multiply(A, B)", "div": "np.divide(A, B)",
    "pow": "np.power(A, B)", "fmod": "np.fmod(A, B)", "remainder": "np.remainder(A, B)", "atan2": "np.arctan2(A, B)",
    "maximum": "np.maximum(A, B)", "minimum": "np.minimum(A, B)", "eq": "np.equal(A, B)", "ne": "np.not_equal(A, B)",
    "lt": "np.less(A, B)", "le": "np.less_equal(A, B)", "gt": "np.greater(A, B)", "ge": "np.greater_equal(A, B)",
    "dot": "np.dot(A, B)", "ger": "np.outer(A, B)", "equal": "np.array_equal(A, B)",
}
OTHERS = {
    "a + b": "A + B", "a + 2": "A + 2", "2 / a": "2 / A", "a.__iadd__(b)": "A.__iadd__(B)", "a @ b": "A @ B",
    "m @ m": "M @ M",
    "a < b": "A < B", "-a": "-A", "k & k": "K & K", "len(a)": "len(A)", "list(a)": "list(A)",
    "a[3]": "A[3].item()", "a[2:7]": "A[2:7]", "a[None]": "A[None]", "a[...]": "A[...]", "m[1]": "M[1]",
    "m[1, 2]": "M[1, 2].item()", "m[:, 1]": "M[:, 1]", "a[i]": "A[I]", "a[k]": "A[K]", "a[[0, 3]]": "A[[0, 3]]",
    "m[[0, 1], [1, 0]]": "M[[0, 1], [1, 0]]", "a.index(i)": "A[I]",
    "a[3] = 1": "A[3] = 1", "a[2:7] = 1": "A[2:7] = 1", "a[2:7] = b[2:7]": "A[2:7] = B[2:7]", "a[i] = 1": "A[I] = 1",
    "a[k] = 1": "A[K] = 1", "a[[0, 3]] = 1": "A[[0, 3]] = 1", "m[[0, 1], [1, 0]] = 1": "M[[0, 1], [1, 0]] = 1",
    "a.abs_()": "np.abs(A, A)", "a.add_(b)": "np.add(A, B, A)", "a.mul_(2)": "np.multiply(A, 2, A)",
    "a.sum()": "A.sum()", "a.mean()": "A.mean()", "a.prod()": "A.prod()", "a.max()": "A.max()", "a.min()": "A.min()",
    "a.std()": "A.std(ddof=1)", "a.var()": "A.var(ddof=1)", "a.norm()": "np.linalg.norm(A)", "k.all()": "K.all()",
    "k.any()": "K.any()", "a.argmax()": "A.argmax()", "a.argmin()": "A.argmin()", "m.trace()": "M.trace()",
    "a.median()": "np.median(A)", "a.dist(b)": "np.linalg.norm(A - B)",
    "m.sum(0)": "M.sum(0)", "m.mean(0)": "M.mean(0)", "m.prod(0)": "M.prod(0)", "m.std(0)": "M.std(0, ddof=1)",
    "m.var(0)": "M.var(0, ddof=1)", "m.norm(2, 0)": "np.linalg.norm(M, 2, 0)",
    "m.max(0)": "(M.max(0), M.argmax(0))", "m.min(0)": "(M.min(0), M.argmin(0))", "m.all(0)": "M.all(0)",
    "m.median(0)": "(np.median(M, 0), np.argsort(M, 0))", "a.sort()": "(np.sort(A), np.argsort(A))",
    "a.topk(3)": "np.sort(A)[:3], np.argsort(A)[:3]", "a.kthvalue(3)": "(np.partition(A, 3), np.argpartition(A, 3))",
    "a.mode()": "np.unique(A, return_counts=True)", "a.cumsum(0)": "A.cumsum(0)", "a.cumprod(0)": "A.cumprod(0)",
    "a.addcmul(a, b)": "A + A * B", "a.addcdiv(a, b)": "A + A / B", "c.baddbmm(c, c)": "C + C @ C",
    "a.sigmoid()": "1 / (1 + np.exp(-A))", "a.rsqrt()": "1 / np.sqrt(A)", "a.relu()": "np.maximum(A, 0)",
    "m.softmax(1)": "np.exp(M) / np.exp(M).sum(1, keepdims=True)", "i.lshift(1)": "np.left_shift(I, 1)",
    "i.rshift(1)": "np.right_shift(I, 1)", "k.bitwise_and(k)": "np.bitwise_and(K, K)", "i ^ i": "I ^ I", "~k": "~K",
    "a.clamp(1, 2)": "A.clip(1, 2)", "a.lerp(b, 0.5)": "A + 0.5 * (B - A)", "a.frac()": "np.modf(A)[0]",
    "m.mm(m)": "M @ M", "m.mv(v)": "M @ V", "c.bmm(c)": "C @ C", "m.matmul(v)": "np.matmul(M, V)",
    "m.addmm(m, m)": "M + M @ M", "v.addmv(m, v)": "V + M @ V", "m.addr(v, v)": "M + np.outer(V, V)",
    "m.diag()": "np.diag(M)", "v.diag()": "np.diag(V)", "m.tril()": "np.tril(M)", "m.triu()": "np.triu(M)",
    "m.inverse()": "np.linalg.inv(M)", "m.qr()": "np.linalg.qr(M)", "m.svd()": "np.linalg.svd(M)",
    "m.symeig()": "np.linalg.eigvalsh(M)", "m.potrf()": "np.linalg.cholesky(M)", "m.gesv(m)": "np.linalg.solve(M, M)",
    "m.eig()": "np.linalg.eigvals(M)", "m.eig(True)": "np.linalg.eig(M)",
    "m.symeig(True)": "np.linalg.eigh(M)", "m.gels(m)": "np.linalg.lstsq(M, M)", "m.geqrf()": "np.linalg.qr(M, 'raw')",
    "c.btrifact()": "np.linalg.inv(C)",
    "t.cross(t)": "np.cross(T, T)", "a.histc(10)": "np.histogram(A, 10)",
    "m.t()": "M.T", "m.transpose(0, 1)": "M.transpose(1, 0)", "m.permute(1, 0)": "M.transpose((1, 0))",
    "a.view(2, -1)": "A.reshape(2, -1)", "a.reshape(2, -1)": "A.reshape(2, -1)", "a.view_as(b)": "A.reshape(B.shape)",
    "v.expand(3, 3)": "np.broadcast_to(V, (3, 3))", "v.expand_as(m)": "np.broadcast_to(V, M.shape)",
    "a.squeeze()": "A.squeeze()", "a.unsqueeze(0)": "np.expand_dims(A, 0)", "a.select(0, 3)": "A[3:4]",
    "a.narrow(0, 2, 5)": "A[2:7]", "a.unfold(0, 2, 1)": "np.lib.stride_tricks.sliding_window_view(A, 2)",
    "a.chunk(2)": "np.array_split(A, 2)", "a.split(5)": "np.split(A, 2)", "m.unbind(0)": "list(M)",
    "a.repeat(3)": "np.tile(A, 3)", "a.flip(0)": "np.flip(A, 0)", "a.contiguous()": "np.ascontiguousarray(A)",
    "a.clone()": "A.copy()", "a.copy()": "A.copy()", "a.copy_(b)": "np.copyto(A, B)", "a.fill_(1)": "A.fill(1)",
    "a.zero_()": "A.fill(0)", "a.resize_(2, 5)": "A.resize(2, 5, refcheck=False)", "a.double()": "A.astype(np.float64)",
    "a.long()": "A.astype(np.int64)", "a.float()": "A.astype(np.float32, copy=False)",
    "a.half()": "A.astype(np.float16)",
    "a.type('torch.DoubleTensor')": "A.astype('f8')", "a.type_as(i)": "A.astype(I.dtype)", "a.type()": "A.dtype.name",
    "a.size()": "A.shape", "a.size(0)": "A.shape[0]", "a.stride()": "A.strides", "a.dim()": "A.ndim",
    "a.shape": "A.shape",
    "a.numel()": "A.size", "a.is_contiguous()": "A.flags.c_contiguous", "a.data_ptr()": "A.ctypes.data",
    "a.tolist()": "A.tolist()", "e.item()": "E.item()", "float(e)": "E.item()", "a.numpy()": "A.view()",
    "torchlite.from_numpy(A)": "np.asarray(A)", "np.asarray(a)": "np.asarray(A)", "np.exp(a)": "np.exp(A)",
    "a.gather(0, i)": "np.take_along_axis(A, I, 0)", "a.index_select(0, i)": "A.take(I, 0)",
    "a.index_add_(0, i, s)": "np.add.at(A, I, S)", "a.index_copy_(0, i, s)": "A[I] = S",
    "a.index_add(0, i, s)": "X = A.copy(); np.add.at(X, I, S)", "a.masked_fill(k, 1)": "np.where(K, 1, A)",
    "a.index_fill_(0, i, 1)": "A[I] = 1",
    "a.scatter_(0, i, s)": "np.put_along_axis(A, I, S, 0)", "a.masked_select(k)": "A[K]",
    "a.masked_fill_(k, 1)": "np.putmask(A, K, 1)", "a.masked_scatter_(k, a)": "np.place(A, K, A)",
    "a.nonzero()": "np.transpose(A.nonzero())", "a.uniform_()": "G.random(10, np.float32)",
    "a.normal_()": "G.standard_normal(10, np.float32)", "a.random_(5)": "G.integers(0, 5, 10)",
    "a.bernoulli_(0.5)": "G.binomial(1, 0.5, 10)", "a.geometric_(0.5)": "G.geometric(0.5, 10)",
    "a.cauchy_()": "G.standard_cauchy(10)", "a.log_normal_()": "G.lognormal(size=10)",
    "a.multinomial(3)": "G.choice(10, 3, False, A / A.sum())",
    "a.exponential_()": "G.standard_exponential(10, np.float32)",
    "torchlite.zeros(10)": "np.zeros(10)", "torchlite.ones(10)": "np.ones(10)", "torchlite.eye(3)": "np.eye(3)",
    "torchlite.arange(0, 10)": "np.arange(0, 10)", "torchlite.linspace(0, 1, 10)": "np.linspace(0, 1, 10)",
    "torchlite.rand(10)": "G.random(10, np.float32)", "torchlite.zeros_like(a)": "np.zeros_like(A)",
    "torchlite.randperm(10)": "G.permutation(10)", "torchlite.logspace(0, 1, 10)": "np.logspace(0, 1, 10)",
    "torchlite.cat((a, b))": "np.concatenate((A, B))", "torchlite.stack((a, b))": "np.stack((A, B))",
    "torchlite.FloatTensor([1, 2, 3])": "np.array([1, 2, 3], 'f4')", "torchlite.FloatTensor(10)": "np.empty(10, 'f4')",
    "torchlite.FloatTensor(A)": "np.asarray(A)", "a.new(10)": "np.empty_like(A)", "repr(a)": "repr(A)",
}
ROWS = (
    {f"a.{name}()": call for name, call in POINTWISE.items()}
    | {f"a.{name}(b)": call for name, call in BINARY.items()}
    | OTHERS
)


def operands(n):
    generator = np.random.default_rng(0)
    positive = generator.random((2, n)).astype(np.float32) * 0.8 + 0.1
    matrix = np.eye(3, dtype=np.float32) * 2 + 0.25
    scope = {"A": positive[0].copy(), "B": positive[1].copy(),
             "I": np.array([3, 0, 7 % n]), "S": positive[0, :3].copy(),
             "K": (np.arange(n) % 2).astype(bool), "M": matrix, "V": matrix[0].copy(), "C": np.stack([matrix] * 3),
             "E": np.array([2.5], np.float32), "T": matrix.copy()}
    scope |= {name.lower(): torchlite.from_numpy(array.copy()) for name, array in scope.items()}
    # Tensors of their own memory, as most are.
    scope |= {name: value.clone() for name, value in scope.items() if name.islower()}
    return scope | {"np": np, "torchlite": torchlite, "G": generator}


def nanoseconds(statements, size):
    """The least time of each statement in many short runs, taken in turn so that what slows the machine slows both.

    NumPy's warnings are off.
    """
    with np.errstate(all="ignore"):
        timers = [timeit.Timer(statement, globals=operands(size)) for statement in statements]
        counts = [max(5, int(2e-4 / (timer.timeit(20) / 20))) for timer in timers]
        runs = [[timer.timeit(n) / n for timer, n in zip(timers, counts, strict=True)] for _ in range(40)]
    return [min(times) * 1e9 for times in zip(*runs, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--limit", type=float)
    parser.add_argument("names", nargs="*", help="parts of the calls to measure")
    options = parser.parse_args()
    results = []
    for ours, theirs in ROWS.items():
        if options.names and not any(name in ours for name in options.names):
            continue
        times = nanoseconds((ours, theirs), options.size)
        results.append((times[0] - times[1], *times, ours, theirs))
    results.sort(reverse=True)
    print(f"{'above':>8} {'ours':>8} {'NumPy':>8}")
    for above, own, numpy, ours, theirs in results:
        print(f"{above:8.0f} {own:8.0f} {numpy:8.0f}  {ours:32} {theirs}")
    if options.limit is not None and results and results[0][0] > options.limit:
        sys.exit(1)


if __name__ == "__main__":
    main()
