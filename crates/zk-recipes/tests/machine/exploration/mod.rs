//! Every order of events, with the real machine in a small world.
//!
//! Two or three clients contend for one lock, each with the real [`Machine`] and a model of its runner
//! ([`client`]), on a model of the servers ([`server`]). The exploration takes every step that is
//! possible in every state, breadth first, and keeps hashes of the states that it has seen:
//!
//! * The server takes the next request, the client receives the next message, the client's task runs.
//!   A client's server may lag behind the leader.
//! * A connection is cut, before or after each message, and connects again. Requests and replies in
//!   flight are lost.
//! * A caller cancels its acquisition, or drops the future of a step and continues later.
//! * An operator deletes a node, or two nodes in one transaction, creates a node again under its
//!   name, or changes the data of a node, as a revocation request does.
//! * A session loses its lease, and expires.
//! * A task searches for the node of a create that was cancelled, at any time.
//! * The server removes the empty parent, and the numbers start again.
//! * One of the contenders is Curator's.
//!
//! [`World::check`] and the checks of the clients hold in every state:
//!
//! * A holder whose node exists is first among the contenders that it waits for.
//! * A lock is never granted to a contender that has received the deletion of its own node.
//! * Only the first contender marks its release. A contender that queues again keeps no mark.
//! * A delete removes no node of another contender, nor of a later attempt that uses it.
//! * Nobody holds the lock with a stale name.
//! * A contender queues again only if its node was deleted.
//! * The next contender in line has claimed the lease when the last one ahead is deleted.
//! * From every state, the contenders can come to an end without a further fault. When nothing more can
//!   happen, no contender waits, and no node is left.
//!
//! Worlds with three clients, and those with two faults, are reduced: a client handles what has arrived
//! before the servers take another request. Such steps are independent except when the connection is
//! cut with several messages in flight, which the worlds with two clients try.
//!
//! # What the model leaves out
//!
//! * It is bounded: each world has a few events of each kind, and one or two acquisitions.
//! * The runner and the contender's node are modelled after [`waiter`](crate::queue::waiter),
//!   [`watch_set`](crate::queue::watch_set) and [`contender`](crate::queue::contender). Their code is
//!   tested by the tests in `tests/in_memory`.
//! * The hold: its mark is that of the machine at the grant, and its end is one step.
//! * Requests that time out while the connection lasts, watches that fail, and the lists of a ticket.
//! * No clock: a long wait and the end of a lease happen at any time. A session expires only after its
//!   lease has ended, which the tests of the lease show.
//! * A follower never loses a transaction, and a reconnect leads to a server that is up to date with the
//!   one before.
//! * A contender whose node an operator has deleted may hold the lock until the event arrives.
//!   Nodes that an operator has created exclude no holder, and block a waiter until they are deleted.
//! * A session has one attempt at a time, beside the tasks that clean up after earlier ones.
//! * A search for an own node is one request, in the order of the queue. Searches do not overlap with another
//!   attempt of the session, which the simulation and `common_id` of the tests in memory try.
//! * A mark on a node whose name another contender had under an earlier parent. That takes four contenders.
//! * Downgrades, permits, local queues, owners, access control lists and nodes of other recipes.
//! * Every state can reach an end, but the exploration does not count the requests on the way.

mod client;
mod faults;
mod server;
mod world;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use client::{Kind, Setting};
use faults::Fault;
use world::{Case, Move, Trouble, World};

use crate::deadline::now;

#[derive(Debug, Default)]
struct Explored {
    states: usize,
    grants: usize,
    ends: usize,
}

/// A property that does not hold, the steps to it, and the number of states explored before.
#[derive(Debug)]
struct Counterexample {
    why: String,
    steps: Vec<Move>,
    states: usize,
}

/// The states that were found, by their hashes, and the steps between them.
#[derive(Default)]
struct Graph {
    index: HashMap<u64, usize>,
    /// The step that has first led to each state, and the state before.
    came_by: Vec<Option<(usize, Move)>>,
    /// Steps without a fault: the state after, and the state before.
    regular: Vec<(usize, usize)>,
    ends: Vec<usize>,
}

impl Graph {
    /// Adds a state; returns its index, and whether it is new.
    fn add(&mut self, hash: u64, came_by: Option<(usize, Move)>) -> (usize, bool) {
        let next = self.came_by.len();
        let index = *self.index.entry(hash).or_insert(next);
        if index == next {
            self.came_by.push(came_by);
        }
        (index, index == next)
    }

