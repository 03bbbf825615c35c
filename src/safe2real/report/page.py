"""What an HTML page is made of here: one file that needs nothing else, its pictures inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1250px; margin: 2rem auto; padding: 0 1rem; color: #1f2937; }
h1, h2 { line-height: 1.2; } h2 { border-top: 1px solid #e5e7eb; padding-top: 1.5rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #9ca3af; } td { border-bottom: 1px solid #e5e7eb; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; max-height: 480px; } img.whole { max-height: none; }
.label { font-size: 12px; padding: .1rem .5rem; border-radius: 1rem; background: #fef3c7; }
.certified { background: #d1fae5; } .refuted { background: #fecaca; font-weight: 600; }
.no { color: #b91c1c; font-weight: 600; } .yes { color: #047857; } p.remark { color: #4b5563; }
h1 .label { font-size: 15px; vertical-align: middle; margin-left: .5rem; white-space: nowrap; }
.numbers { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.numbers div { border: 1px solid #e5e7eb; border-radius: .5rem; padding: .4rem .9rem; font-size: 13px; color: #4b5563; }
.numbers b { display: block; font-size: 19px; color: #1f2937; }
.warning { background: #fef2f2; border-left: 4px solid #b91c1c; padding: .5rem 1rem; margin: .6rem 0; }
.stop { background: #b91c1c; color: #fff; padding: 1rem 1.4rem; font-size: 17px; border-radius: .4rem; }
.stop b { font-size: 24px; display: block; }
code { overflow-wrap: anywhere; }
"""


class Html(str):
    """Text that is HTML already; every other text is escaped."""

    __slots__ = ()


def escaped(text: str) -> Html:
    return text if isinstance(text, Html) else Html(html.escape(text))


def document(title: str, body: str) -> str:
    """The whole page; `body` is HTML."""
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escaped(title)}</title><style>{_STYLE}</style>"
    return f"{head}<body>{body}</body></html>"


def label(text: str, kind: str = "") -> Html:
    """A coloured label: yellow, or `kind` certified (green) or refuted (red)."""
    return Html(f"<span class='{f'label {kind}'.strip()}'>{escaped(text)}</span>")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escaped(cell)}</{tag}>" for cell in cells) + "</tr>"

    return Html("<table>" + line("th", header) + "".join(line("td", row) for row in rows) + "</table>")


def picture(png: bytes, description: str, *, whole: bool = False) -> Html:
    """An image inside the page, as high as it needs to be with `whole`."""
    data = base64.b64encode(png).decode()
    kind = " class='whole'" if whole else ""
    return Html(f"<p><img{kind} alt='{escaped(description)}' src='data:image/png;base64,{data}'></p>")
