"""A recording as one HTML file: nothing to install, no network, opened from disk and sent by mail.

`render` makes the file of documents of calls, `blocks` writes what they say so that a browser takes it for data and
never for markup, `resources` has what the browser runs: `page.html`, `page.css` and the scripts in `parts`.
"""

from interpose.dump.page.render import render_page

__all__ = ["render_page"]
