-------------------------------- MODULE Lock --------------------------------
(* A lock on top of leases: who is granted it, and by which proof. Each       *)
(* contender has a session of its own and queues once. A request takes effect *)
(* at once, and the events of watches arrive at any later time. Lease.tla     *)
(* shows the assumption of this module: the leader closes no session while    *)
(* its lease is valid.                                                        *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Contenders,
  Deletions,         \* How many nodes an operator deletes.
  LeftOut            \* Rules that are left out, to see them missed.

VARIABLES
  zxid,              \* The number of the last transaction.
  queue,             \* The lock's nodes, by the numbers of their transactions.
  events,            \* For each contender, the events that are on their way.
  alive,             \* The contenders whose session exists.
  leased,            \* The contenders whose lease is valid.
  state,             \* What each contender does.
  node,              \* The node of each contender, or None: its fencing token.
  ahead,             \* The node that each contender watches.
  tokens,            \* The tokens of all guards so far, the latest one last.
  meddled,           \* The nodes that the operator has deleted.
  wrongMark          \* Whether a marked release was not of the first node.

vars == <<zxid, queue, events, alive, leased, state, node, ahead, tokens, meddled, wrongMark>>

None == 0
IsThere(n) == \E i \in 1..Len(queue) : queue[i] = n
Watches(c, n) == node[c] = n \/ ahead[c] = n

\* A transaction deletes a node. Its watches fire: an event has a mark if the same
\* transaction has changed the data of the node before.
Delete(n, isMarked) ==
  /\ zxid' = zxid + 1
  /\ queue' = SelectSeq(queue, LAMBDA m : m # n)
  /\ events' = [c \in Contenders |-> IF Watches(c, n) /\ IsThere(n)
       THEN Append(events[c], [node |-> n, isMarked |-> isMarked]) ELSE events[c]]
  /\ wrongMark' = (wrongMark \/ (isMarked /\ IsThere(n) /\ Head(queue) # n))

-----------------------------------------------------------------------------
Join(c) ==
  /\ state[c] = "begins" /\ c \in alive
  /\ zxid' = zxid + 1 /\ queue' = Append(queue, zxid') /\ node' = [node EXCEPT ![c] = zxid']
  /\ state' = [state EXCEPT ![c] = "lists"]
  /\ UNCHANGED <<events, alive, leased, ahead, tokens, meddled, wrongMark>>

\* The contender lists the queue, and watches the node ahead of its own.
List(c) ==
  LET before == SelectSeq(queue, LAMBDA m : m < node[c])
  IN
  /\ state[c] = "lists" /\ c \in alive
  /\ ahead' = [ahead EXCEPT ![c] = IF before = <<>> THEN None ELSE before[Len(before)]]
  /\ state' = [state EXCEPT ![c] =
       IF ~IsThere(node[c]) THEN "over" ELSE IF before = <<>> THEN "first" ELSE "waits"]
  /\ UNCHANGED <<zxid, queue, events, alive, leased, node, tokens, meddled, wrongMark>>

\* The first contender gets a guard as soon as its lease is valid.
Grant(c) ==
  /\ state[c] = "first" /\ c \in leased
  /\ state' = [state EXCEPT ![c] = "holds"] /\ tokens' = Append(tokens, node[c])
  /\ UNCHANGED <<zxid, queue, events, alive, leased, node, ahead, meddled, wrongMark>>

\* A contender that was first may mark its release, with or without a guard.
Release(c) == \E isMarked \in BOOLEAN :
  /\ state[c] \in {"first", "holds", "lost"} /\ c \in alive /\ Delete(node[c], isMarked)
  /\ state' = [state EXCEPT ![c] = "over"]
  /\ UNCHANGED <<alive, leased, node, ahead, tokens, meddled>>

GiveUp(c) ==
  /\ state[c] \in {"lists", "waits"} /\ c \in alive
  /\ Delete(node[c], "exits have no mark" \in LeftOut)
  /\ state' = [state EXCEPT ![c] = "over"]
  /\ UNCHANGED <<alive, leased, node, ahead, tokens, meddled>>

\* A contender receives an event. The deletion of its own node ends its guard or its
\* turn. A mark says that the contender is first, and another deletion says nothing.
Receive(c) ==
  LET event == Head(events[c])
      isOwn == event.node = node[c]
      isRelease == event.isMarked \/ "marks" \in LeftOut
  IN
  /\ events[c] # <<>> /\ events' = [events EXCEPT ![c] = Tail(@)]
  /\ state' = [state EXCEPT ![c] =
       CASE isOwn /\ @ = "holds" -> "lost"
         [] isOwn /\ @ \in {"lists", "waits", "first"} -> "over"
         [] ~isOwn /\ @ = "waits" -> IF isRelease THEN "first" ELSE "lists"
         [] OTHER -> @]
  /\ UNCHANGED <<zxid, queue, alive, leased, node, ahead, tokens, meddled, wrongMark>>

