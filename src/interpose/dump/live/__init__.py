"""The full screen of `interpose dump live`.

`model`, `cells`, `tabs` and `keys` decide what is seen and are pure; `feed` is the thread that frames come from,
`saving` writes files; the rest is the screen. Only this package imports textual and rich.
"""