    fn path(&self, mut at: usize) -> Vec<Move> {
        let mut path = Vec::new();
        while let Some((before, step)) = self.came_by[at] {
            path.push(step);
            at = before;
        }
        path.reverse();
        path
    }

    /// Returns a state from which no end can be reached without a fault.
    fn endless(mut self) -> Option<Vec<Move>> {
        self.regular.sort_unstable();
        let mut reaches_end = vec![false; self.came_by.len()];
        let mut left = self.ends.clone();
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut reaches_end[at], true) {
                let first = self.regular.partition_point(|(after, _)| *after < at);
                let before = self.regular[first..].iter().take_while(|(after, _)| *after == at);
                left.extend(before.map(|(_, before)| *before));
            }
        }
        let endless = reaches_end.iter().position(|reaches| !reaches)?;
        Some(self.path(endless))
    }
}

/// Tries every order of steps, breadth first.
fn explore(case: &Case, fault: Option<Fault>) -> Result<Explored, Counterexample> {
    let Case { kinds, has_zxids, has_common_ids, .. } = *case;
    let setting = Setting { kinds, has_zxids, has_common_ids, fault };
    let world = World::new(case);
    let hash = RandomState::new();
    let (mut explored, mut graph) = (Explored::default(), Graph::default());
    let (first, _) = graph.add(hash.hash_one(&world), None);
    let mut left = VecDeque::from([(world, first)]);
    let holders = |world: &World| world.clients.iter().filter(|client| client.is_holder()).count();
    while let Some((world, at)) = left.pop_front() {
        explored.states += 1;
        let regular = world.regular_moves(case);
        if regular.is_empty() {
            graph.ends.push(at);
            if let Err(why) = world.check_end() {
                return Err(Counterexample { why, steps: graph.path(at), states: explored.states });
            }
        }
        let faults = world.faults();
        let count = regular.len();
        for (number, step) in regular.into_iter().chain(faults).enumerate() {
            let mut next = world.clone();
            if let Err(why) = next.take(step, &setting) {
                let mut steps = graph.path(at);
                steps.push(step);
                return Err(Counterexample { why, steps, states: explored.states });
            }
            let (index, is_new) = graph.add(hash.hash_one(&next), Some((at, step)));
            if number < count {
                graph.regular.push((index, at));
            }
            if is_new {
                explored.grants += usize::from(holders(&next) > holders(&world));
                left.push_back((next, index));
            }
        }
    }
    explored.ends = graph.ends.len();
    match graph.endless() {
        Some(steps) => {
            let why = "the contenders do not come to an end".to_owned();
            Err(Counterexample { why, steps, states: explored.states })
        }
        None => Ok(explored),
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, found after {} states:", self.why, self.states)?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:3}. {step:?}", number + 1)?;
        }
        Ok(())
    }
}

/// The events of a world, each once.
const EVENTS: [&[Trouble]; 11] = [
    &[],
    &[Trouble::Cut],
    &[Trouble::Cancel],
    &[Trouble::DroppedFuture],
    &[Trouble::Delete],
    &[Trouble::Delete, Trouble::CreateAgain],
    &[Trouble::DeleteOfTwo],
    &[Trouble::Change],
    &[Trouble::LeaseEnd, Trouble::Expiry],
    &[Trouble::RemovalOfParent],
    &[Trouble::LongWait],
];

/// Explores worlds, and prints what was explored.
fn explore_all(cases: impl IntoIterator<Item = Case>) {
    let (begun, mut states, mut grants) = (now(), 0, 0);
    for case in cases {
        let explored = explore(&case, None).unwrap_or_else(|found| panic!("{case:?}: {found}"));
        // Otherwise the test tries nothing.
        assert!(explored.grants > 0 && explored.ends > 0, "{explored:?}");
        println!("{explored:?} of {case:?}");
        (states, grants) = (states + explored.states, grants + explored.grants);
    }
    println!("{states} states, {grants} grants, in {:?}", now() - begun);
}

/// With `ZK_QUEUE_EXPLORE=1` the tests try larger worlds, in a release build for hours.
fn is_larger() -> bool {
    std::env::var_os("ZK_QUEUE_EXPLORE").is_some()
}

/// Returns the worlds with each single event.
fn with_one_event(case: Case) -> impl Iterator<Item = Case> {
    EVENTS.into_iter().map(move |events| Case { events: [events, &[]], ..case })
}

