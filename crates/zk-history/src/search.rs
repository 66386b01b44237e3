//! The search for an order that explains a history: Wing and Gong's, with Lowe's memory of states.
//!
//! Two published checkers were tried, `porcupine-rs` and `todc-utils`. Both try operations in the order of
//! their invocations, and so each open write first at every step: their time doubles with each write of
//! unknown outcome. Here open writes come last, and a state that leaves an operation behind is given up at
//! once. The tests compare the verdicts with those of `todc-utils`.

use std::collections::HashSet;
use std::hash::Hash;

/// The time in which an operation takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) invoked: u64,
    /// `None` if the operation may also take effect never.
    pub(crate) returned: Option<u64>,
}

/// The operations of a history, by their indices.
pub(crate) trait Model {
    /// What the operations change.
    type State: Clone + Eq + Hash;

    /// Returns the state after an operation, or `None` if the operation cannot be next.
    fn after(&self, index: usize, state: &Self::State) -> Option<Self::State>;

    /// Returns whether an operation can be next neither now nor later.
    fn has_passed(&self, index: usize, state: &Self::State) -> bool;

    /// Returns whether an open operation changes what another operation shows.
    fn is_near(&self, open: usize, other: usize) -> bool;
}

/// Result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<S> {
    /// An order explains the history.
    Order,
    /// No order does. The longest one leads to this state, and this operation does not fit.
    Nothing(usize, S),
    /// The search has taken too many steps. The longest order, as above.
    GaveUp(usize, S),
}

/// A state on the way, and the operations that may be next.
struct Frame<S> {
    state: S,
    /// The operation that led to the state.
    by: Option<usize>,
    /// Position of the first operation that is not in the order.
    first: usize,
    /// Number of open operations in a row that led to the state.
    row: usize,
    /// The operations to try, the last one first.
    candidates: Vec<usize>,
}

/// Searches an order of operations, which are sorted by their invocations. `steps_max` bounds the time.
///
/// An order with few open operations in a row is searched first.
pub(crate) fn search<M: Model>(
    model: &M,
    operations: &[Interval],
    initial: &M::State,
    steps_max: usize,
) -> Found<M::State> {
    for row_max in [1, 3] {
        let found = search_rows(model, operations, initial.clone(), steps_max / 4, row_max);
        if matches!(found, Found::Order) {
            return found;
        }
    }
    search_rows(model, operations, initial.clone(), steps_max, usize::MAX)
}

/// Searches an order with at most `row_max` open operations in a row.
fn search_rows<M: Model>(
    model: &M,
    operations: &[Interval],
    initial: M::State,
    steps_max: usize,
    row_max: usize,
) -> Found<M::State> {
    let required = |index: &usize| operations[*index].returned.is_some();
    let (required, open): (Vec<usize>, Vec<usize>) = (0..operations.len()).partition(required);
    let all = Operations { model, operations, required, open };
    let mut left = all.required.len();
    let mut done = Done(vec![0; operations.len().div_ceil(64)]);
    let (root, next) = all.frame(initial.clone(), None, 0, &done);
    let mut longest = (left, next, initial);
    let mut frames = vec![root];
    let mut visited = HashSet::new();
    for _ in 0..steps_max {
        if left == 0 {
            return Found::Order;
        }
        let Some(frame) = frames.last_mut() else {
            let (_, next, state) = longest;
            return Found::Nothing(next, state);
        };
        let Some(index) = frame.candidates.pop() else {
            if let Some(by) = frames.pop().and_then(|frame| frame.by) {
                done.flip(by);
                left += usize::from(operations[by].returned.is_some());
            }
            continue;
        };
        let is_required = operations[index].returned.is_some();
        let Some(state) = model.after(index, &frame.state) else { continue };
        if state == frame.state && !is_required {
            continue;
        }
        done.flip(index);
        if !visited.insert((done.clone(), state.clone())) {
            done.flip(index);
            continue;
        }
        left -= usize::from(is_required);
        let row = if is_required { 0 } else { frame.row + 1 };
        let (mut frame, next) = all.frame(state, Some(index), frame.first, &done);
        frame.row = row;
        if row >= row_max {
            frame.candidates.retain(|index| operations[*index].returned.is_some());
        }
        if left < longest.0 {
            longest = (left, next, frame.state.clone());
        }
        frames.push(frame);
    }
    let (_, next, state) = longest;
    Found::GaveUp(next, state)
}

struct Operations<'a, M> {
    model: &'a M,
    operations: &'a [Interval],
    /// Operations that must take effect.
    required: Vec<usize>,
    /// Operations that may take effect.
    open: Vec<usize>,
}

impl<M: Model> Operations<'_, M> {
    /// Returns a new frame, and the operation that returns first among those to come.
    fn frame(
        &self,
        state: M::State,
        by: Option<usize>,
        first: usize,
        done: &Done,
    ) -> (Frame<M::State>, usize) {
        let is_done = |index: &&usize| done.has(**index);
        let first = first + self.required[first..].iter().take_while(is_done).count();
        let (mut until, mut next) = (u64::MAX, 0);
        let mut required = Vec::new();
        for &index in &self.required[first..] {
            let Interval { invoked, returned } = self.operations[index];
            if invoked > until {
                break;
            }
            if !done.has(index) {
                required.push(index);
                let returned = returned.unwrap_or(u64::MAX);
                if returned < until {
                    (until, next) = (returned, index);
                }
            }
        }
        if required.iter().any(|index| self.model.has_passed(*index, &state)) {
            return (Frame { state, by, first, row: 0, candidates: Vec::new() }, next);
        }
        let is_pure = |index: &&usize| self.model.after(**index, &state).as_ref() == Some(&state);
        if let Some(pure) = required.iter().find(is_pure) {
            // It fits here, and no other operation needs it to be later.
            return (Frame { candidates: vec![*pure], state, by, first, row: 0 }, next);
        }
        let open = self.open.iter().copied().filter(|index| !done.has(*index));
        let open = open.take_while(|index| self.operations[*index].invoked < until);
        let (near, mut candidates): (Vec<usize>, Vec<usize>) =
            open.partition(|open| self.model.is_near(*open, next));
        // The latest of them first, because most take effect soon.
        candidates.extend(near);
        candidates.extend(required.into_iter().rev());
        (Frame { state, by, first, row: 0, candidates }, next)
    }
}

/// The set of the operations that are in the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn has(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    fn flip(&mut self, index: usize) {
        self.0[index / 64] ^= 1 << (index % 64);
    }
}
