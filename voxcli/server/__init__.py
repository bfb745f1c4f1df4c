"""`voxcli serve`: one engine behind an HTTP interface, a page and a local socket.

Everything here needs the extra `serve`; the side that other commands use is `voxcli.engine.remote`.
"""
