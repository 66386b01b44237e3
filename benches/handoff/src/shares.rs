//! A contest in which several processes of one contestant take part.

use std::time::Duration;

use zk_benches::contest::{Hold, Job, Refusal};

use crate::contestant::{Answer, Contestant};
use crate::roster;

/// Starts the processes, gives each its share of the job, and returns the holds of all.
pub(crate) fn run(job: &Job, name: &str, flavour: &str) -> Result<Vec<Hold>, Refusal> {
    let mut processes = Vec::new();
    for number in 0..job.processes {
        let log = roster::workshop().map_err(Refusal::Failed)?.join(format!("{name}-{number}.log"));
        let command = roster::prepare(name, flavour, false).map_err(Refusal::Failed)?;
        processes.push(Contestant::start(command, log).map_err(Refusal::Failed)?);
    }
    for process in &mut processes {
        process.tell(&job.share())?;
    }
    let mut holds = Vec::new();
    for process in &processes {
        match process.answer(LIMIT) {
            Answer::Holds(share) => holds.extend(share),
            Answer::Refused(refusal) => return Err(refusal),
            Answer::Silence => return Err(Refusal::Failed("a process is silent".to_owned())),
            Answer::Gone(reason) => return Err(Refusal::Failed(reason)),
        }
    }
    Ok(holds)
}

/// The benchmark stops a contest that takes too long, and its processes end with their input.
const LIMIT: Duration = Duration::MAX;
