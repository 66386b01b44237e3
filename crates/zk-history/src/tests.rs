//! Histories with planted errors, and random ones that another checker judges as well.

use todc_utils::Specification;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use zk_testing::Rng;

use crate::model::State;
use crate::record::{Change, Ended, Entry, Kind, Level, Moment, Node, Rejection, Write};
use crate::{Verdict, judge, write_edn};

const A: &str = "/r0-0";
const B: &str = "/r0-1";

fn moment(order: u64) -> Moment {
    Moment { order, at_us: order }
}

fn entry(kind: Kind, invoked: u64, returned: Option<(u64, Ended)>) -> Entry {
    let returned = returned.map(|(order, ended)| (moment(order), ended));
    Entry { client: 0, kind, invoked: moment(invoked), returned, zxid: None }
}

fn write(change: Change, times: [u64; 2], ended: Ended) -> Entry {
    let writes = vec![Write { path: A.to_owned(), change }];
    entry(Kind::Write(writes), times[0], Some((times[1], ended)))
}

fn read(level: Level, times: [u64; 2], node: Option<Node>) -> Entry {
    let kind = Kind::Read { path: A.to_owned(), level };
    Entry { client: 9, ..entry(kind, times[0], Some((times[1], Ended::Read(node)))) }
}

/// Node that was created by zxid 1.
fn node(mzxid: i64, version: i32, data: Option<u64>) -> Option<Node> {
    Some(Node { czxid: 1, mzxid, version, data })
}

/// A node is created with 1 and set to 2.
fn created_and_set() -> Vec<Entry> {
    vec![
        write(Change::Create(1), [1, 2], Ended::Applied(vec![node(1, 0, None)])),
        write(Change::Set(2, None), [3, 6], Ended::Applied(vec![node(2, 1, None)])),
    ]
}

fn verdict_with(more: impl IntoIterator<Item = Entry>) -> Verdict {
    let mut entries = created_and_set();
    entries.extend(more);
    let verdict = judge(entries);
    assert!(verdict.undecided.is_empty(), "{verdict:?}");
    verdict
}

fn is_sound(more: impl IntoIterator<Item = Entry>) -> bool {
    verdict_with(more).violations.is_empty()
}

#[test]
fn strong_read_shows_state_of_its_interval() {
    let (first, second) = (node(1, 0, Some(1)), node(2, 1, Some(2)));
    for (times, seen, expected) in [
        ([7, 8], second, true),
        ([7, 8], first, false),
        ([4, 8], first, true),
        ([4, 5], second, true),
        ([7, 8], None, false),
        ([7, 8], node(2, 2, Some(2)), false),
        ([7, 8], node(3, 1, Some(2)), false),
        ([7, 8], node(2, 1, Some(3)), false),
    ] {
        assert_eq!(is_sound([read(Level::Quorum, times, seen)]), expected, "{times:?} {seen:?}");
    }
    // Two reads while the set runs: the second one shows nothing older.
    let both = |times| [read(Level::Quorum, [4, 5], second), read(Level::Quorum, times, first)];
    assert!(!is_sound(both([6, 7])) && is_sound(both([3, 7])));
}

#[test]
fn lost_update_is_found() {
    let lost = write(Change::Set(3, None), [7, 8], Ended::Applied(vec![node(3, 2, None)]));
    assert!(is_sound([lost.clone(), read(Level::Quorum, [9, 10], node(3, 2, Some(3)))]));
    assert!(!is_sound([lost.clone(), read(Level::Quorum, [9, 10], node(2, 1, Some(2)))]));
    let same = write(Change::Set(4, Some(1)), [9, 10], Ended::Applied(vec![node(4, 2, None)]));
    assert!(!is_sound([lost, same]));
}

#[test]
fn write_that_takes_effect_twice_is_found() {
    assert!(!is_sound([read(Level::Quorum, [7, 8], node(3, 2, Some(2)))]));
}