-----------------------------------------------------------------------------
\* A lease begins and ends at any time. A guard ends with it, and no later lease makes
\* the guard valid again: it is bound to one term.
LeaseBegins(c) ==
  /\ c \in alive \ leased /\ leased' = leased \cup {c}
  /\ state' = [state EXCEPT ![c] = IF @ = "lost" /\ "terms" \in LeftOut THEN "holds" ELSE @]
  /\ UNCHANGED <<zxid, queue, events, alive, node, ahead, tokens, meddled, wrongMark>>

LeaseEnds(c) ==
  /\ c \in leased /\ leased' = leased \ {c}
  /\ state' = [state EXCEPT ![c] = IF @ = "holds" THEN "lost" ELSE @]
  /\ UNCHANGED <<zxid, queue, events, alive, node, ahead, tokens, meddled, wrongMark>>

\* The leader closes a session. Its contender may learn of it much later, or never.
Expire(c) ==
  /\ c \in alive /\ node[c] # None /\ (c \notin leased \/ "leases" \in LeftOut)
  /\ alive' = alive \ {c} /\ Delete(node[c], FALSE)
  /\ UNCHANGED <<leased, state, node, ahead, tokens, meddled>>

\* An operator deletes a node. No client can prevent that, so it is no part of the promise.
OperatorDeletes == \E i \in 1..Len(queue) :
  /\ Cardinality(meddled) < Deletions /\ meddled' = meddled \cup {queue[i]}
  /\ Delete(queue[i], FALSE)
  /\ UNCHANGED <<alive, leased, state, node, ahead, tokens>>

-----------------------------------------------------------------------------
Init ==
  /\ zxid = 0 /\ queue = <<>> /\ alive = Contenders /\ leased = {}
  /\ tokens = <<>> /\ meddled = {} /\ wrongMark = FALSE
  /\ events = [c \in Contenders |-> <<>>] /\ state = [c \in Contenders |-> "begins"]
  /\ node = [c \in Contenders |-> None] /\ ahead = [c \in Contenders |-> None]

Next ==
  \/ OperatorDeletes
  \/ \E c \in Contenders : \/ Join(c) \/ List(c) \/ Grant(c) \/ Release(c) \/ GiveUp(c)
                           \/ Receive(c) \/ LeaseBegins(c) \/ LeaseEnds(c) \/ Expire(c)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* Two guards are never valid at once. A holder whose node the operator has deleted is
\* not counted, until the event arrives.
OneGuard == \A c, d \in Contenders :
  state[c] = "holds" /\ state[d] = "holds" /\ node[c] \notin meddled /\ node[d] \notin meddled => c = d

\* Each token is larger than all before it, unless the operator has deleted its node.
TokensGrow == \A i, j \in 1..Len(tokens) :
  i < j /\ tokens[j] \notin meddled => tokens[i] < tokens[j]

\* Only the first contender marks the deletion of its node.
MarksAreTrue == ~wrongMark

\* A guard that was lost is never valid again.
LostIsLost == [][\A c \in Contenders : state[c] = "lost" => state'[c] # "holds"]_vars
=============================================================================
