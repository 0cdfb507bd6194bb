"""Bytes under way: handed out up to a bound, given back whole, waited for in order."""

from functools import partial

from gateway.domain.room import FREE, UNDER_WAY, Room, Rooms, Share, Whose


def test_so_many_bytes_are_handed_out_and_no_more():
    room = Room(100)
    assert [room.take(60), room.take(40), room.take(1)] == [True, True, False]
    room.give(60)
    assert (room.take(60), room.taken) == (True, 100)


def test_one_alone_may_be_larger_than_all_the_room():
    room = Room(100)
    assert [room.take(1000), room.take(1)] == [True, False]


def test_whoever_waits_is_served_in_order_and_before_whoever_comes():
    room, served = Room(100), list[str]()
    room.take(100)
    room.wait(80, lambda: served.append("first"))
    give_up = room.wait(20, lambda: served.append("second"))
    room.wait(20, lambda: served.append("third"))
    room.give(90)
    assert (served, room.take(5)) == (["first"], False)
    give_up()
    assert (served, room.taken) == (["first"], 90)
    room.give(10)
    assert (served, room.taken) == (["first", "third"], 100)


def test_nobody_has_more_than_half_the_room_for_requests():
    rooms = Rooms(10 * FREE)
    first, second, other = Share(rooms, "emma"), Share(rooms, "emma"), Share(rooms, "noah")
    assert first.covers(3 * FREE)
    assert not second.covers(3 * FREE)
    assert other.covers(5 * FREE)
    assert second.covers(2 * FREE)
    first.end()
    assert second.covers(5 * FREE)
    for share in (second, other, second):
        share.end()
    assert (rooms.requests.taken, rooms.requests._taken_by) == (0, {})


def test_nobody_has_more_than_half_of_what_is_waited_for():
    room, served = Room(100), list[str]()
    for name in ("emma 1", "emma 2", "noah 1", "emma 3", "ines 1"):
        room.wait(50, partial(served.append, name), Whose(principal=name.split()[0]))
    assert served == ["emma 1", "noah 1"]
    room.give(50, "noah")
    assert served == ["emma 1", "noah 1", "ines 1"]
    room.give(50, "ines")
    assert (served, room.taken) == (["emma 1", "noah 1", "ines 1"], 50)
    # Who waits for nobody but themselves is in nobody's way.
    assert [room.take(1, "emma"), room.take(50, "noah")] == [False, True]
    room.give(50, "emma")
    assert served[3:] == ["emma 2"]
    for name in ("noah", "emma", "emma"):
        room.give(50, name)
    assert (served[4:], room.taken, room._taken_by) == (["emma 3"], 0, {})


def test_whoever_has_none_may_have_one_that_is_larger_than_their_half():
    room = Room(100)
    assert [room.take(80, "emma"), room.take(1, "emma"), room.take(20, "noah")] == [
        True,
        False,
        True,
    ]


def test_there_is_room_for_two_of_the_largest_requests_in_pieces():
    rooms = Rooms(largest=3 * UNDER_WAY)
    shares = [Share(rooms, name) for name in ("emma", "noah")]
    assert all(share.covers(size) for size in (UNDER_WAY, 3 * UNDER_WAY) for share in shares)
    assert not Share(rooms, "ines").covers(2 * FREE)


def asked(room: Room, served: list[str], *names: str) -> None:
    """Have each wait: "crm/emma 1" is the first of emma at crm."""
    for name in names:
        server, _, principal = name.split()[0].partition("/")
        whose = Whose(server=server, principal=principal)
        room.wait(100, partial(served.append, name), whose)


def all_served(room: Room) -> None:
    while room.taken:
        (who,) = room._taken_by
        room.give(100, who)


def test_however_much_waits_for_one_server_the_others_have_their_turns():
    room, served = Room(100), list[str]()
    room.take(100)
    asked(room, served, "crm/a 1", "crm/b 2", "crm/c 3", "crm/d 4", "wiki/e 1", "mail/f 1")
    room.give(100)
    asked(room, served, "git/g 1", "crm/h 5", "wiki/e 2")
    all_served(room)
    assert served == [
        *("crm/a 1", "wiki/e 1", "mail/f 1", "crm/b 2", "git/g 1"),
        *("wiki/e 2", "crm/c 3", "crm/d 4", "crm/h 5"),
    ]


def test_however_much_one_principal_asks_of_a_server_the_others_have_their_turns():
    room, served = Room(100), list[str]()
    room.take(100)
    asked(room, served, "crm/a 1", "crm/a 2", "crm/a 3", "crm/b 1", "crm/b 2", "crm/c 1")
    all_served(room)
    assert served == ["crm/a 1", "crm/b 1", "crm/c 1", "crm/a 2", "crm/b 2", "crm/a 3"]


def test_whoever_leaves_has_no_turn():
    room, served = Room(100), list[str]()
    room.take(100)
    ends = [room.wait(100, lambda: served.append("a"), Whose(server=name)) for name in "aab"]
    for end in ends:
        end()
        end()
    asked(room, served, "c 1")
    all_served(room)
    assert served == ["c 1"]


def test_what_is_small_takes_no_room():
    rooms = Rooms(0)
    assert Share(rooms).covers(FREE)
    assert rooms.requests.taken == 0


def test_a_share_takes_what_has_come_and_gives_back_all_of_it_once():
    rooms = Rooms(10 * FREE)
    share = Share(rooms)
    assert share.covers(FREE + 1)
    assert share.covers(4 * FREE)
    assert (rooms.requests.taken, rooms.answers.taken) == (4 * FREE, 0)
    assert not Share(rooms).covers(7 * FREE)
    rooms.answers.take(7)
    share.hold(7)
    share.end()
    share.end()
    assert (rooms.requests.taken, rooms.answers.taken) == (0, 0)
    rooms.answers.take(5)
    share.hold(5)
    assert rooms.answers.taken == 0


def test_what_goes_on_without_whoever_asked_keeps_the_room_to_its_end():
    rooms = Rooms(10 * FREE)
    share = Share(rooms)
    assert share.covers(4 * FREE)
    share.join()
    share.end()
    rooms.answers.take(7)
    share.hold(7)
    assert (rooms.requests.taken, rooms.answers.taken) == (4 * FREE, 7)
    share.end()
    assert (rooms.requests.taken, rooms.answers.taken) == (0, 0)
