"""Random programs that change everything in the middle of everything end without a crash and leave nothing behind."""

import child
import pytest


@pytest.mark.no_leak_check(reason="the program runs in a process of its own")
@pytest.mark.parametrize(
    "seed, steps, threads, size",
    [(1, 1500, 1, 3), (2, 1500, 1, 3), (3, 1500, 1, 3), (4, 1500, 1, 3), (5, 200, 4, 3), (6, 200, 4, 3),
     (7, 30, 4, 20_000), (8, 30, 4, 20_000)],
)
def test_random_interference_ends_without_a_crash_and_leaves_nothing(seed, steps, threads, size):
    answer = child.run(f"""
        import chaos
        threading.excepthook = lambda args: (sys.__excepthook__(*args[:3]), os._exit(1))
        sys.unraisablehook = lambda args: None
        chaos.main({seed}, {steps}, {threads}, {size})
    """)
    assert answer == ["0", "0"]