#[test]
fn unknown_write_takes_effect_once_after_its_invocation() {
    let unknown = |invoked| write(Change::Set(3, None), [invoked, 8], Ended::Unknown);
    let old = read(Level::Quorum, [20, 21], node(2, 1, Some(2)));
    let new = read(Level::Quorum, [30, 31], node(3, 2, Some(3)));
    for returns in [true, false] {
        let open = |invoked| match unknown(invoked) {
            unknown if returns => unknown,
            unknown => Entry { returned: None, ..unknown },
        };
        assert!(is_sound([open(7)]) && is_sound([open(7), old.clone()]));
        assert!(is_sound([open(7), old.clone(), new.clone()]));
        assert!(!is_sound([open(32), old.clone(), new.clone()]), "before its invocation");
        let back = read(Level::Quorum, [40, 41], node(2, 1, Some(2)));
        assert!(!is_sound([open(7), new.clone(), back]));
        let twice = read(Level::Quorum, [40, 41], node(4, 3, Some(3)));
        assert!(!is_sound([open(7), new.clone(), twice]));
    }
    let denied = write(Change::Set(3, None), [7, 8], Ended::NotApplied);
    assert!(is_sound([denied.clone(), old]) && !is_sound([denied, new]));
}

#[test]
fn rejection_is_true_within_its_interval() {
    use Rejection::{BadVersion, NoNode, NodeExists};
    let rejected = |change, why| write(change, [7, 8], Ended::Rejected(0, why));
    for (change, why, expected) in [
        (Change::Create(3), NodeExists, true),
        (Change::Create(3), NoNode, false),
        (Change::Set(3, Some(0)), BadVersion, true),
        (Change::Set(3, Some(1)), BadVersion, false),
        (Change::Delete(Some(0)), BadVersion, true),
        (Change::Delete(None), NoNode, false),
    ] {
        assert_eq!(is_sound([rejected(change, why)]), expected, "{change:?} {why:?}");
    }
    let deleted = write(Change::Delete(None), [9, 10], Ended::Applied(vec![None]));
    let late = |why| write(Change::Delete(None), [11, 12], Ended::Rejected(0, why));
    assert!(is_sound([deleted.clone(), late(NoNode)]));
    assert!(!is_sound([deleted.clone(), deleted]));
}

#[test]
fn swapped_replies_are_found() {
    let set = |data, times, node| write(Change::Set(data, None), times, Ended::Applied(vec![node]));
    let replies = [node(3, 2, None), node(4, 3, None)];
    let pair = |[one, two]: [Option<Node>; 2]| [set(3, [7, 10], one), set(4, [11, 12], two)];
    assert!(is_sound(pair(replies)) && !is_sound(pair([replies[1], replies[0]])));
}

#[test]
fn transaction_takes_effect_as_a_whole() {
    let writes = [(A, Change::Set(3, None)), (B, Change::Create(4))];
    let writes = writes.map(|(path, change)| Write { path: path.to_owned(), change });
    let multi = |ended| entry(Kind::Write(writes.to_vec()), 7, Some((8, ended)));
    let at = |path: &str, times: [u64; 2], node| {
        let kind = Kind::Read { path: path.to_owned(), level: Level::Quorum };
        entry(kind, times[0], Some((times[1], Ended::Read(node))))
    };
    let new = Some(Node { czxid: 3, mzxid: 3, version: 0, data: Some(4) });
    let half = [at(B, [9, 10], new), at(A, [11, 12], node(2, 1, Some(2)))];
    let whole = [at(B, [9, 10], new), at(A, [11, 12], node(3, 2, Some(3)))];
    for ended in [Ended::Applied(vec![node(3, 2, None), None]), Ended::Unknown] {
        assert!(is_sound([vec![multi(ended.clone())], whole.to_vec()].concat()));
        assert!(!is_sound([vec![multi(ended)], half.to_vec()].concat()));
    }
    let rejected = multi(Ended::Rejected(1, Rejection::NodeExists));
    assert!(!is_sound([rejected.clone()]) && !is_sound([vec![rejected], whole.to_vec()].concat()));
}

#[test]
fn stale_read_after_sync_is_counted_apart() {
    let stale = verdict_with([read(Level::Sync, [7, 8], node(1, 0, Some(1)))]);
    assert!(stale.violations.is_empty() && stale.stale_syncs.len() == 1, "{stale:?}");
}

