//! The table in the docs of the [machine](super), row by row: each state with each input.

use super::*;

type Row = (Vec<State<&'static str>>, Vec<Input<&'static str>>, State<&'static str>, Output);

const NEAREST: NodeRole = NodeRole::Nearest { has_marks: true };
const SECOND: NodeRole = NodeRole::Second;
const OWN: NodeRole = NodeRole::Own { is_readable: true };

const ONE: Ahead<&str> = Ahead::One("a");
const TWO: Ahead<&str> = Ahead::Two { nearest: "a", second: "b" };
const LIKELY_ONE: Ahead<&str> = Ahead::LikelyOne("a");
const SEVERAL: Ahead<&str> = Ahead::Several { nearest: "a", second: Some("b") };
const GUESSED: Ahead<&str> = Ahead::Guessed("a");
/// What a list may show.
const LISTED: [Ahead<&str>; 4] = [ONE, TWO, LIKELY_ONE, SEVERAL];

/// Connections lost before the list of [`listed`].
const LOST: u64 = 7;

fn listed(ahead: Option<Ahead<&str>>) -> Input<&str> {
    Input::Listed { ahead, is_own: true, connections_lost: LOST }
}

/// A look without a list.
fn seen(ahead: Option<&str>) -> Input<&str> {
    Input::Seen { ahead, connections_lost: LOST }
}

/// The first place in a list that may have another node of the own name.
fn unproven() -> Input<&'static str> {
    Input::Listed { ahead: None, is_own: false, connections_lost: LOST }
}

fn own_node(is_watched: bool, connections_lost: u64) -> Input<&'static str> {
    Input::OwnNode { is_watched, connections_lost }
}

/// Returns every input, with every kind of its values.
fn inputs() -> Vec<Input<&'static str>> {
    let mut all = vec![
        Input::Created,
        listed(None),
        unproven(),
        seen(None),
        seen(Some("a")),
        Input::NotListed,
        Input::OwnNodeGone,
        Input::Waits { has_marks: true },
        Input::Waits { has_marks: false },
        Input::WaitedLong,
        Input::NearestGone,
        own_node(true, LOST),
        own_node(true, LOST + 1),
        own_node(false, LOST),
        Input::Recheck,
        Input::Left("a"),
        Input::Left("b"),
    ];
    all.extend(LISTED.map(|ahead| listed(Some(ahead))));
    for change in [NodeChange::Deleted, NodeChange::Released, NodeChange::Changed] {
        all.extend([NEAREST, SECOND, OWN].map(|role| Input::Changed(role, change)));
    }
    all
}

/// Returns a contender that has come into a state by these inputs.
fn after(inputs: impl IntoIterator<Item = Input<&'static str>>) -> Machine<&'static str> {
    let mut machine = Machine::new();
    for input in inputs {
        machine.handle(input);
    }
    machine
}

/// Returns a contender in each state, reached by inputs.
fn in_each_state() -> Vec<Machine<&'static str>> {
    let blocked = |ahead| [Input::Created, listed(Some(ahead))];
    let mut all = LISTED.map(|ahead| after(blocked(ahead))).to_vec();
    let nearest_deleted = Input::Changed(NEAREST, NodeChange::Deleted);
    all.extend([
        after([]),
        after([Input::Created]),
        after([Input::Created, seen(Some("a"))]),
        after(blocked(ONE).into_iter().chain([Input::NearestGone])),
        after(blocked(ONE).into_iter().chain([nearest_deleted])),
        after([Input::Created, listed(None)]),
    ]);
    all
}

