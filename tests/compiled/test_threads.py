"""A thread that is in compiled code keeps no other one waiting: a service plans for one while it answers others."""

import threading
import time

from safe2real._compiled.cache import compiled


@compiled
def busy(times):
    total = 0.0
    for number in range(times):
        total += 1.0 / (1.0 + number * total)
    return total


def test_other_threads_go_on():
    busy(10)
    times, ticks, seconds = 10**7, 0, 0.0
    while seconds < 0.3:  # however fast the machine is
        began = time.perf_counter()
        busy(times)
        seconds, times = time.perf_counter() - began, 2 * times
    thread = threading.Thread(target=busy, args=(times,))
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    assert ticks > 10
