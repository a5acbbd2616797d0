"""What a view weighs beyond its messages: counted as it grows as it is counted at once, and what for."""

from __future__ import annotations

from hypothesis import given, settings

from refold import Session, tokens
from refold import messages as m
from refold.session.dialects.common import call_json, describe_opaque
from refold.session.invariants import first_user
from refold.session.invariants.pairs import orphan_note, stand_in
from refold.session.items import Item
from refold.session.projection import Projection
from refold.session.wire_size import NO_OUTPUT, PICTURES, WireOverhead, overhead_by_stretch, wire_overhead
from refold.text.frames import element
from tests import strategies as made
from tests.strategies import examples

COUNTER = tokens.get()
HI = m.user("hi")
CALL = m.call("c", "Read", path="a.py")
RESULT = m.result("c", "out", name="Read")
PNG = m.Image("image/png", data="iVBORw0KGgo=")


def weighs(*messages: m.Message) -> dict[int, int]:
    items = [Item(message, (f"e{n}",)) for n, message in enumerate(messages)]
    found: dict[int, int] = {}
    for _, stretch in overhead_by_stretch(items, 0, COUNTER):
        found |= stretch
    assert sum(found.values()) == wire_overhead(items, COUNTER)
    return found


def size(message: m.Message) -> int:
    return COUNTER.message(message)


def test_plain_messages_weigh_nothing_more() -> None:
    assert weighs(m.system("be"), HI, m.assistant("so", CALL), RESULT, m.assistant("done")) == {}
    assert weighs(HI, m.assistant([m.thinking("hm", "s"), CALL]), RESULT, HI) == {}
    assert weighs() == {}


def test_who_does_not_begin_with_the_user_gets_a_beginning() -> None:
    begun = size(first_user.STAND_IN)
    assert weighs(m.assistant("so")) == {0: begun}
    assert weighs(m.system("be"), m.user(" "), m.assistant("so")) == {2: begun}
    assert weighs(m.assistant("so"), m.assistant("and")) == {0: begun}
    assert weighs(m.assistant("", CALL), RESULT) == {0: begun}
    assert weighs(HI, m.assistant("so")) == {}


def test_calls_and_results_without_each_other() -> None:
    other = m.call("d", "Read", path="b.py")
    assert weighs(HI, m.assistant("", CALL)) == {}, "the result may still come"
    assert weighs(HI, m.assistant("", CALL), HI) == {1: size(stand_in(CALL))}
    assert weighs(HI, m.assistant("", CALL, other), RESULT) == {}
    assert weighs(HI, m.assistant("", CALL, other), RESULT, HI) == {1: size(stand_in(other))}
    lost = m.result("lost", "out")
    assert weighs(HI, lost) == {1: size(orphan_note(lost)) - size(lost)}
    assert weighs(HI, m.assistant("", CALL), RESULT, lost) == {3: size(orphan_note(lost)) - size(lost)}


def test_what_a_dialect_has_no_place_for() -> None:
    odd = m.Opaque({"type": "x"})
    extra = COUNTER.text(describe_opaque(odd.raw)) - COUNTER.text(m.compact_json(odd.raw))
    assert extra > 0 and weighs(m.User((odd,))) == {0: extra}
    raw = m.Call("c", "T", raw="{")
    more = COUNTER.text(call_json(raw)) - COUNTER.text(m.arguments_json(raw))
    assert more > 0 and weighs(HI, m.Assistant((raw,))) == {1: more}
    assert weighs(HI, m.Assistant((raw,)), RESULT) == {1: more}
    pictured = m.Result("c", (PNG,), "Read")
    assert weighs(HI, m.assistant("", CALL), pictured) == {2: size(m.user(PICTURES))}
    silent = m.Result("c", (m.Text(" "),), "Read", is_error=True)
    assert weighs(HI, m.assistant("", CALL), silent) == {2: COUNTER.text(NO_OUTPUT)}
    assert weighs(HI, m.assistant("", CALL), m.Result("c", (m.Text("no"),), is_error=True)) == {}


def test_a_later_system_message_is_framed() -> None:
    framed = COUNTER.text(element("system_message", "be")) - COUNTER.text("be")
    assert weighs(HI, m.system("be")) == {1: framed}
    assert weighs(m.system("be"), HI) == {}
    odd = m.Opaque({"type": "text", "text": "x" * 40})
    empty = COUNTER.text(element("system_message", ""))
    [found] = weighs(HI, m.System((odd, m.Text("be")))).values()
    assert found == framed + empty + max(
        COUNTER.text(describe_opaque(odd.raw)) - COUNTER.text(m.compact_json(odd.raw)), 0
    )


@given(made.conversations(most=5))
@settings(max_examples=examples(75))
def test_counted_as_it_grows_it_is_what_it_is_at_once(messages: list[m.Message]) -> None:
    session = Session()
    projection = Projection(session)
    for message in messages:
        session.append(message)
        kept = WireOverhead.of(projection, COUNTER)
        items = projection.items
        assert kept.total == wire_overhead(items, COUNTER)
        assert sum(kept.item(index) for index in range(len(items))) == kept.total
    assert WireOverhead.of(projection, COUNTER) is WireOverhead.of(projection, COUNTER)