/// The rows: states, inputs, the next state, and the task of the runner.
fn rows() -> Vec<Row> {
    use Input::{Changed, Created, Left, NearestGone, NotListed, OwnNodeGone, Recheck};
    use NodeChange::{Deleted, Released};
    use State::{Absent, Blocked, First, Outdated, Unconfirmed};

    let change = NodeChange::Changed;
    let lists = || vec![Outdated];
    let blocked_by = |ahead: &[Ahead<&'static str>]| ahead.iter().cloned().map(Blocked).collect();
    let blocked = || blocked_by(&[ONE, TWO, LIKELY_ONE, SEVERAL, GUESSED]);
    let start_over = |is_node_gone| Output::StartOver { is_node_gone, fails: false };
    let (go, again) = (Output::Continue, Output::ListAgain);
    let mut rows: Vec<Row> = vec![
        (vec![Absent], vec![Created], Outdated, go),
        (lists(), vec![seen(None)], First, Output::First),
        (lists(), vec![seen(Some("a"))], Blocked(GUESSED), Output::Blocked),
        (blocked_by(&[GUESSED]), vec![Input::WaitedLong], Outdated, again),
        (lists(), vec![OwnNodeGone], Absent, start_over(true)),
        (lists(), vec![NotListed], Absent, start_over(false)),
        (blocked(), vec![NotListed], Absent, start_over(false)),
        (lists(), vec![listed(None)], First, Output::First),
        (lists(), vec![unproven()], Outdated, go),
        (blocked(), vec![Changed(OWN, Deleted)], Absent, start_over(true)),
        (blocked(), vec![Changed(NEAREST, Released)], Unconfirmed, go),
        (blocked_by(&[ONE]), vec![Changed(NEAREST, Deleted)], Unconfirmed, go),
        (
            blocked_by(&[TWO]),
            vec![Changed(NEAREST, Deleted)],
            Blocked(Ahead::One("b")),
            Output::Blocked,
        ),
        (blocked_by(&[TWO]), vec![Changed(SECOND, Deleted), Left("b")], Blocked(ONE), go),
        (blocked_by(&[TWO, SEVERAL]), vec![Changed(SECOND, change)], Blocked(LIKELY_ONE), go),
        (
            blocked_by(&[LIKELY_ONE, SEVERAL, GUESSED]),
            vec![Changed(NEAREST, Deleted)],
            Outdated,
            again,
        ),
        (
            blocked_by(&[ONE, LIKELY_ONE, SEVERAL, GUESSED]),
            vec![Changed(SECOND, Deleted)],
            Outdated,
            again,
        ),
        (blocked_by(&[ONE, LIKELY_ONE, GUESSED]), vec![Changed(SECOND, change)], Outdated, again),
        (
            blocked(),
            [(NEAREST, change), (SECOND, Released), (OWN, change), (OWN, Released)]
                .map(|(role, change)| Changed(role, change))
                .into_iter()
                .chain([NearestGone])
                .collect(),
            Outdated,
            again,
        ),
        (vec![Unconfirmed], vec![own_node(true, LOST)], First, Output::First),
        (vec![Unconfirmed], vec![own_node(false, LOST), own_node(true, LOST + 1)], Outdated, again),
        (vec![First], vec![Recheck], Unconfirmed, go),
    ];
    for ahead in LISTED {
        rows.push((lists(), vec![listed(Some(ahead.clone()))], Blocked(ahead), Output::Blocked));
    }
    rows
}

#[test]
fn each_input_leads_to_the_state_of_its_row_or_changes_nothing() {
    let rows = rows();
    let mut used = vec![0; rows.len()];
    for (before, input) in
        in_each_state().iter().flat_map(|state| inputs().into_iter().map(move |it| (state, it)))
    {
        let case = format!("{before:?}, {input:?}");
        let mut machine = before.clone();
        let output = machine.handle(input.clone());
        let is_of =
            |(states, inputs, ..): &Row| states.contains(&before.state) && inputs.contains(&input);
        let own: Vec<usize> = (0..rows.len()).filter(|row| is_of(&rows[*row])).collect();
        match own[..] {
            [row] => {
                let (_, _, state, expected) = &rows[row];
                assert_eq!((&machine.state, &output), (state, expected), "{case}");
                used[row] += 1;
            }
            [] => {
                assert_eq!((&machine.state, output), (&before.state, Output::Continue), "{case}");
                let is_noted = matches!(input, Input::Waits { .. } | Input::WaitedLong)
                    && matches!(before.state, State::Blocked(_));
                assert!(is_noted || machine == *before, "{case}");
            }
            _ => panic!("{case}: two rows"),
        }
    }
    let machines = |states: &[State<_>]| {
        in_each_state().into_iter().filter(|machine| states.contains(&machine.state)).count()
    };
    let expected: Vec<usize> =
        rows.iter().map(|(states, inputs, ..)| machines(states) * inputs.len()).collect();
    assert_eq!(used, expected, "each row was tried");
}

#[test]
fn each_state_has_its_step_and_claims_the_lease_if_it_is_next() {
    for machine in in_each_state() {
        let (step, is_next) = match &machine.state {
            State::Absent => (Step::Create, false),
            State::Outdated => (Step::List { checks_path: !machine.has_listed }, false),
            State::Blocked(ahead) => (Step::Watch, [ONE, LIKELY_ONE].contains(ahead)),
            State::Unconfirmed => (Step::Confirm, false),
            State::First => (Step::Done, false),
        };
        assert_eq!((machine.step(), machine.is_next()), (step, is_next), "{machine:?}");
        let nearest = (step == Step::Watch).then_some("a");
        assert_eq!(machine.nearest().copied(), nearest, "{machine:?}");
        assert_eq!(machine.targets().next().map(|(node, _)| *node), nearest, "{machine:?}");
    }
}

/// The second-nearest contender is watched unless its exit shows itself by a mark soon.
#[test]
fn second_contender_is_watched_without_marks_or_for_a_reason() {
    for (has_marks, waits_long) in [(true, false), (true, true), (false, false), (false, true)] {
        for ahead in LISTED {
            let mut machine = Machine::new();
            let waits = Input::Waits { has_marks };
            for input in [Input::Created, listed(Some(ahead.clone())), waits] {
                machine.handle(input);
            }
            if waits_long {
                machine.handle(Input::WaitedLong);
            }
            let mut expected = vec![(&"a", NodeRole::Nearest { has_marks })];
            let is_watched = !has_marks || waits_long;
            expected.extend((is_watched && ahead.second().is_some()).then_some((&"b", SECOND)));
            assert_eq!(machine.targets().collect::<Vec<_>>(), expected, "{machine:?}");
        }
    }
}

/// The first list of a node is checked for nodes of other recipes, however late it comes.
#[test]
fn first_list_of_each_node_is_checked() {
    let first = Step::List { checks_path: true };
    let deleted = Input::Changed(NEAREST, NodeChange::Deleted);
    let mut machine = after([Input::Created, seen(Some("a")), deleted]);
    assert_eq!(machine.step(), first);
    machine.handle(unproven());
    assert_eq!(machine.step(), Step::List { checks_path: false });
    for input in [Input::OwnNodeGone, Input::Created] {
        machine.handle(input);
    }
    assert_eq!(machine.step(), first);
}

#[test]
fn contender_marks_its_release_only_after_a_wait_in_that_place() {
    let waited = |has_marks| {
        let released = Input::Changed(NEAREST, NodeChange::Released);
        let waits = Input::Waits { has_marks };
        after([Input::Created, listed(Some(ONE)), waits, released])
    };
    assert!(!after([Input::Created, listed(None)]).marks_release(), "it has not waited");
    for has_marks in [true, false] {
        let mut machine = waited(has_marks);
        assert!(!machine.marks_release(), "it is not first");
        machine.handle(own_node(true, LOST));
        assert_eq!(machine.marks_release(), has_marks);
        for input in [Input::Recheck, own_node(false, LOST), Input::NotListed] {
            machine.handle(input);
        }
        for input in [Input::Created, listed(None)] {
            machine.handle(input);
        }
        assert!(machine.step() == Step::Done && !machine.marks_release(), "it has a new node");
    }
}

#[test]
fn contender_fails_when_its_node_was_deleted_too_often() {
    let mut machine = Machine::new();
    for restart in 1..=RESTARTS_MAX {
        machine.handle(Input::Created);
        let output = machine.handle(Input::<&str>::OwnNodeGone);
        let fails = restart == RESTARTS_MAX;
        assert_eq!(output, Output::StartOver { is_node_gone: true, fails }, "{restart}");
        assert_eq!(machine.step(), Step::Create);
    }
}

#[test]
fn deletion_is_a_release_if_its_transaction_changed_the_data() {
    let [earlier, later] = [Zxid(1), Zxid(2)].map(Some);
    let (deleted, changed) = (EventType::NODE_DELETED, EventType::NODE_DATA_CHANGED);
    for (kind, zxid, data, expected) in [
        (deleted, later, None, Some(NodeChange::Deleted)),
        (deleted, later, Some((changed, later)), Some(NodeChange::Released)),
        (deleted, later, Some((changed, earlier)), Some(NodeChange::Deleted)),
        (deleted, None, Some((changed, None)), Some(NodeChange::Deleted)),
        (deleted, None, Some((changed, earlier)), Some(NodeChange::Deleted)),
        (deleted, later, Some((deleted, later)), Some(NodeChange::Deleted)),
        (changed, later, Some((changed, later)), Some(NodeChange::Changed)),
        (EventType::NODE_CREATED, later, None, None),
    ] {
        assert_eq!(NEAREST.change((kind, zxid), data), expected, "{kind:?}, {zxid:?}, {data:?}");
    }
    let children = (EventType::NODE_CHILDREN_CHANGED, later);
    assert_eq!(OWN.change(children, None), Some(NodeChange::Changed));
    assert_eq!([NEAREST, SECOND].map(|role| role.change(children, None)), [None; 2]);
}
