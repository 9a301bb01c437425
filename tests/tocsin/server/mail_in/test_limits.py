"""Limits of connections and mails."""

from tocsin.server.mail_in.limits import Connections, MailLimits, Rates


def test_a_rate_is_used_up_and_comes_back_with_time():
    rates = Rates(limit=2)

    assert [rates.take("key", 100.0) for _ in range(3)] == [True, True, False]
    assert not rates.take("key", 129.0)
    assert rates.take("key", 130.0)
    assert rates.take("another", 100.0)


def test_few_names_are_remembered(monkeypatch):
    monkeypatch.setattr(Rates, "max_names", 2)
    rates = Rates(limit=1)
    for name in ("a", "b", "c"):
        rates.take(name, 0.0)

    assert not rates.take("c", 0.0)
    assert rates.take("a", 0.0)


def test_all_addresses_of_a_network_of_ipv6_are_one_client():
    connections = Connections(MailLimits(connections_of_stranger=1))

    assert connections.admit("2001:db8::1", 0.0)
    assert not connections.admit("2001:db8::2", 0.0)
    assert connections.admit("2001:db8:0:1::1", 0.0)
    assert connections.admit("::ffff:192.0.2.1", 0.0)
    assert not connections.admit("192.0.2.1", 0.0)


def test_a_connection_that_ends_makes_room():
    connections = Connections(MailLimits(connections=1))
    connections.admit("192.0.2.1", 0.0)
    assert not connections.admit("192.0.2.2", 0.0)
    connections.release("192.0.2.1")

    assert connections.admit("192.0.2.2", 0.0)


def test_an_address_that_has_delivered_may_have_more_connections(monkeypatch):
    monkeypatch.setattr(Connections, "max_known", 1)
    connections = Connections(MailLimits())
    assert [connections.admit("192.0.2.1", 0.0) for _ in range(6)] == [True] * 5 + [False]

    connections.remember("192.0.2.1")
    assert [connections.admit("192.0.2.1", 0.0) for _ in range(16)] == [True] * 15 + [False]
    connections.remember("192.0.2.2")
    assert not connections.may_open("192.0.2.1")
