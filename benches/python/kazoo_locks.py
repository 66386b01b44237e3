"""kazoo's locks, as a contestant of `cargo xtask bench handoff`; contest.rs tells what the lines on
standard input and output mean."""

import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

SESSION_TIMEOUT = 40.0
# The benchmark's own node in the queue is named as Curator's are.
OTHERS = ("-lock-",)


class Contest:
    def __init__(self, words):
        # The last word is the number of processes, of which this contestant always has one.
        (_, self.kind, address, self.path, waiters, sessions, hold_us, holds, permits, again, _) = words
        self.waiters = int(waiters)
        self.hold = int(hold_us) / 1e6
        self.holds = int(holds)
        self.permits = int(permits)
        self.again = again == "1"
        self.enough = threading.Event()
        self.failure = None
        self.lines = []
        self.locks = []
        self.clients = []
        for _ in range(int(sessions)):
            client = KazooClient(hosts=address, timeout=SESSION_TIMEOUT)
            client.start(timeout=15)
            self.clients.append(client)

    def run(self):
        threads = [
            threading.Thread(target=self.guarded, args=(waiter,), daemon=True)
            for waiter in range(self.waiters)
        ]
        for thread in threads:
            thread.start()
        self.enough.wait()
        for lock in self.locks:
            lock.cancel()
        for client in self.clients:
            client.stop()
            client.close()
        for thread in threads:
            thread.join(1)
        if self.failure:
            return ["failed " + " ".join(repr(self.failure).split())]
        return self.lines + ["done"]

    def guarded(self, waiter):
        try:
            self.contend(waiter)
        # After the end of the contest locks are cancelled and clients are closed.
        except Exception as error:
            if not self.enough.is_set():
                self.failure = error
                self.enough.set()

    def contend(self, waiter):
        client = self.clients[waiter % len(self.clients)]
        if self.kind == "read-write":
            sides = {True: client.ReadLock(self.path), False: client.WriteLock(self.path)}
        elif self.kind == "semaphore":
            lock = client.Semaphore(self.path, max_leases=self.permits)
        else:
            lock = client.Lock(self.path, extra_lock_patterns=OTHERS)
        self.locks.extend(sides.values() if self.kind == "read-write" else [lock])
        turn = 0
        while not self.enough.is_set():
            shared = self.kind == "read-write" and (waiter + 7 * turn) % 10 != 0
            if self.kind == "read-write":
                lock = sides[shared]
            call = time.monotonic_ns()
            lock.acquire()
            owner = time.monotonic_ns()
            order = -1 if self.kind == "semaphore" else int(lock.node[-10:])
            if self.hold:
                time.sleep(self.hold)
            release = time.monotonic_ns()
            lock.release()
            released = time.monotonic_ns()
            self.lines.append(f"hold {call} {owner} {release} {released} {order} {int(shared)}")
            if len(self.lines) >= self.holds:
                self.enough.set()
            if not self.again:
                return
            turn += 1


def main():
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = Contest(line.split()).run()
        except (KazooException, OSError, threading.ThreadError, RuntimeError) as error:
            answer = ["failed " + " ".join(repr(error).split())]
        print("\n".join(answer), flush=True)


main()
