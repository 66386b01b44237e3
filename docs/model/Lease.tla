------------------------------- MODULE Lease -------------------------------
(* The lease of one session: what the client knows, what the servers do, and  *)
(* what a holder may rely on. The names are those of the code: the client is  *)
(* `Evidence` in crates/zk-session-core/src/lease/evidence.rs, and the world  *)
(* around it is that of lease/tests.rs. docs/model.md explains both.          *)
(*                                                                            *)
(* One step of time is the smallest unit. Packets and replies take any time,  *)
(* and a server may stop at any time. There is one session. Server 1 leads.   *)
EXTENDS Integers, Sequences

CONSTANTS
  FlushBound, ExpiryPass, Drift, Margin, LateBound,  \* What the client assumes,
  Flush, Pass, Fast, Pause, Late,                    \* and what is really true.
  GrantedBefore,     \* What a resumed session is told about its timeout, or None.
  LeftOut,           \* Rules of the client that are left out, to see them missed.
  Grants,            \* The session timeout that each server grants.
  Creator,           \* The server at which the session is created.
  Until, Packets, Kinds, Reconnects, Elections       \* Size of the world.

VARIABLES
  now,
  leaders,           \* The clocks of the leaders for the session, the latest one last.
  conn,              \* The connection of the client, with its server's touch table.
  lingering,         \* Timeouts in the touch table of the last connection's server.
  late,              \* A connect request without an answer, at a stopped server.
  closed,            \* When the session was closed.
  e,                 \* The client's evidence.
  left,              \* What may still happen in this world.
  clientIsDone       \* See Next.

vars == <<now, leaders, conn, lingering, late, closed, e, left, clientIsDone>>

None == -1                        \* Less than every time, as in Rust.
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Last(s) == s[Len(s)]

