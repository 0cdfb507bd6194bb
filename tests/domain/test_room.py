"""Bytes under way: handed out up to a bound, given back whole, waited for in order."""

from gateway.domain.room import FREE, Room, Rooms, Share


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
