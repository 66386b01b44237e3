//! Rules of local queues: first come, first served within a process, and no pass beyond the bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::ensure::ensure;
use crate::holding::Token;

/// The local queues of all processes, in a run whose locks have them.
#[derive(Debug, Default)]
pub(crate) struct LocalQueues {
    passes_max: u32,
    time_max: Duration,
    /// Attempts that wait for the lock, with their processes, in the order of their arrival.
    waiting: Vec<(usize, u64)>,
    /// The nodes that the ensemble has granted.
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    granted: Instant,
    /// When a holder last released the node.
    released: Option<Instant>,
}

impl LocalQueues {
    pub(crate) fn limit(&mut self, passes_max: u32, time_max: Duration) {
        (self.passes_max, self.time_max) = (passes_max, time_max);
    }

    /// Records that an attempt begins to wait.
    pub(crate) fn joins(&mut self, process: usize, attempt: u64) {
        self.waiting.push((process, attempt));
    }

    /// Records that an attempt does not wait any more.
    pub(super) fn leaves(&mut self, attempt: u64) {
        self.waiting.retain(|(_, waiting)| *waiting != attempt);
    }

    pub(super) fn releases(&mut self, node: &str, now: Instant) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.released = Some(now);
        }
    }

    /// Checks a grant to an attempt that has joined before.
    pub(super) fn granted(
        &mut self,
        attempt: u64,
        node: &str,
        (_, pass): Token,
        now: Instant,
    ) -> Result<(), String> {
        let found = self.waiting.iter().find(|(_, waiting)| *waiting == attempt);
        let Some(&(process, _)) = found else { return Ok(()) };
        let first = self.waiting.iter().find(|(other, _)| *other == process);
        let first = first.map_or(attempt, |(_, first)| *first);
        self.leaves(attempt);
        ensure(first == attempt, || {
            format!("#{attempt} was granted before #{first} of its process")
        })?;
        ensure(pass <= self.passes_max, || {
            format!("#{attempt} was granted by pass {pass} of {}", self.passes_max)
        })?;
        if pass == 0 {
            self.nodes.insert(node.to_owned(), Node { granted: now, released: None });
        }
        let Some(Node { granted, released: Some(released) }) = self.nodes.get(node) else {
            return Ok(());
        };
        if *released - *granted < self.time_max {
            Ok(())
        } else {
            let held = *released - *granted;
            Err(format!("#{attempt} was passed {node} after {held:?} of {:?}", self.time_max))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "/lock/1";

    fn queues() -> LocalQueues {
        let mut queues = LocalQueues::default();
        queues.limit(2, Duration::from_secs(1));
        (1..=5).for_each(|attempt| queues.joins(0, attempt));
        queues
    }

    #[test]
    fn attempts_of_a_process_are_granted_in_order() {
        let (mut queues, now) = (queues(), crate::clock::now());
        queues.joins(1, 9);
        assert!(queues.granted(9, "/lock/2", (2, 0), now).is_ok(), "of another process");
        assert!(queues.granted(1, NODE, (1, 0), now).is_ok());
        queues.leaves(2);
        assert!(queues.granted(3, NODE, (1, 1), now).is_ok());
        assert!(queues.granted(5, NODE, (1, 2), now).is_err());
    }

    #[test]
    fn pass_beyond_a_bound_is_an_error() {
        let (mut queues, now) = (queues(), crate::clock::now());
        assert!(queues.granted(1, NODE, (1, 0), now).is_ok());
        queues.releases(NODE, now + Duration::from_millis(999));
        assert!(queues.granted(2, NODE, (1, 1), now).is_ok());
        queues.releases(NODE, now + Duration::from_millis(1_000));
        assert!(queues.granted(3, NODE, (1, 2), now).is_err());
        assert!(queues.granted(4, NODE, (1, 3), now).is_err());
    }
}