-----------------------------------------------------------------------------
(* The client's rule.                                                         *)

Least(ev) == Min(ev.longest \div 2, ev.shortest)  \* Assumption 4.

\* A time before which no leader expires the session.
ExpiresAfter(ev) ==
  IF ev.bound # None /\ ev.pending # None
  THEN Min(ev.bound, ev.pending + Least(ev)) ELSE ev.bound

\* A guard is valid before this time.
ValidUntil(ev) == ExpiresAfter(ev) - Margin - Drift

\* A connect request takes back what it may have changed.
Shorten(ev, to) == [ev EXCEPT !.bound = Min(@, to), !.noGapUntil = Min(@, to)]

HandshakeSent(ev) ==
  LET isFirst == GrantedBefore # None /\ ev.pending = None /\ ev.touched = None
      before == IF isFirst THEN now ELSE ev.pending
      sent == [ev EXCEPT !.pending = now]
  IN  IF before = None THEN sent
      ELSE [Shorten(sent, before + Least(ev)) EXCEPT !.abandoned = before]

HandshakeAccepted(ev, timeout) ==
  LET isContinuous == now + Drift < ev.noGapUntil
  IN  [Shorten(ev, ev.pending + timeout) EXCEPT
        !.shortest = Min(@, timeout), !.longest = Max(@, timeout),
        !.touches = <<>>, !.touched = ev.pending, !.checked = ev.pending, !.agreed = None,
        !.unproven = IF isContinuous \/ "second proof" \in LeftOut THEN None ELSE now,
        !.pending = None]

TouchAnswered(ev, sent) ==
  LET recent == SelectSeq(ev.touches, LAMBDA t : t.sent + ev.shortest > now)
  IN  IF ev.touches # <<>> /\ sent <= Last(ev.touches).sent THEN ev
      ELSE [ev EXCEPT !.touches = Append(recent, [sent |-> sent, answered |-> now])]

\* Moves the bound to the time that the proofs of this connection show.
Prolong(ev) ==
  LET isOver == ev.checked >= ev.abandoned + ev.longest * LateBound
      abandoned == IF isOver \/ "abandoned" \in LeftOut THEN None ELSE ev.abandoned
      agreed == IF "quorum" \in LeftOut THEN ev.touched ELSE ev.agreed
      inFull == Min(ev.touched, agreed) + ev.shortest
      proven == IF abandoned = None THEN inFull
                ELSE Min(inFull, Min(ev.checked, agreed) + Least(ev))
  IN  IF ev.unproven # None \/ agreed = None THEN [ev EXCEPT !.abandoned = abandoned]
      ELSE [ev EXCEPT !.abandoned = abandoned, !.bound = Max(@, proven),
                      !.noGapUntil = Max(@, proven)]

LeaderAnswered(ev, sent) ==
  LET isProven(t) == t.answered + FlushBound <= sent
      shown == SelectSeq(ev.touches, isProven)
      proven == IF shown = <<>> THEN None ELSE Last(shown).sent
      kept == [ev EXCEPT !.touches = SelectSeq(@, LAMBDA t : ~isProven(t))]
      isSecond == sent >= ev.unproven + ExpiryPass
  IN  Prolong(
        IF now + Drift < ev.touched + ev.shortest
        THEN [kept EXCEPT !.touched = Max(@, proven), !.unproven = IF isSecond THEN None ELSE @]
        ELSE IF proven = None THEN kept
        ELSE [kept EXCEPT !.touched = proven,
                          !.unproven = IF "second proof" \in LeftOut THEN None ELSE now])

QuorumAgreed(ev, sent, isChecked) ==
  LeaderAnswered([ev EXCEPT !.agreed = Max(@, sent),
                            !.checked = IF isChecked THEN Max(@, sent) ELSE @], sent)

-----------------------------------------------------------------------------
(* The client's steps.                                                        *)

Send == \E kind \in Kinds :
  /\ conn.accepted /\ ~conn.dead /\ conn.up = <<>> /\ conn.down = <<>> /\ left.packets > 0
  /\ conn' = [conn EXCEPT !.up = <<[kind |-> kind, sent |-> now]>>]
  /\ left' = [left EXCEPT !.packets = @ - 1]
  /\ UNCHANGED <<now, leaders, lingering, late, closed, e>>

\* The connection is cut, and the client connects to the next server. That server may
\* still follow the leader that was replaced.
Reconnect == \E leader \in 1..Len(leaders) :
  LET isLate == conn.up # <<>> /\ conn.up[1].kind = "connect" /\ ~conn.dead
      request == [number |-> conn.number, server |-> conn.server, sent |-> conn.up[1].sent]
      isCurrent == conn.leader = Len(leaders)
  IN
  /\ left.reconnects # <<>>
  /\ left' = [left EXCEPT !.reconnects = Tail(@)]
  /\ late' = IF isLate THEN <<request>> ELSE late
  /\ lingering' = IF isCurrent /\ conn.table # <<>> THEN <<conn.table[1].timeout>> ELSE lingering
  /\ conn' = [number |-> conn.number + 1, server |-> Head(left.reconnects), leader |-> leader,
              accepted |-> FALSE, dead |-> FALSE, table |-> <<>>,
              up |-> <<[kind |-> "connect", sent |-> now]>>, down |-> <<>>]
  /\ e' = HandshakeSent(e)
  /\ UNCHANGED <<now, leaders, closed>>

Receive ==
  /\ conn.down # <<>>
  /\ LET packet == conn.down[1]
         touched == TouchAnswered(e, packet.sent)
     IN  e' = CASE packet.kind = "connect" -> HandshakeAccepted(e, Grants[conn.server])
                [] packet.kind = "ping" -> touched
                [] packet.kind = "sync" -> LeaderAnswered(touched, packet.sent)
                [] packet.kind = "multi" -> QuorumAgreed(touched, packet.sent, FALSE)
                [] packet.kind = "create" -> QuorumAgreed(touched, packet.sent, TRUE)
  /\ conn' = [conn EXCEPT !.down = <<>>, !.accepted = TRUE]
  /\ UNCHANGED <<now, leaders, lingering, late, closed, left>>

-----------------------------------------------------------------------------
(* The servers' steps.                                                        *)

\* A leader sets its clock for the session (SessionTrackerImpl.touchSession). The clock
\* may be fast. It changes nothing for a session whose bucket was taken.
Touch(leader, timeout) ==
  IF leader.taken # None THEN leader ELSE [leader EXCEPT !.expires = now + timeout - Fast]

\* The server of the connection works off a packet, and forwards it to its leader.
Serve ==
  LET packet == conn.up[1]
      timeout == Grants[conn.server]
      leader == leaders[conn.leader]
      isLeader == conn.server = 1
      touched == IF packet.kind = "connect" \/ isLeader THEN Touch(leader, timeout) ELSE leader
      since == IF conn.table = <<>> THEN now ELSE conn.table[1].since
      isReplaced == conn.leader < Len(leaders)
      isAnswered == CASE packet.kind \in {"connect", "ping", "sync"} -> TRUE
                      [] packet.kind = "multi" -> ~isReplaced
                      [] packet.kind = "create" ->
                           ~isReplaced /\ leader.owner \in {None, conn.number}
  IN
  /\ conn.up # <<>> /\ ~conn.dead
  /\ leaders' = [leaders EXCEPT ![conn.leader] =
       IF packet.kind = "connect" THEN [touched EXCEPT !.owner = conn.number] ELSE touched]
  /\ conn' = [conn EXCEPT !.up = <<>>, !.down = IF isAnswered THEN <<packet>> ELSE <<>>,
       !.table = IF packet.kind = "connect" \/ isLeader THEN @
                 ELSE <<[timeout |-> timeout, since |-> since]>>]
  /\ UNCHANGED <<now, lingering, late, closed, e, left>>