#[test]
fn plain_read_is_never_older_than_own_past() {
    let plain = |client, times, node| Entry { client, ..read(Level::Plain, times, node) };
    let (first, second) = (node(1, 0, Some(1)), node(2, 1, Some(2)));
    // Client 0 has written both states, and client 1 has seen nothing.
    assert!(!is_sound([plain(0, [7, 8], first)]) && is_sound([plain(1, [7, 8], first)]));
    assert!(!is_sound([plain(0, [7, 8], None)]) && is_sound([plain(1, [7, 8], None)]));
    assert!(!is_sound([plain(1, [7, 8], second), plain(1, [9, 10], first)]));
    let delete = write(Change::Delete(None), [7, 20], Ended::Unknown);
    assert!(is_sound([delete, plain(0, [8, 9], None)]));
    let of = |times, zxid| Entry { zxid: Some(zxid), ..plain(1, times, second) };
    assert!(
        is_sound([of([7, 8], 5), of([9, 10], 5)]) && !is_sound([of([7, 8], 5), of([9, 10], 4)])
    );
}

/// The other checker takes twice as long for each open write.
#[test]
fn search_decides_histories_with_many_open_writes() {
    let opens =
        (0..60).map(|open| write(Change::Set(1_000 + open, None), [7 + open, 70], Ended::Unknown));
    let set = |nth: u64| {
        let mzxid = i64::try_from(nth + 3).unwrap();
        let version = i32::try_from(nth + 2).unwrap();
        let ended = Ended::Applied(vec![node(mzxid, version, None)]);
        write(Change::Set(3 + nth, None), [100 + 2 * nth, 101 + 2 * nth], ended)
    };
    let known: Vec<Entry> = opens.chain((0..1_000).map(set)).collect();
    assert!(is_sound(known.clone()));
    // One of the open writes takes effect late.
    let late = read(Level::Quorum, [5_000, 5_001], node(2_000, 1_002, Some(1_030)));
    assert!(is_sound([known, vec![late]].concat()));
}

/// The specification of the other checker.
struct Spec;

impl Specification for Spec {
    type State = State;
    type Operation = Entry;

    fn init() -> State {
        State::default()
    }

    fn apply(entry: &Entry, state: &State) -> (bool, State) {
        match state.after(entry) {
            Some(next) => (true, next),
            None => (*entry.ended() == Ended::Unknown, state.clone()),
        }
    }
}

fn is_linearizable_by_other_checker(entries: &[Entry]) -> bool {
    let mut actions = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        actions.push((entry.invoked.order, number, Action::Call(entry.clone())));
        let is_open = *entry.ended() == Ended::Unknown;
        let returned = entry.returned.as_ref().filter(|_| !is_open);
        let returned = returned.map_or(u64::MAX, |(moment, _)| moment.order);
        actions.push((returned, number, Action::Response(entry.clone())));
    }
    actions.sort_by_key(|(order, ..)| *order);
    let actions = actions.into_iter().map(|(_, number, action)| (number, action)).collect();
    WGLChecker::<Spec>::is_linearizable(History::from_actions(actions))
}

