//! The time without a leader after the faults have ended.

use std::time::Duration;

use tokio::time::Instant;

use super::Oracle;
use crate::clock::now;

/// Whether a candidate has led since the faults have ended.
#[derive(Debug, Default)]
pub(super) struct Elections {
    /// When the faults ended and when a candidate must lead, until one does.
    due: Option<(Instant, Instant)>,
}

impl Elections {
    /// Records a leader. Fails if it comes too late.
    pub(super) fn led(&mut self, now: Instant) -> Result<(), String> {
        match self.due.take() {
            Some((since, due)) if now > due => Err(format!("nobody led for {:?}", now - since)),
            _ => Ok(()),
        }
    }
}

impl Oracle {
    /// Requires that a candidate leads within `time` from now, unless one does.
    pub(crate) fn must_lead_within(&mut self, time: Duration) {
        let is_led = |held: &super::Held| held.guard.upgrade().is_some_and(|guard| guard.is_held());
        if !self.guards.iter().any(is_led) {
            self.elections.due = Some((now(), now() + time));
        }
    }

    /// Records a new holder. In a run with an election it is the leader.
    pub(super) fn candidate_leads(&mut self) {
        if let Some((since, _)) = self.elections.due {
            self.log(format_args!("a candidate leads {:?} after the faults", now() - since));
        }
        let led = self.elections.led(now());
        self.must("I17", led);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_leader_is_a_violation_once() {
        let (mut elections, start) = (Elections::default(), now());
        assert!(elections.led(start).is_ok());
        let late = Duration::from_secs(2);
        elections.due = Some((start, start + late / 2));
        assert!(elections.led(start + late).is_err_and(|text| text.contains("2s")));
        assert!(elections.led(start + late).is_ok());
    }
}