\* A follower sends its touch table to its leader (Learner.ping).
FlushTable ==
  /\ conn.table # <<>>
  /\ leaders' = [leaders EXCEPT ![conn.leader] = Touch(@, conn.table[1].timeout)]
  /\ conn' = [conn EXCEPT !.table = <<>>]
  /\ UNCHANGED <<now, lingering, late, closed, e, left>>

FlushOfLastConnection ==
  /\ lingering # <<>>
  /\ leaders' = [leaders EXCEPT ![Len(leaders)] = Touch(@, lingering[1])]
  /\ lingering' = <<>>
  /\ UNCHANGED <<now, conn, late, closed, e, left>>

MustFlush == conn.table # <<>> /\ conn.table[1].since + Flush <= now + 1

\* A follower stops. To stop earlier has the same effect as to be idle until then.
Hang ==
  /\ MustFlush /\ ~conn.dead
  /\ conn' = [conn EXCEPT !.dead = TRUE, !.table = <<>>, !.up = <<>>]
  /\ UNCHANGED <<now, leaders, lingering, late, closed, e, left>>

\* The leader takes the bucket with the overdue session (ExpiryQueue.poll). From now on
\* the session answers everything, and is closed all the same.
TakeBucket ==
  /\ Last(leaders).taken = None /\ Last(leaders).expires <= now
  /\ leaders' = [leaders EXCEPT ![Len(leaders)].taken = now]
  /\ UNCHANGED <<now, conn, lingering, late, closed, e, left>>

CloseSession ==
  /\ Last(leaders).taken # None
  /\ closed' = now
  /\ UNCHANGED <<now, leaders, conn, lingering, late, e, left>>

\* Another server is elected, and counts from its own start with the timeout of the
\* session's creation. The connection ends, or its server does not notice.
Elect == \E unnoticed \in BOOLEAN :
  /\ left.elections > 0
  /\ left' = [left EXCEPT !.elections = @ - 1]
  /\ leaders' = Append(leaders,
       [expires |-> now + Grants[Creator] - Fast, taken |-> None, owner |-> None])
  /\ lingering' = <<>>
  /\ conn' = IF unnoticed THEN conn ELSE [conn EXCEPT !.dead = TRUE, !.table = <<>>, !.up = <<>>]
  /\ UNCHANGED <<now, late, closed, e>>