/// Returns the worlds with each pair of events.
fn with_two_events(case: Case) -> impl Iterator<Item = Case> {
    let pairs = (1..EVENTS.len())
        .flat_map(|first| (first..EVENTS.len()).map(move |second| [EVENTS[first], EVENTS[second]]));
    pairs.map(move |events| Case { events, ..case })
}

const TWO: Case = Case {
    kinds: &[Kind::Mutex, Kind::Mutex],
    acquisitions: (1, 1),
    has_zxids: true,
    has_common_ids: false,
    lags: false,
    is_reduced: false,
    events: [&[], &[]],
};

const TWO_COMMON: Case = Case { has_common_ids: true, ..TWO };

const THREE: Case =
    Case { kinds: &[Kind::Mutex, Kind::Mutex, Kind::Mutex], is_reduced: true, ..TWO };

#[test]
fn two_contenders_in_every_order_of_events() {
    for kinds in [
        &[Kind::Mutex, Kind::Mutex],
        &[Kind::Mutex, Kind::Curator],
        &[Kind::Candidate, Kind::Candidate],
        &[Kind::Writer, Kind::Reader],
    ] {
        explore_all(with_one_event(Case { kinds, ..TWO }));
    }
    explore_all(with_one_event(Case { has_zxids: false, ..TWO }));
    for kinds in [&[Kind::Mutex, Kind::Mutex], &[Kind::Mutex, Kind::Curator]] {
        explore_all(with_one_event(Case { kinds, ..TWO_COMMON }));
    }
    explore_all(with_one_event(Case { lags: true, is_reduced: !is_larger(), ..TWO_COMMON }));
    let again = Case { acquisitions: (2, 1), is_reduced: !is_larger(), ..TWO_COMMON };
    explore_all(with_one_event(again));
    explore_all(with_one_event(Case { lags: true, is_reduced: !is_larger(), ..TWO }));
    explore_all(with_one_event(Case { acquisitions: (2, 1), is_reduced: !is_larger(), ..TWO }));
}

#[test]
fn two_contenders_with_two_faults() {
    let is_reduced = !is_larger();
    explore_all(with_two_events(Case { is_reduced, ..TWO_COMMON }).filter(is_quick));
    explore_all(with_two_events(Case { acquisitions: (2, 0), ..TWO_COMMON }));
    if is_larger() {
        explore_all(with_two_events(Case { acquisitions: (4, 0), ..TWO_COMMON }));
        explore_all(with_two_events(Case { acquisitions: (2, 1), lags: true, ..TWO_COMMON }));
    }
    explore_all(with_two_events(Case { is_reduced, has_zxids: false, ..TWO }).filter(is_quick));
    if is_larger() {
        explore_all(with_two_events(Case { acquisitions: (2, 1), lags: true, ..TWO }));
        explore_all(with_two_events(Case { kinds: &[Kind::Mutex, Kind::Curator], ..TWO }));
        explore_all(with_two_events(Case { kinds: &[Kind::Writer, Kind::Reader], ..TWO }));
    }
}

#[test]
fn three_contenders_in_every_order_of_events() {
    explore_all(with_one_event(THREE).filter(is_quick));
    explore_all(with_one_event(Case { has_common_ids: true, ..THREE }).filter(is_quick));
    explore_all(with_one_event(Case { has_zxids: false, ..THREE }).filter(is_quick));
    if is_larger() {
        for kinds in [
            &[Kind::Mutex, Kind::Mutex, Kind::Mutex],
            &[Kind::Mutex, Kind::Mutex, Kind::Curator],
            &[Kind::Writer, Kind::Reader, Kind::Writer],
            &[Kind::Reader, Kind::Writer, Kind::Reader],
        ] {
            explore_all(with_two_events(Case { kinds, ..THREE }));
            explore_all(with_one_event(Case { kinds, lags: true, ..THREE }));
            explore_all(with_one_event(Case { kinds, is_reduced: false, ..THREE }));
        }
    }
}

#[test]
fn three_mixed_contenders_in_every_order_of_events() {
    for kinds in
        [&[Kind::Mutex, Kind::Mutex, Kind::Curator], &[Kind::Writer, Kind::Reader, Kind::Writer]]
    {
        for has_common_ids in if is_larger() { vec![true, false] } else { vec![true] } {
            let case = Case { kinds, has_common_ids, ..THREE };
            explore_all(with_one_event(case).filter(is_quick));
        }
    }
}

/// Leaves out the worlds with the most states, except in a larger exploration.
fn is_quick(case: &Case) -> bool {
    let is_slow = case.has(Trouble::CreateAgain)
        || (case.has(Trouble::DeleteOfTwo) && case.kinds[0] == Kind::Writer)
        || (case.has(Trouble::RemovalOfParent) && case.has_common_ids && case.kinds.len() > 2);
    is_larger() || !is_slow
}

