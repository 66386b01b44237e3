//! Durations of the steps of a task, and their table.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::poll;
use crate::process::children_cpu_time;

/// A completed step.
struct Row {
    name: String,
    wall: Duration,
    /// Processor time, user and system, of the processes that ended during the step; `None` for one of
    /// several steps at a time.
    cpu: Option<Duration>,
}

/// The steps of this process, ordered by their ends.
static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Runs `work` and records its duration.
pub(super) fn timed<T>(name: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let (start, cpu_before) = (poll::now(), children_cpu_time());
    let result = work();
    let wall = start.elapsed();
    let cpu = children_cpu_time().saturating_sub(cpu_before);
    record(name, wall, Some(cpu));
    (result, wall)
}

/// Runs `work` beside other steps, and records its duration.
pub(super) fn timed_beside_others<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let start = poll::now();
    let result = work();
    record(name, start.elapsed(), None);
    result
}

fn record(name: &str, wall: Duration, cpu: Option<Duration>) {
    let row = Row { name: name.to_owned(), wall, cpu };
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
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
        let wall = self.wall.as_secs_f64();
        let cpu = self.cpu.map(|cpu| format!("{:.1}", cpu.as_secs_f64())).unwrap_or_default();
        write!(f, "            {wall:>6.1}  {cpu:>6}  {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn timed_step_includes_processor_time_of_children() {
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        let ((), wall) = timed("busy", || {
            assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        });
        let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.iter().find(|row| row.name == "busy").unwrap();
        assert!(row.cpu >= Some(Duration::from_millis(10)), "{row}");
        assert_eq!(row.wall, wall);
    }
}
