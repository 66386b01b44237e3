//! How long the steps of a task take, and the table of it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::poll;
use crate::process::children_cpu_time;

/// A step that has ended.
struct Row {
    name: String,
    wall: Duration,
    /// Processor time of the processes that ended meanwhile, user and system.
    cpu: Duration,
}

/// The steps of this process, in the order in which they ended.
static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Does the work, and remembers how long it took.
pub(super) fn timed<T>(name: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let (start, cpu_before) = (poll::now(), children_cpu_time());
    let result = work();
    let wall = start.elapsed();
    let cpu = children_cpu_time().saturating_sub(cpu_before);
    let row = Row { name: name.to_owned(), wall, cpu };
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    (result, wall)
}

/// Prints all steps so far.
pub(super) fn print_table() {
    println!("==> seconds:  wall     cpu  step");
    for row in ROWS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{row}");
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wall, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64());
        write!(f, "            {wall:>6.1}  {cpu:>6.1}  {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn timed_step_counts_the_processor_time_of_its_children() {
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        let ((), wall) = timed("busy", || {
            assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        });
        let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.iter().find(|row| row.name == "busy").unwrap();
        assert!(row.cpu >= Duration::from_millis(10), "{row}");
        assert_eq!(row.wall, wall);
    }
}
