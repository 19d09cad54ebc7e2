"""The leak harness: a pytest plugin that re-runs every test and fails the one that grows on each re-run.

A test's first pass fills caches and imports modules. The plugin then counts, runs the test again and counts again.
No growth: done, which is the ordinary case and costs one more run of the test. Growth: it runs again, and only a
counter that grew on every one of `CONFIRMATIONS` further runs is suspected, so that a cache or a growing free list
never is. The suspicion is then put to another proof: caches are emptied, the test runs `PROOF_RUNS` times without
anyone counting in between, and only what gained at least one a run fails the test. A leak always does.

What is counted, after a full collection:
  live objects of each type of torchlite, and the bytes that its allocator has handed out: exact;
  objects that the collector tracks, blocks of the object allocator, and references to None and its like.

Function-scoped fixtures are torn down and set up afresh for each run. A hypothesis test is re-run with a few fixed
examples and judged by the exact counters alone, since hypothesis keeps notes of its own.

`@pytest.mark.no_leak_check(reason="...")` exempts a test, `--no-leak-check` all of them.
"""

import gc
import linecache
import re
import sys
import time
from collections import Counter

import numpy as np
import pytest
from _pytest.tmpdir import tmppath_result_key

CONFIRMATIONS = 3
# The interpreter's own caches and free lists take many runs to settle, so blocks and references alone need many.
# A test that is too slow for them is judged by the other counters.
BLOCK_CONFIRMATIONS = 256
BLOCK_SECONDS = 4.0
PROOF_RUNS = 16
FREEZE_EVERY = 64


# A leaked reference to an object that lives anyway leaves no object behind, only its count. NumPy's dtypes are not
# among them, nor is the total of a debug CPython counted: `np.ones` itself leaks a reference to its dtype.
# From Python 3.12 on all but the last are immortal and have no count.
LASTING = [None, True, False, NotImplemented, Ellipsis, (), "", b"", *range(-1, 11), np.ndarray, np.add]
REFERENCE_NAMES = [f"references to {o!r}" for o in LASTING]
SLOW = {"allocated blocks", *REFERENCE_NAMES}


def pytest_addoption(parser):
    parser.addoption("--no-leak-check", action="store_true", help="run each test once, without the leak harness")


def pytest_configure(config):
    if not config.getoption("--no-leak-check"):
        config.pluginmanager.register(LeakHarness(), "leak-harness")


def exact_counters(by_type):
    """Counters that return to the same value whenever nothing leaks: our objects, and bytes of our allocator."""
    counts = {f"live {kind.__module__}.{kind.__qualname__} objects": n for kind, n in by_type.items()
              if str(kind.__module__).startswith("torchlite")}
    extension = sys.modules.get("torchlite._C")
    if hasattr(extension, "_memory_stats"):
        counts["allocated bytes"] = extension._memory_stats()["allocated_bytes"]
    return counts


def counters(exact_only=False):
    gc.collect()
    # Read before anything is allocated for the answer.
    blocks = sys.getallocatedblocks()
    references = list(map(sys.getrefcount, LASTING))
    by_type = Counter(map(type, gc.get_objects()))
    counts = exact_counters(by_type)
    if not exact_only:
        counts["allocated blocks"] = blocks
        counts.update(zip(REFERENCE_NAMES, references, strict=True))
        counts["tracked objects"] = by_type.total()
    return counts


def steady_counters(exact_only):
    """The counters while an answer of theirs is alive, as this one will be at the next count."""
    answer = counters(exact_only)
    before = counters(exact_only)
    del answer
    return before


def grown(before, after):
    return {name: after[name] - before.get(name, 0) for name in after if after[name] > before.get(name, 0)}


def suspected(run, exact_only):
    """Calls `run` until no counter has grown every time; the counters that always did.

    The first call may still warm something up and is not counted against the test."""
    before = steady_counters(exact_only)
    run()
    after = counters(exact_only)
    suspects = set(grown(before, after))
    done, start = 0, time.process_time()
    while suspects:
        only_slow = suspects <= SLOW
        if done >= (BLOCK_CONFIRMATIONS if only_slow else CONFIRMATIONS):
            return suspects
        if only_slow and done >= CONFIRMATIONS and time.process_time() - start > BLOCK_SECONDS:
            return set()
        before = after
        run()
        after = counters(exact_only)
        suspects &= set(grown(before, after))
        done += 1
    return suspects


