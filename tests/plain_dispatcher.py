"""The dispatcher as it is said to decide: a look at every server and every row for each row sent.

The reference of the one that looks at few.
"""

from __future__ import annotations

from voxcli.engine.fleet.dispatcher import FRESH_S, Dispatcher, Row, Server


class PlainDispatcher(Dispatcher):
    def next(self, now_s: float) -> list[tuple[Row, Server]]:
        begun: list[tuple[Row, Server]] = []
        while (found := self._choose_pair(now_s)) is not None:
            row, server = found
            self._waiting.discard(row)
            self._send(row, server, now_s)
            begun.append(found)
        return begun

    def _choose_pair(self, now_s: float) -> tuple[Row, Server] | None:
        free = [server for server in self.servers if self._has_room(server, now_s)]
        if not free:
            return None
        due = [row for row in self._waiting if row.not_before_s <= now_s]
        usual = self._usual_pace()
        for row in due:
            if row.num_faults and not self._is_endless:
                continue
            fits = [each for each in free if each.index not in row.tried]
            if not fits and any(
                self._is_worth_waiting_for(each, row, now_s) for each in self.servers
            ):
                continue
            return row, min(fits or free, key=lambda each: self._finish_s(each, row, usual, now_s))
        fresh = [each for each in free if not each.rows and now_s - each.found_up_s <= FRESH_S]
        if not (due and fresh and self._only_suspects):
            return None
        row = due[0]
        return row, min(fresh, key=lambda each: each.index in row.tried)

    def _finish_s(self, server: Server, row: Row, usual: float, now_s: float) -> float:
        assert server.work_s == sum(each.work_s for each in server.rows)
        return super()._finish_s(server, row, usual, now_s)

    def _has_room(self, server: Server, now_s: float) -> bool:
        return (
            server.takes_rows(now_s)
            and sum(not row.is_paused for row in server.rows) < server.cap.now
            and (self._is_endless or not any(row.num_faults for row in server.rows))
        )

    @property
    def _only_suspects(self) -> bool:
        waiting = list(self._waiting)
        return not self._is_endless and bool(waiting) and all(row.num_faults for row in waiting)

    def wake_s(self, now_s: float) -> float | None:
        times = [super().wake_s(now_s), *(row.not_before_s for row in self._waiting)]
        return min((at_s for at_s in times if at_s is not None and at_s > now_s), default=None)
