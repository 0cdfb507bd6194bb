"""Two real processes on one database: one winner each time, and each sees what the other revoked."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.storage.identity.identities import NOW, Hand, code, grant, token
from tests.storage.identity.places import opened
from tests.storage.identity.races import SUBJECTS, races, two_racers

ROUNDS = 15


def test_of_two_processes_that_want_the_same_exactly_one_gets_it(place):
    assert races(place, rounds=ROUNDS) == {subject: Counter({1: ROUNDS}) for subject in SUBJECTS}


def test_a_process_sees_what_another_has_revoked(place):
    with two_racers(place) as (one, other):
        stores = opened(place, clock=Hand())
        stores.grants.begin_family(grant("g"), None)
        for racer in (one, other):
            racer.tell("revoked g")
            assert racer.said() == "live"
        stores.grants.revoke_grant("g", "test", at=NOW)
        stores.close()
        for racer in (one, other):
            racer.tell("revoked g")
            assert racer.said() == "revoked"


def test_of_many_threads_that_want_the_same_exactly_one_gets_it(stores):
    stores.grants.issue_code(grant("c"), code(of="c"))
    stores.grants.begin_family(grant("t"), token(of="t"))

    def redeem(number):
        return stores.grants.redeem_code("code", token(f"first {number}", of="c"), at=NOW)

    def rotate(number):
        return stores.grants.rotate("t1", token(f"next {number}", of="t"), sealed="", at=NOW)

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(redeem, range(16))) == 1
        assert sum(threads.map(rotate, range(16))) == 1