/// Draws operations that take effect one after the other, with intervals that overlap. Some results are
/// wrong, and the outcome of some writes is unknown.
fn random_history(rng: &mut Rng) -> Vec<Entry> {
    let mut node: Option<Node> = None;
    let mut entries = Vec::new();
    for number in 1..=rng.between(2, 9) {
        let zxid = i64::try_from(number).unwrap();
        let change = match rng.below(6) {
            0 | 1 => Change::Create(number),
            2 | 3 => Change::Set(number, None),
            _ => Change::Delete(None),
        };
        let (next, rejection) = match (change, node) {
            (Change::Create(data), None) => {
                (Some(Node { czxid: zxid, mzxid: zxid, version: 0, data: Some(data) }), None)
            }
            (Change::Create(_), _) => (node, Some(Rejection::NodeExists)),
            (_, None) => (None, Some(Rejection::NoNode)),
            (Change::Set(data, _), Some(old)) => (
                Some(Node { mzxid: zxid, version: old.version + 1, data: Some(data), ..old }),
                None,
            ),
            (Change::Delete(_), _) => (None, None),
        };
        let shown = next.map(|node| Node { data: None, ..node });
        let times =
            [number * 100 - rng.below(150).min(number * 100), number * 100 + rng.below(150)];
        let drawn = match (rng.below(12), rejection) {
            (0..=3, _) => read(Level::Quorum, times, node),
            (4, _) => write(change, times, Ended::NotApplied),
            (5 | 6, _) => {
                node = if rng.chance(0.5) { next } else { node };
                write(change, times, Ended::Unknown)
            }
            // A wrong result, unless the write is rejected.
            (7, None) => write(change, times, Ended::Applied(vec![shown])),
            (_, None) => {
                node = next;
                write(change, times, Ended::Applied(vec![shown]))
            }
            (_, Some(rejection)) => write(change, times, Ended::Rejected(0, rejection)),
        };
        entries.push(drawn);
    }
    // No two events have the same time.
    let mut times: Vec<(u64, usize, bool)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        times.push((entry.invoked.order, index, false));
        times.extend(entry.returned.as_ref().map(|(moment, _)| (moment.order, index, true)));
    }
    times.sort_unstable();
    for (order, (_, index, is_return)) in (1..).zip(times) {
        match &mut entries[index].returned {
            Some((returned, _)) if is_return => *returned = moment(order),
            _ => entries[index].invoked = moment(order),
        }
    }
    // Clients of their own, because the operations of one client are answered in their order.
    (0..).zip(&mut entries).for_each(|(client, entry)| entry.client = client);
    entries.sort_by_key(|entry| entry.invoked);
    entries
}

#[test]
fn verdicts_are_those_of_another_checker() {
    let mut counts = [0, 0];
    for seed in 0..4_000 {
        let mut entries = random_history(&mut Rng::new(seed));
        entries.retain(|entry| *entry.ended() != Ended::NotApplied);
        if entries.is_empty() {
            continue;
        }
        let verdict = judge(entries.clone());
        let is_linearizable = is_linearizable_by_other_checker(&entries);
        let text = || entries.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let is_same = verdict.violations.is_empty() == is_linearizable;
        assert!(is_same, "seed {seed}: {}\n{verdict:?}", text());
        counts[usize::from(is_linearizable)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

#[test]
fn history_is_written_for_jepsen() {
    let mut entries = created_and_set();
    entries[1].returned = None;
    entries.push(read(Level::Quorum, [7, 8], node(2, 1, Some(2))));
    entries.push(read(Level::Plain, [9, 10], None));
    entries.push(write(Change::Delete(None), [11, 12], Ended::Unknown));
    entries.push(write(Change::Create(3), [13, 14], Ended::Rejected(0, Rejection::NodeExists)));
    let mut text = Vec::new();
    write_edn(&entries, &mut text).unwrap();
    let expected = r#"
{:index 0, :time 1000, :process 0, :type :invoke, :f :write, :value ["/r0-0" 1]}
{:index 1, :time 2000, :process 0, :type :ok, :f :write, :value ["/r0-0" 1]}
{:index 2, :time 3000, :process 0, :type :invoke, :f :write, :value ["/r0-0" 2]}
{:index 3, :time 7000, :process 1, :type :invoke, :f :read, :value ["/r0-0" nil]}
{:index 4, :time 8000, :process 1, :type :ok, :f :read, :value ["/r0-0" 2]}
{:index 5, :time 11000, :process 1, :type :invoke, :f :write, :value ["/r0-0" :absent]}
{:index 6, :time 12000, :process 1, :type :info, :f :write, :value ["/r0-0" :absent]}
{:index 7, :time 13000, :process 2, :type :invoke, :f :write, :value ["/r0-0" 3]}
{:index 8, :time 14000, :process 2, :type :fail, :f :write, :value ["/r0-0" 3]}
"#;
    assert_eq!(String::from_utf8(text).unwrap(), &expected[1..]);
}
