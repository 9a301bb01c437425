"""Rate limits of an account. All processes count together, also without Redis."""

import threading

import pytest

from models.tables.accounts import Account, RateLimit
from runtime.settings import load
from tests.support.processes import find_free_port
from tests.support.web.apps import get_app
from web.http import rate_limit
from web.oncall import overrides

LIMITS = overrides.OVERRIDES.rate_limits
LOWER_LIMITS = 100


@pytest.fixture(autouse=True)
def _fixed_clock(monkeypatch):
    """Make the windows longer, so that none ends between two requests on a slow machine."""
    slow = tuple((count, window_s * LOWER_LIMITS) for count, window_s in LIMITS)
    monkeypatch.setattr(overrides.Overrides, "rate_limits", slow)


@pytest.fixture
def apps(world, home):
    """Create two instances without a reachable Redis."""
    settings = {"TOCSIN_HOME": str(home), "TOCSIN_REDIS_URL": f"redis://127.0.0.1:{find_free_port()}/0"}
    return [get_app(load(settings), number) for number in range(2)]


@pytest.fixture
def path(ask, world) -> str:
    schedules = f"account/teams/{world.team.unique_id}/schedules/"
    made = ask("POST", f"/api/{schedules}", {"name": "Nights"}).json["unique_id"]
    return f"/api/v2/{schedules}{made}/overrides/"


@pytest.fixture
def get_list(apps, world, path):
    """get_list(instance): the answer of this instance to a list of overrides."""

    def ask(instance=0, who="alice", path=path):
        headers = {"Authorization": f"Bearer {world.tokens[who]}"}
        return apps[instance].test_client().get(path, headers=headers)

    return ask


def move_time(seconds):
    """Make the counted requests older by these seconds."""
    for row in RateLimit.select():
        row.recent = [moment - seconds * LOWER_LIMITS for moment in row.recent]
        row.save()


def test_a_second_request_within_a_second_is_refused_by_each_instance(get_list):
    assert get_list(0).status_code == 200

    for instance in (1, 0):
        refused = get_list(instance)
        assert refused.status_code == 429
        assert refused.json == {"detail": "Request was throttled."}
        assert 0.5 * LOWER_LIMITS < int(refused.headers["Retry-After"]) <= LOWER_LIMITS
    move_time(1)
    assert get_list(1).status_code == 200


def test_the_twenty_first_request_within_a_minute_is_refused(get_list):
    for place in range(20):
        assert get_list(place % 2).status_code == 200
        move_time(2)

    refused = get_list()

    # The first of the counted requests is 40 seconds old.
    assert refused.status_code == 429
    assert 19 * LOWER_LIMITS < int(refused.headers["Retry-After"]) <= 20 * LOWER_LIMITS
    move_time(20)
    assert get_list().status_code == 200


def test_a_refused_request_does_not_count(get_list):
    get_list()
    for _ in range(30):
        assert get_list().status_code == 429
    move_time(1)

    assert get_list().status_code == 200


def test_operations_and_accounts_are_counted_separately(ask, get_list, world, path):
    body = {"user": world.bob.username, "start_time": "2026-03-06", "end_time": "2026-03-07"}
    theirs = f"/api/account/teams/{world.mallorys_team.unique_id}/schedules/"
    schedule = ask("POST", theirs, {"name": "x"}, who="mallory").json["unique_id"]
    assert get_list().status_code == 200

    assert ask("POST", path, body).status_code == 201
    assert get_list(0, "mallory", f"/api/v2{theirs[4:]}{schedule}/overrides/").status_code == 200
    assert get_list(0, "bob").status_code == 429
    assert ask("POST", path, body).status_code == 429


def test_a_request_without_permission_does_not_count(get_list):
    assert get_list(0, "charlie").status_code == 403
    assert get_list(0, "mallory").status_code == 404

    assert get_list().status_code == 200


def test_one_of_many_simultaneous_requests_is_served(get_list, world):
    statuses = []
    barrier = threading.Barrier(8)

    def ask_in_thread(instance):
        barrier.wait()
        statuses.append(get_list(instance).status_code)

    threads = [threading.Thread(target=ask_in_thread, args=(place % 2,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200] + [429] * 7


def test_only_the_necessary_times_are_stored(get_list):
    for _ in range(25):
        assert get_list().status_code == 200
        move_time(60)

    assert [len(row.recent) for row in RateLimit.select()] == [20]


def test_a_clock_that_was_set_back_blocks_no_request(get_list):
    assert get_list().status_code == 200
    move_time(-3600)

    assert get_list().status_code == 200


def test_the_counts_are_deleted_with_their_account(get_list, world):
    get_list()
    RateLimit.update(account=world.mallorys_team.account_id).execute()

    Account.delete().where(Account.id == world.mallorys_team.account_id).execute()

    assert RateLimit.select().count() == 0


@pytest.mark.parametrize(
    ("recent", "seconds"),
    [
        ([], 0), ([99.0], 0), ([99.5], 0.5), ([100.0], 1), ([40.0] * 19 + [90.0], 0), ([41.0] * 20, 1),
        ([40.0] * 20, 0), ([100.0] * 20, 60), ([100.25], 1.25), ([*range(81, 100), 99.5], 41),
    ],
    ids=str,
)  # fmt: skip
def test_retry_after_for_one_a_second_and_twenty_a_minute(recent, seconds):
    assert rate_limit.compute_retry_after_s(LIMITS, [float(moment) for moment in recent], 100.0) == seconds
