"""The device's own thread."""

from __future__ import annotations

import threading

import pytest

from tunix_core.device import DeviceThread


def test_its_owner_goes_on_meanwhile_and_is_told_of_the_end() -> None:
    told, may_end = threading.Event(), threading.Event()
    device = DeviceThread(told.set)
    threads = list[str]()

    def work() -> None:
        threads.append(threading.current_thread().name)
        may_end.wait(10)

    device.begin(work, lambda: True)
    assert device.busy and not device.done
    may_end.set()
    assert told.wait(10) and device.done
    assert device.end() and not device.busy
    assert threads == ["device"]
    device.close(10)


def test_inline_it_works_in_its_owners_thread_when_the_work_is_ended() -> None:
    device = DeviceThread(lambda: None, inline=True)
    threads = list[threading.Thread]()
    device.begin(lambda: threads.append(threading.current_thread()), lambda: False)
    assert device.busy and device.done and not threads
    assert not device.end()
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("inline", [False, True])
def test_its_owner_gets_the_error_and_may_go_on(inline: bool) -> None:
    device = DeviceThread(lambda: None, inline=inline)
    ended = list[str]()

    def fail() -> None:
        raise MemoryError("no room")

    device.begin(fail, lambda: not ended.append("failed"))
    with pytest.raises(MemoryError, match="no room"):
        device.end()
    assert not device.busy and not ended
    device.begin(lambda: None, lambda: not ended.append("second"))
    assert device.end() and ended == ["second"]
    device.close(10)


def test_it_is_let_go_though_its_work_hangs() -> None:
    hold = threading.Event()
    device = DeviceThread(lambda: None)
    device.begin(lambda: bool(hold.wait(60)) and None, lambda: True)
    device.close(0.01)
    assert not device.busy
    hold.set()
