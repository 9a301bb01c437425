"""Which connections are closed when there are many: those without a complete request, by their age."""

import pytest

from tocsin.server.connection_limits import Connection, Phase, choose_to_close

LIMIT = 4096


def build(count: int, phase: Phase, *, age_s: float = 0.0, silence_s: float = 0.0, network: int = 1):
    first = network * 100_000
    return [
        Connection(handle, f"10.0.{network}.1:{handle}", phase, age_s + place / 1e6, silence_s + place / 1e6)
        for place, handle in enumerate(range(first, first + count))
    ]


def choose(*groups: list[Connection], find_network=lambda client: client.rpartition(":")[0]):
    return choose_to_close([each for group in groups for each in group], LIMIT, find_network)


def count(chosen: list[Connection], group: list[Connection]) -> int:
    return len(set(chosen) & set(group))


def share_one(client: str) -> None:
    """All clients may be behind one proxy."""


def test_up_to_half_of_the_limit_none_is_closed():
    assert choose(build(LIMIT // 2, Phase.HEADERS, age_s=60.0, silence_s=60.0)) == []


def test_headers_that_arrive_byte_by_byte_count_by_their_age():
    dripping = build(4_000, Phase.HEADERS, age_s=5.0, silence_s=0.0)

    chosen = choose(dripping, find_network=share_one)

    assert len(chosen) == 4_000 - LIMIT // 2
    assert min(each.age_s for each in chosen) >= max(each.age_s for each in set(dripping) - set(chosen))


def test_one_network_keeps_at_most_an_eighth_without_complete_headers():
    attacker = build(3_000, Phase.HEADERS, age_s=0.1, network=1)
    others = build(400, Phase.HEADERS, age_s=0.1, network=2)

    chosen = choose(attacker, others)

    assert (count(chosen, attacker), count(chosen, others)) == (3_000 - LIMIT // 8, 0)


def test_keep_alive_connections_of_one_client_stay():
    assert choose(build(4_000, Phase.IDLE, age_s=20.0, silence_s=20.0)) == []


def test_keep_alive_connections_stay_beside_slow_ones():
    honest = build(2_000, Phase.IDLE, age_s=20.0, silence_s=20.0, network=1)
    dripping = build(2_000, Phase.HEADERS, age_s=6.0, network=2)

    chosen = choose(honest, dripping, find_network=share_one)

    assert (count(chosen, honest), len(chosen)) == (0, 4_000 - LIMIT // 2)


def test_a_silent_body_makes_room_and_one_that_arrives_stays():
    silent = build(1_500, Phase.BODY, age_s=3.0, silence_s=1.0, network=1)
    arriving = build(1_000, Phase.BODY, age_s=3.0, silence_s=0.0, network=2)

    chosen = choose(silent, arriving)

    assert (count(chosen, silent), count(chosen, arriving)) == (2_500 - LIMIT // 2, 0)


@pytest.mark.parametrize("phase", [Phase.HEADERS, Phase.BODY])
def test_above_three_quarters_half_a_second_must_be_enough(phase):
    young = build(500, phase, age_s=0.0, network=1)
    unfinished = build(3_500, phase, age_s=0.5, network=2)

    chosen = choose(young, unfinished, find_network=share_one)

    assert (count(chosen, young), len(chosen)) == (0, 4_000 - LIMIT * 3 // 4)


def test_nearly_at_the_limit_the_longest_silence_makes_room():
    idle = build(LIMIT, Phase.IDLE, age_s=20.0, silence_s=20.0)

    chosen = choose(idle)

    assert len(chosen) == LIMIT - int(LIMIT * 63 / 64)
    assert chosen[0] is idle[-1]


def test_a_connection_with_a_running_request_always_stays():
    assert choose(build(LIMIT, Phase.ANSWER, age_s=60.0, silence_s=60.0)) == []