/// A wrong rule, with a world in which the exploration finds it.
fn planted_faults() -> [(Fault, Case); 34] {
    use Trouble::{
        Cancel, Change, CreateAgain, Cut, Delete, DeleteOfTwo, DroppedFuture, LeaseEnd,
        RemovalOfParent,
    };
    type Events = &'static [Trouble];
    let two = |events: Events| Case { events: [events, &[]], ..TWO };
    let three = |events: Events| Case { events: [events, &[]], ..THREE };
    let old = |events| Case { has_zxids: false, ..three(events) };
    let common = |events: Events| Case { events: [events, &[]], ..TWO_COMMON };
    let alone = |events| Case { acquisitions: (2, 0), ..common(events) };
    let restart = two(&[Cancel, LeaseEnd, Delete]);
    let writers = &[Kind::Writer, Kind::Writer, Kind::Writer];
    let writer_and_reader = Case { kinds: &[Kind::Writer, Kind::Reader], ..TWO };
    let two_readers = &[Kind::Writer, Kind::Reader, Kind::Reader, Kind::Writer];
    let four = Case { kinds: &[Kind::Mutex; 4], ..three(&[DeleteOfTwo]) };
    [
        (Fault::ChangeOfSecondIsExit, old(&[Change, Cancel])),
        (Fault::NearestOfSeveralIsLast, Case { kinds: writers, ..three(&[Cancel]) }),
        (Fault::DeletionIsRelease, three(&[Cancel])),
        (Fault::ChangeIsRelease, old(&[Change])),
        (Fault::MarkOfAnyTransaction, three(&[Change, Cancel])),
        (Fault::OwnWatchNotRead, two(&[DeleteOfTwo])),
        (Fault::DisconnectIgnored, two(&[Cut, DeleteOfTwo])),
        (Fault::AbsentIsFirst, two(&[Delete])),
        (Fault::ListBeforeCreate, two(&[])),
        (Fault::LastDeletionIgnored, two(&[])),
        (Fault::RemainingOneNotWatched, two(&[])),
        (Fault::NextDoesNotClaim, two(&[])),
        (Fault::RestartKeepsMark, Case { acquisitions: (2, 1), is_reduced: true, ..restart }),
        (Fault::RestartKeepsName, two(&[DroppedFuture, Cut])),
        (Fault::CancelMarks, two(&[Cancel])),
        (Fault::CancelLeavesNode, two(&[Cancel])),
        (Fault::CancelForgetsCreate, two(&[Cancel])),
        (Fault::CreateRepeatedBlindly, two(&[Cut])),
        (Fault::WatchesFromNowOn, two(&[Delete, CreateAgain])),
        (Fault::AnyNodeOfNameIsOwn, two(&[Delete, CreateAgain, Cut])),
        (Fault::FirstListIsOwn, two(&[Delete, CreateAgain])),
        (Fault::SortedById, two(&[])),
        (Fault::ReaderIgnoresWriters, writer_and_reader),
        (Fault::WriterIgnoresReaders, writer_and_reader),
        (Fault::ReaderMarks, Case { kinds: two_readers, ..three(&[]) }),
        (Fault::TwoNearestAreAll, four),
        (Fault::ConstantId, common(&[RemovalOfParent, Cut])),
        (Fault::StaleNameIsUsed, common(&[RemovalOfParent])),
        (Fault::OnlyChildIsAlone, common(&[Delete])),
        (Fault::LastChangeIsAlone, common(&[])),
        (Fault::FoundIsForgotten, alone(&[Cancel, Cut])),
        (Fault::StaleNameIsLeft, alone(&[Cut, RemovalOfParent])),
        (Fault::DeletionIsRelease, Case { has_common_ids: true, ..three(&[Cancel]) }),
        (Fault::MarkAcrossDisconnect, three(&[Change, Cancel, Cut])),
    ]
}

/// Without it, a proof of the properties could be empty. Only a larger world shows the last one.
#[test]
fn exploration_finds_planted_faults() {
    let count = planted_faults().len() - usize::from(!is_larger());
    for (fault, case) in planted_faults().into_iter().take(count) {
        match explore(&case, Some(fault)) {
            Ok(explored) => panic!("{fault:?} is not found: {explored:?}"),
            Err(found) => println!("{fault:?}: {found}"),
        }
    }
}