def empty_caches():
    """Empties what may fill while a test runs and is no leak."""
    sys._clear_type_cache()
    re.purge()
    linecache.clearcache()
    extension = sys.modules.get("torchlite._C")
    if hasattr(extension, "_empty_cache"):
        extension._empty_cache()


def growth(run, exact_only=False):
    """The counters that grow on every call of `run`, with their growth a call."""
    suspects = suspected(run, exact_only)
    if not suspects:
        return {}
    empty_caches()
    run()  # fills the caches again
    before = steady_counters(exact_only)
    for _ in range(PROOF_RUNS):
        run()
    gained = grown(before, counters(exact_only))
    return {name: gained[name] // PROOF_RUNS for name in suspects if gained.get(name, 0) >= PROOF_RUNS}


def has_state(item):
    """True if a function-scoped fixture of `item` is more than a parameter."""
    parameters = getattr(item, "callspec", None)
    direct = parameters.params if parameters else {}
    return any(definition.scope == "function" and not (name in direct and definition.baseid == "")
               for name, definitions in item._fixtureinfo.name2fixturedefs.items() for definition in definitions)


def set_up_again(item):
    """Tears the function-scoped fixtures of `item` down and replaces them by fresh ones.

    pytest notes a finalizer at the item and at each wider fixture that the fresh ones use; the spent notes are dropped
    so that they don't look like a leak."""
    wider = [d for definitions in item._fixtureinfo.name2fixturedefs.values() for d in definitions
             if d.scope != "function"]
    noted = [len(d._finalizers) for d in wider]
    item.stash.setdefault(tmppath_result_key, {})
    finalizers = item.session._setupstate.stack[item][0]
    while len(finalizers) > 1:  # the first one is the item's own teardown
        finalizers.pop()()
    item.funcargs = {}
    item._initrequest()
    item._request._fillfixtures()
    for definition, length in zip(wider, noted, strict=True):
        del definition._finalizers[length:]


def with_few_examples(test):
    """`test`, a hypothesis test, made to draw the same few examples on each call; and how to undo that."""
    from hypothesis import Phase, settings

    usual = test._hypothesis_internal_use_settings
    few = settings(usual, max_examples=3, database=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
    target = getattr(test, "__func__", test)
    target._hypothesis_internal_use_settings = few

    def undo():
        target._hypothesis_internal_use_settings = usual

    return undo


class LeakHarness:
    def __init__(self):
        self.calls = 0

    def pytest_collection_finish(self, session):
        self.settle()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        for marker in item.iter_markers("no_leak_check"):
            if not marker.kwargs.get("reason"):
                pytest.fail("no_leak_check needs a reason", pytrace=False)
        self.calls += 1
        if self.calls % FREEZE_EVERY == 0:
            self.settle()

    def settle(self):
        """Moves what is alive out of the collector's sight: later collections only look at what came after."""
        gc.collect()
        gc.freeze()

    def pytest_sessionfinish(self, session):
        gc.unfreeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        result = yield
        if pyfuncitem.get_closest_marker("no_leak_check") is None:
            self.check(pyfuncitem)
        return result

    def check(self, item):
        test, stateful = item.obj, has_state(item)
        names = item._fixtureinfo.argnames
        hypothesis_test = getattr(test, "is_hypothesis_test", False)

        def run():
            if stateful:
                set_up_again(item)
            test(**{name: item.funcargs[name] for name in names})

        undo = with_few_examples(test) if hypothesis_test else None
        try:
            leaks = growth(run, exact_only=hypothesis_test)
        finally:
            if undo:
                undo()
        if sys.version_info >= (3, 12) and "tmp_path" in item.fixturenames:
            # pathlib interns the names of the new folders, and interned strings live for good from 3.12 on.
            leaks.pop("allocated blocks", None)
        if leaks:
            lines = "".join(f"\n  {name}: +{n} on every run" for name, n in sorted(leaks.items()))
            pytest.fail(f"leak: the test passes, but each re-run leaves more behind{lines}", pytrace=False)
