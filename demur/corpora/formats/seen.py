"""Which of many millions of keys were met before."""

from __future__ import annotations

import array
import hashlib


class Seen:
    """Which of many millions of keys were met before, in 11 to 22 bytes each where a `set` takes a hundred.

    Keys are known by 64 bits of BLAKE2b in an open-addressed table that is at most three quarters full. Two of six
    million keys share their 64 bits with a probability of one in a million.

    >>> seen = Seen()
    >>> seen.add("Q1"), seen.add("Q1"), "Q1" in seen, "Q2" in seen, len(seen)
    (True, False, True, False, 1)
    """

    def __init__(self) -> None:
        self._slots = array.array("Q", bytes(8 * 1024))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __contains__(self, key: str) -> bool:
        mark = _mark(key)
        return self._slots[self._place(mark)] == mark

    def add(self, key: str) -> bool:
        """Remember a key; True when it is new."""
        mark = _mark(key)
        place = self._place(mark)
        if self._slots[place] == mark:
            return False
        self._slots[place] = mark
        self._used += 1
        if 4 * self._used > 3 * len(self._slots):
            old, self._slots = self._slots, array.array("Q", bytes(16 * len(self._slots)))
            for each in old:
                if each:
                    self._slots[self._place(each)] = each
        return True

    def _place(self, mark: int) -> int:
        """The slot that holds the mark, or the free one where it belongs."""
        last = len(self._slots) - 1
        place = mark & last
        while self._slots[place] not in (0, mark):
            place = (place + 1) & last
        return place


def _mark(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") or 1