\* A stopped server continues, and works off a connect request that nobody waits for. It
\* first closes its older connection of the session.
ServeLate ==
  LET request == late[1]
      isSame == conn.server = request.server /\ conn.accepted
  IN
  /\ late # <<>> /\ now < request.sent + Late
  /\ late' = <<>>
  /\ leaders' = [leaders EXCEPT ![Len(leaders)] =
       [Touch(@, Grants[request.server]) EXCEPT !.owner = request.number]]
  /\ conn' = IF isSame THEN [conn EXCEPT !.dead = TRUE, !.up = <<>>] ELSE conn
  /\ UNCHANGED <<now, lingering, closed, e, left>>

-----------------------------------------------------------------------------
(* The whole.                                                                 *)

Tick ==
  /\ now < Until /\ ~MustFlush
  /\ closed = None => Last(leaders).taken = None \/ now + 1 < Last(leaders).taken + Pass
  /\ now' = now + 1
  /\ UNCHANGED <<leaders, conn, lingering, late, closed, e, left>>

\* A session that another client began must be resumed first. That client has left a
\* connect request behind.
Init ==
  LET isResumed == GrantedBefore # None
      timeout == IF isResumed THEN GrantedBefore ELSE Grants[Creator]
      first == IF isResumed THEN None ELSE 0
      bound == IF isResumed THEN None ELSE timeout
  IN
  /\ now = 0 /\ lingering = <<>> /\ closed = None /\ clientIsDone = FALSE
  /\ leaders = <<[expires |-> Grants[Creator] - Fast, taken |-> None, owner |-> 0]>>
  /\ conn = [number |-> 0, server |-> Creator, leader |-> 1, accepted |-> TRUE,
             dead |-> isResumed, table |-> <<>>, up |-> <<>>, down |-> <<>>]
  /\ late = IF isResumed THEN <<[number |-> 0, server |-> 3, sent |-> 0]>> ELSE <<>>
  /\ e = [shortest |-> timeout, longest |-> timeout, touches |-> <<>>, touched |-> first,
          unproven |-> None, checked |-> first, agreed |-> first, bound |-> bound,
          noGapUntil |-> bound, pending |-> None, abandoned |-> None]
  /\ left = [packets |-> Packets, reconnects |-> Reconnects, elections |-> Elections]

Servers == \/ FlushTable \/ FlushOfLastConnection \/ Hang \/ TakeBucket \/ CloseSession
           \/ Elect \/ ServeLate

\* A step of the client and a step inside the servers have the same effect in any order,
\* so the client is first. After the end of the session only a reply in flight matters.
Next ==
  \/ /\ (closed = None \/ conn.down # <<>>) /\ Tick /\ clientIsDone' = FALSE
  \/ /\ ~clientIsDone /\ Receive /\ clientIsDone' = FALSE
  \/ /\ closed = None /\ Serve /\ clientIsDone' = FALSE
  \/ /\ closed = None /\ ~clientIsDone /\ (Send \/ Reconnect) /\ clientIsDone' = FALSE
  \/ /\ closed = None /\ Servers /\ clientIsDone' = TRUE

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What a user relies on.                                                     *)

\* Each guard that was valid is no longer in use when the session is closed. The holder
\* reacts within Pause. So nobody else gets the lock beside it.
SessionOutlivesGuard == closed # None => ValidUntil(e) + Pause <= closed

\* Nothing takes back what `remaining()` has returned.
PromiseIsKept == [][ExpiresAfter(e') >= Min(ExpiresAfter(e), now' + Least(e))]_vars
=============================================================================
