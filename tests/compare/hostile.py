"""A session that tries to get something to run in the report."""

from __future__ import annotations

from refold import messages as m
from refold.session import Session

RUN = "document.documentElement.setAttribute('data-pwned','1');document.title='pwned'"


def attacks(beacon: str = "http://127.0.0.1:9/x") -> list[str]:
    return [
        f"<script>{RUN}</script>",
        f"</pre></details></style></title></svg><script>{RUN}</script>",
        f'<img src="{beacon}" onerror="{RUN}">',
        f'<svg onload="{RUN}"><animate onbegin="{RUN}" attributeName=x dur=1s></svg>',
        f'"><body onload="{RUN}"><iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
        f"<link rel=stylesheet href={beacon}><style>@import '{beacon}';body{{background:url({beacon})}}</style>",
        f'<meta http-equiv=refresh content="0;url=javascript:{RUN}"><base href="{beacon}">',
        f'<details open ontoggle="{RUN}"><input autofocus onfocus="{RUN}">',
        f"<math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
        "".join(map(chr, range(32)))
        + "\x7f\x80\x9b31m\x1b]0;title\x07 \u202egnp.exe\u202c \ud800 \ufffe &lt;script&gt; ]]> -->",
    ]


def hostile_session(beacon: str = "http://127.0.0.1:9/x") -> Session:
    """Attacks in every place that a report shows: messages, tool names, arguments, results, file names."""
    session = Session(id="<script>alert(1)</script>")
    for number, attack in enumerate(attacks(beacon)):
        session.append(m.user(f"Never do this: {attack}"))
        call = m.call(f"c{number}", f"Read{attack[:40]}", path=f"src/{attack}/file_{number}.py", text=attack)
        write = m.call(f"w{number}", "Write", path=f"src/{number}/<b>{attack[:30]}.py", content=attack)
        session.append(m.assistant(attack, call, write))
        session.append(m.result(f"c{number}", attack + "\n" + f"{attack} filler text " * 40))
        session.append(m.result(f"w{number}", attack, is_error=number % 2 == 0))
    session.append(m.user("go on"))
    return session
