"""What a tally and its marks do about work that ends its process, without processes: a death is an exception here."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.errors import StorageError, UsageError
from demur.indexing.deaths import DEATHS, IN_A_ROW, Marks, Tally, WorkerEndedError, ended_its_process, made_in_pieces
from demur.indexing.embed import Item, MadeShard
from demur.indexing.embed.items import input_digest


class Worker:
    """Does what a process would, as often as a cluster repeats it: a death leaves the run unfinished."""

    def __init__(self, run, batch, deadly, *, opens=lambda: None):
        self.run, self.batch, self.deadly, self.opens = run, batch, deadly, opens
        self.items = [Item(f"i{n}", text=f"text {n}") for n in range(*run)]
        self.tally, self.deaths, self.tried = Tally(), 0, []

    def make(self, items):
        self.tried.append([item.id for item in items])
        if self.deadly(items):
            raise WorkerEndedError
        ids = "".join(json.dumps(item.id) + "\n" for item in items).encode()
        return MadeShard(input_digest(items), len(items), 0, b"v" * len(items), ids, b"")

    def told(self, method, *values):
        return getattr(self.tally, method)(*values)

    def once(self):
        marks = Marks(self.told, self.run)
        with marks.taken():
            self.opens()
            return made_in_pieces(self.items, self.batch, marks, self.make)

    def repeated(self):
        for _ in range(500):
            try:
                return self.once()
            except WorkerEndedError:
                self.deaths += 1
        raise AssertionError("repeated without end")


def test_a_run_without_deaths_is_one_piece():
    worker = Worker((10, 50), 8, lambda items: False)
    made = worker.repeated()
    assert (made.items, made.failed, len(worker.tried)) == (40, 0, 1)
    assert made.input == input_digest(worker.items)


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(1, 40), st.integers(1, 12), st.sets(st.integers(0, 44), max_size=3))
def test_exactly_the_deadly_items_are_left_out(first, length, batch, deadly):
    names = {f"i{n}" for n in deadly}
    worker = Worker((first, first + length), batch, lambda items: any(item.id in names for item in items))
    made = worker.repeated()
    all_ids = [item.id for item in worker.items]
    assert [json.loads(line) for line in made.ids.splitlines()] == [i for i in all_ids if i not in names]
    wrong = [json.loads(line) for line in made.errors.splitlines()]
    assert [row["id"] for row in wrong] == [i for i in all_ids if i in names]
    assert all(f"{DEATHS} times" in row["error"] and ended_its_process(row["error"]) for row in wrong)
    assert (made.items, made.failed) == (length, len(wrong))
    assert made.input == input_digest(worker.items), "a later run must know the shard again"
    assert worker.deaths <= DEATHS * len(wrong)
    assert worker.repeated() == made, "done again, with what is known"


def test_pieces_that_are_done_are_not_done_again():
    worker = Worker((0, 64), 8, lambda items: any(item.id == "i61" for item in items))
    worker.repeated()
    batches = [tried for tried in worker.tried if tried == [f"i{n}" for n in range(8)]]
    assert len(batches) == 1
    assert len([tried for tried in worker.tried if tried == ["i61"]]) == 1, "alone once: the third death"


def test_a_batch_that_is_too_much_together_is_done_one_by_one():
    worker = Worker((0, 16), 8, lambda items: len(items) > 1 and any(item.id == "i9" for item in items))
    made = worker.repeated()
    assert (made.items, made.failed, worker.deaths) == (16, 0, 2)


def test_when_everything_ends_the_worker_the_run_ends_by_name():
    worker = Worker((800, 900), 8, lambda items: True)
    with pytest.raises(StorageError, match=f"items 800 to 899: the worker ended {IN_A_ROW} times in a row.*memory"):
        worker.repeated()
    with pytest.raises(StorageError, match="in a row"):
        worker.repeated()


def test_a_model_that_cannot_be_opened_ends_the_run():
    def opens():
        raise WorkerEndedError

    worker = Worker((0, 9), 8, lambda items: False, opens=opens)
    with pytest.raises(StorageError, match=f"ended {DEATHS} times while it opened its model"):
        worker.repeated()
    assert worker.deaths == DEATHS


def test_an_error_is_no_death():
    def opens():
        raise UsageError("no such model")

    worker = Worker((0, 9), 8, lambda items: False, opens=opens)
    for _ in range(2 * IN_A_ROW):
        with pytest.raises(UsageError, match="no such model"):
            worker.once()
    worker.opens = lambda: None
    assert worker.once().items == 9


def test_work_that_cannot_be_cut_is_given_up():
    tally = Tally()

    def filled(work):
        marks = Marks(lambda method, *values: getattr(tally, method)(*values), (5, 9))
        with marks.taken():
            return marks.whole(work)

    def death():
        raise WorkerEndedError

    for _ in range(DEATHS):
        with pytest.raises(WorkerEndedError):
            filled(death)
    with pytest.raises(StorageError, match="items 5 to 8: the worker ended 3 times on these"):
        filled(lambda: None)
