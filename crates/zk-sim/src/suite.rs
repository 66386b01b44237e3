//! Sets of recipes that a simulation runs.

use std::fmt;

/// Recipes that the clients of a simulation use. Both suites draw their plans from the same seeds, and
/// have the same faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suite {
    /// Locks, elections, and requests of sessions.
    #[default]
    Locks,
    /// The recipes of `zk-coordination`.
    Coordination,
}

/// Prints the option of the command line that chooses the suite.
impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locks => "",
            Self::Coordination => " --coordination",
        })
    }
}
