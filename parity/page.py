"""The frame of report pages."""

import re
from collections.abc import Mapping

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parity: {{headline}}</title>
<style>
  :root { --ink: #1c2733; --soft: #5c6b7a; --line: #e3e8ee; --paper: #fff; --ground: #f5f7fa; --accent: #2f9e6e }
  body.differs { --accent: #c1121f } body.stopped { --accent: #b7791f }
  * { box-sizing: border-box }
  body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.55 system-ui, "Segoe UI", sans-serif }
  main { max-width: 900px; margin: 0 auto; padding: 32px 20px 64px }
  header, section { background: var(--paper); border-radius: 10px; padding: 20px 26px; box-shadow: 0 1px 3px #0001 }
  header { border-left: 6px solid var(--accent) } section { margin-top: 18px }
  h1 { margin: 0; font-size: 26px; color: var(--accent) }
  header p { margin: 4px 0 0; color: var(--soft); overflow-wrap: anywhere }
  section:not(:has(*)) { display: none }
  h2 { font-size: 17px; margin: 0 0 10px } h3 { font-size: 15px; margin: 14px 0 4px; color: var(--accent) }
  svg { width: 100%; height: auto }
  table { border-collapse: collapse; width: 100%; font-size: 13.5px }
  th { text-align: left; color: var(--soft); font-weight: 600 }
  td, th { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere }
  .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
  .n + :not(.n) { padding-left: 18px }
  tr.differs td { color: #c1121f; font-weight: 600 } tr.undecided td { color: var(--soft) }
  details { border-bottom: 1px solid var(--line); padding: 8px 0 } details:last-of-type { border: 0 }
  summary { cursor: pointer } summary small { color: var(--soft) } details table { margin: 8px 0 4px }
  .verdict { border-radius: 99px; padding: 1px 10px; font-size: 12.5px; background: #e8ecf1; color: var(--soft) }
  .equal .verdict { background: #dff3ea; color: #1d7a52 }
  details.differs .verdict, tr.differs .verdict { background: #fbe3e4; color: #c1121f }
  .not-compared .verdict { background: #fdf1d8; color: #8a5a00 }
  pre { background: var(--ground); padding: 10px 14px; border-radius: 6px; white-space: pre-wrap; font-size: 13px }
  footer { color: var(--soft); font-size: 13px; margin-top: 18px }
</style>
<body class="{{kind}}">
<main>
<header>
<h1>{{headline}}</h1>
<p>{{script}} → {{rewritten}}</p>
<p>{{facts}}</p>
{{cause}}
</header>
<section>{{verdicts}}</section>
<section>{{chart}}</section>
<section>{{rungs}}</section>
<section>{{modes}}</section>
<section>{{steps}}</section>
<section>{{notes}}{{errors}}</section>
<footer>{{rule}}</footer>
</main>
</body>
</html>
"""


def filled(values: Mapping[str, str]) -> str:
    """The page with text (as HTML) in its places; a place that nothing fills stays empty, and is not shown."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values.get(place[1], ""), _PAGE)
