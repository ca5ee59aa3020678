"""Labels that would do something if anything took them for more than text."""

from __future__ import annotations

HOSTILE = [
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '" onmouseover="window.pwned=1" x="',
    "'; window.pwned=1; '",
    "<!--<script>",
    "]]>",
    "\u2028window.pwned=1\u2029",
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    "javascript:window.pwned=1",
    "${window.pwned=1} $title {{7*7}}",
    '=HYPERLINK("http://example.org","x")',
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    'quoted "a", b',
    "lone \ud800 half",
    "&lt;b&gt;&amp;",
]
