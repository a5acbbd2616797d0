"""What a session, a view, a plan and a fold say of themselves, in a console and in a notebook."""

from __future__ import annotations

import asyncio

from refold import Session, presets
from refold import entries as e
from refold import messages as m
from refold.registry.engine import Engine

SECRET = "sk-ant-api03-" + "Zq7Rt2Lp9X" * 8


def test_values_tell_at_a_glance_and_in_html_without_markup_or_secrets_of_the_conversation() -> None:
    session = Session(id="s")
    session.append(m.user(f"<b>Repair</b> the loader with {SECRET}"))
    for number in range(30):
        session.append(m.assistant("", m.call(f"c{number}", "Read", path=f"src/part{number}.py")))
        session.append(m.result(f"c{number}", "some code\n" * 60, name="Read"))
    session.append(m.assistant("Done."))
    engine = Engine(presets.get("refold", budget=2_000))
    plan = engine.plan(session, force=True)
    assert plan
    told = repr(plan)
    assert told.startswith("<Plan: refold (") and f"to at most {plan.tokens_after:,} tokens" in told
    shown = [plan._repr_html_()]  # pyright: ignore[reportPrivateUsage]
    assert f"{plan.tokens_before:,} → at most" in shown[0] and "src/part3.py" in shown[0]
    asyncio.run(engine.apply(session, plan))
    [fold] = session.annotations(e.Fold)
    view = engine.view(session)
    assert repr(fold) == (
        f"<Fold {fold.id}: refold ({fold.strategy}), {fold.tokens_before:,} → {fold.tokens_after:,} tokens, "
        f"{sum(one.entries for one in fold.left)} entries left the view, by {fold.author}>"
    )
    assert repr(view) == f"<View: {len(view)} messages>", "an event loop asks for it: nothing is counted"
    size = view.tokens
    assert repr(view) == f"<View: {len(view)} messages, {size:,} tokens>"
    assert repr(session) == "<Session s: 63 entries, 63 on the path, 1 folds>"
    shown += [value._repr_html_() for value in (fold, view, session)]
    assert "52 more" in shown[-1] and "&lt;b&gt;Repair" in shown[-1]
    assert all(
        text.startswith("<div><code>&lt;") and "<b>Repair" not in text and SECRET not in text
        for text in shown
    )
