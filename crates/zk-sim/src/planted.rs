//! Does the simulation find what it claims to find? Known bugs are switched on, one at a time, and
//! each has to be caught.

use zk_session::planted::{Planted, set};

use crate::campaign::{Campaign, Summary};

/// Seeds in which a planted fault must be caught.
const SEEDS_MAX: u64 = 1_000;

/// Seeds that must pass with no fault active: the sites themselves break nothing.
const CLEAN_SEEDS: u64 = 200;

/// Switches on the fault of this name on this thread.
///
/// # Errors
///
/// There is none of this name.
pub fn activate(name: &str) -> Result<(), String> {
    set(Some(find(name)?));
    Ok(())
}

/// Runs all faults, or one, and prints what became of them; whether all were caught.
#[must_use]
pub fn run(only: Option<&str>, threads: usize) -> bool {
    let faults: Vec<Planted> = match only.map(find) {
        None => Planted::ALL.to_vec(),
        Some(Ok(fault)) => vec![fault],
        Some(Err(text)) => {
            println!("{text}");
            return false;
        }
    };
    let clean = campaign(None, CLEAN_SEEDS, threads);
    let mut all_well = clean.failure.is_none();
    match &clean.failure {
        None => println!("no fault active: {CLEAN_SEEDS} seeds, no violation"),
        Some(it) => println!("no fault active: seed {} fails: {:?}", it.seed, it.violation),
    }
    println!("{:<28} {:>9} {:>9} {:>5}  what was seen", "fault", "seed", "hand-offs", "by");
    for fault in faults {
        let summary = campaign(Some(fault), SEEDS_MAX, threads);
        let (name, handoffs) = (format!("{fault:?}"), summary.handoffs);
        match summary.failure.and_then(|it| it.violation.map(|violation| (it.seed, violation))) {
            Some((seed, violation)) => {
                let mut text = violation.text;
                text.truncate(text.char_indices().nth(60).map_or(text.len(), |(at, _)| at));
                let by = violation.invariant;
                println!("{name:<28} {seed:>9} {handoffs:>9} {by:>5}  {text}");
            }
            None => {
                println!("{name:<28}   ESCAPED {handoffs:>9}");
                all_well = false;
            }
        }
    }
    all_well
}

fn campaign(fault: Option<Planted>, count: u64, threads: usize) -> Summary {
    Campaign { first: 0, count, threads }.run(|| set(fault))
}

fn find(name: &str) -> Result<Planted, String> {
    let found = Planted::ALL.into_iter().find(|fault| format!("{fault:?}") == name);
    found.ok_or_else(|| format!("no fault `{name}`; there are {:?}", Planted::ALL))
}
