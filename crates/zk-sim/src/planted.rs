//! Check of the simulation itself. Known bugs are switched on, one at a time, and the oracle must
//! detect each of them.

use std::fmt;

use zk_recipes::Planted as OfRecipes;
use zk_session_core::Planted as OfSessions;

use crate::campaign::{Campaign, Summary};

/// Seeds within which a planted fault must be detected.
const SEEDS_MAX: u64 = 1_000;

/// Seeds that must pass with no fault active. They show that the fault sites alone break nothing.
const CLEAN_SEEDS: u64 = 200;

#[derive(Clone, Copy)]
enum Fault {
    OfRecipes(OfRecipes),
    OfSessions(OfSessions),
}

impl Fault {
    fn all() -> impl Iterator<Item = Self> {
        let of_sessions = OfSessions::ALL.into_iter().map(Self::OfSessions);
        OfRecipes::ALL.into_iter().map(Self::OfRecipes).chain(of_sessions)
    }

    fn find(name: &str) -> Result<Self, String> {
        Self::all().find(|fault| fault.to_string() == name).ok_or_else(|| {
            let all: Vec<String> = Self::all().map(|fault| fault.to_string()).collect();
            format!("no fault `{name}`; there are {}", all.join(", "))
        })
    }

    /// Switches a fault on and all others off, for this thread.
    fn switch(fault: Option<Self>) {
        let (of_recipes, of_sessions) = match fault {
            None => (None, None),
            Some(Self::OfRecipes(fault)) => (Some(fault), None),
            Some(Self::OfSessions(fault)) => (None, Some(fault)),
        };
        OfRecipes::switch(of_recipes);
        OfSessions::switch(of_sessions);
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfRecipes(fault) => write!(f, "{fault:?}"),
            Self::OfSessions(fault) => write!(f, "{fault:?}"),
        }
    }
}

/// Switches on the fault with this name, for this thread.
///
/// # Errors
///
/// Returns a message if there is no fault with this name.
pub fn activate(name: &str) -> Result<(), String> {
    Fault::switch(Some(Fault::find(name)?));
    Ok(())
}

/// Runs all faults, or one, and prints the result of each. Returns true if all of them were
/// detected.
#[must_use]
pub fn run(only: Option<&str>, threads: usize) -> bool {
    let faults: Vec<Fault> = match only.map(Fault::find) {
        None => Fault::all().collect(),
        Some(Ok(fault)) => vec![fault],
        Some(Err(text)) => {
            println!("{text}");
            return false;
        }
    };
    let clean = campaign(None, CLEAN_SEEDS, threads);
    let is_clean = clean.failure.is_none();
    match &clean.failure {
        None => println!("no fault active: {CLEAN_SEEDS} seeds, no violation"),
        Some(it) => println!("no fault active: seed {} fails: {:?}", it.seed, it.violation),
    }
    println!("{:<24} {:>6} {:>9} {:>5}  what was seen", "fault", "seed", "hand-offs", "by");
    let caught = faults.iter().filter(|fault| is_caught(**fault, threads)).count();
    println!("{caught} of {} caught within {SEEDS_MAX} seeds", faults.len());
    is_clean && caught == faults.len()
}

fn is_caught(fault: Fault, threads: usize) -> bool {
    let Summary { handoffs, failure, .. } = campaign(Some(fault), SEEDS_MAX, threads);
    let name = fault.to_string();
    let Some((seed, violation)) = failure.and_then(|it| Some((it.seed, it.violation?))) else {
        println!("{name:<24} escaped {handoffs:>8}");
        return false;
    };
    let text: String = violation.text.chars().take(60).collect();
    println!("{name:<24} {seed:>6} {handoffs:>9} {:>5}  {text}", violation.invariant);
    true
}

fn campaign(fault: Option<Fault>, count: u64, threads: usize) -> Summary {
    Campaign { first: 0, count, threads }.run(|| Fault::switch(fault))
}
