"""The processes of a host count in files of one folder, and the counts outlive the processes."""

import random
import resource
from pathlib import Path

import pytest

from runtime import metrics_folder
from runtime.metrics import METRICS
from tests.support.counting import CountingProcess, start_counting

ACCEPTED = ("tocsin_alerts_accepted_total", ("source", "generic"))
RESTARTS = 50


@pytest.fixture
def folder(home, monkeypatch):
    """The folder that this test reads without counting in it."""
    monkeypatch.setenv(metrics_folder.VARIABLE, str(home / "metrics"))
    return home / "metrics"


def collect():
    """Return the values of all series of the host."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in metrics_folder.collect()
        for sample in family.samples
    }


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


MERGED = ["counter_merged.db", "histogram_merged.db", "lock"]


def test_the_counts_of_two_processes_are_added(home, folder):
    with start_counting(home, 2) as (first, second):
        first.count(0.03)
        second.count(7.0)
        found = collect()

    def bucket(bound):
        return found["tocsin_timer_lateness_seconds_bucket", ("kind", "escalate"), ("le", bound)]

    assert found[ACCEPTED] == 2
    assert [bucket(bound) for bound in ("0.025", "0.05", "5.0", "10.0", "+Inf")] == [0, 1, 1, 2, 2]
    assert found["tocsin_timer_lateness_seconds_count", ("kind", "escalate")] == 2
    assert found["tocsin_timer_lateness_seconds_sum", ("kind", "escalate")] == 7.03


def test_no_series_names_a_process(home, folder):
    with start_counting(home, 2) as (first, second):
        first.count()
        second.count()
        labels = {
            sample.name: set(sample.labels) for each in metrics_folder.collect() for sample in each.samples
        }

    declared = {one.name: {*one.labels, *(["le"] if one.buckets else [])} for one in METRICS}
    found = {
        name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count"): labels[name]
        for name in labels
    }
    assert [name for name in found if not found[name] <= declared[name]] == []


def test_a_process_continues_to_count_while_others_start_and_end(home, folder):
    with start_counting(home) as (living,):
        living.count()
        for _ in range(2):
            with start_counting(home) as (other,):
                other.count()
        living.count()

        assert collect()[ACCEPTED] == 4
        assert len(list_names(folder)) == len(MERGED) + 2


def test_the_files_of_killed_processes_become_one_of_each_type(home, folder):
    for _ in range(2):
        with start_counting(home, 2) as processes:
            for each in processes:
                each.count(0.3)

    assert collect()[ACCEPTED] == 4
    assert collect()["tocsin_timer_lateness_seconds_bucket", ("kind", "escalate"), ("le", "0.5")] == 4
    assert list_names(folder) == MERGED


@pytest.mark.parametrize("step", ["write_bytes", "unlink", "rename"])
def test_a_merge_that_is_killed_neither_loses_nor_repeats_counts(home, folder, monkeypatch, step):
    with start_counting(home, 2) as processes:
        for each in processes:
            each.count()
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(Path, step, die)
            with pytest.raises(Killed):
                collect()

    assert collect()[ACCEPTED] == 2
    assert list_names(folder) == MERGED


class Killed(BaseException):
    pass


def die(*_):
    raise Killed


def test_only_the_holder_of_the_lock_changes_files_of_others(home, folder):
    with start_counting(home) as (dead,):
        dead.count()
    before = list_names(folder)
    with metrics_folder._lock(folder), start_counting(home):
        pass

    assert set(before) < set(list_names(folder))


def test_counts_begin_at_zero_after_a_restart_of_the_host(home, folder, tmp_path, monkeypatch):
    for _ in range(2):
        with start_counting(home) as (dead,):
            dead.count()
    with start_counting(home) as (living,):
        living.count()
        monkeypatch.setattr(metrics_folder, "BOOT_ID", tmp_path / "boot")
        (tmp_path / "boot").write_text("another")

        assert collect()[ACCEPTED] == 1
    assert collect()[ACCEPTED] == 1
    assert list_names(folder) == MERGED


def test_a_damaged_file_of_a_dead_process_is_dropped(home, folder):
    with start_counting(home, 2) as processes:
        for each in processes:
            each.count()
    damaged = next(folder.glob("counter_*.db"))
    damaged.write_bytes(b"\xff" * 100)

    assert collect()[ACCEPTED] == 1


def test_a_process_counts_in_memory_if_it_cannot_write(home, folder):
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with start_counting(home) as (before,):
        before.count()
        resource.setrlimit(resource.RLIMIT_FSIZE, (metrics_folder.FILE_BYTES // 2, most))
        try:
            with start_counting(home) as (other,):
                other.count()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        assert collect()[ACCEPTED] == 1


@pytest.mark.timeout(120)
def test_no_value_falls_while_processes_are_killed(home, folder):
    """Some are killed while they count: they may have counted once more than they answered."""
    chance = random.Random(7)
    answered, last = 0, {}
    processes = [CountingProcess(home) for _ in range(3)]
    for _ in range(RESTARTS):
        victim = processes.pop(chance.randrange(len(processes)))
        for each in (*processes, victim):
            each.count()
        answered += 3
        victim.start_to_count()
        victim.kill()
        processes.append(CountingProcess(home))
        found = collect()
        assert {name: value for name, value in last.items() if found.get(name, -1) < value} == {}
        last = found
    for each in processes:
        each.kill()

    assert answered <= collect()[ACCEPTED] <= answered + RESTARTS
    assert list_names(folder) == MERGED


def test_each_metric_has_its_own_name():
    assert len({one.name for one in METRICS}) == len(METRICS)
