//! The worker processes, as seen by the process that runs the sale.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::args::Job;
use crate::failure::Failure;
use crate::line::{GO, Line};

/// Time in which all workers must close their sessions before they are killed. A session takes at
/// most 2 s for this.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) struct Crew {
    workers: Vec<Worker>,
    said: mpsc::UnboundedReceiver<(usize, Said)>,
}

struct Worker {
    process: Child,
    stdin: ChildStdin,
}

/// A message from a worker.
pub(crate) enum Said {
    Line(Line),
    Nonsense(String),
    /// The output of the worker has ended.
    Nothing,
}

impl Crew {
    /// Starts one worker per job.
    pub(crate) fn hire(jobs: &[Job]) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::broken("cannot find this program's own file", error))?;
        let (tell, said) = mpsc::unbounded_channel();
        let mut workers = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let mut command = Command::new(&program);
            command
                .args(job.to_args())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true);
            // Ctrl-C must reach only the process that runs the sale. That process then stops the
            // workers.
            #[cfg(unix)]
            command.process_group(0);
            let mut process =
                command.spawn().map_err(|error| Failure::broken("cannot start a worker", error))?;
            let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
                return Err(Failure::Broken("a worker has no pipes".to_owned()));
            };
            tokio::spawn(listen(number, stdout, tell.clone()));
            workers.push(Worker { process, stdin });
        }
        Ok(Self { workers, said })
    }

    /// Returns the next message of any worker. Dropping the future loses nothing.
    pub(crate) async fn hear(&mut self) -> (usize, Said) {
        match self.said.recv().await {
            Some(said) => said,
            // All outputs have ended, and each end was reported before.
            None => std::future::pending().await,
        }
    }

    /// Starts the buyers in all workers at nearly the same time.
    pub(crate) async fn go(&mut self) -> Result<(), Failure> {
        for worker in &mut self.workers {
            let written = worker.stdin.write_all(format!("{GO}\n").as_bytes()).await;
            written.map_err(|error| Failure::broken("cannot speak to a worker", error))?;
        }
        Ok(())
    }

    /// Returns how a worker ended whose output has ended.
    pub(crate) async fn obituary(&mut self, number: usize) -> String {
        let Some(worker) = self.workers.get_mut(number) else {
            return "it does not exist".to_owned();
        };
        match tokio::time::timeout(LEAVE_TIMEOUT, worker.process.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it says nothing more".to_owned(),
        }
    }

    /// Stops the workers, and kills the workers that do not exit in time.
    pub(crate) async fn dismiss(&mut self) {
        let mut processes = Vec::new();
        for Worker { process, stdin } in self.workers.drain(..) {
            drop(stdin); // the worker exits at the end of its input
            processes.push(process);
        }
        let all_gone = async {
            for process in &mut processes {
                // An error means that the process no longer exists.
                let _ = process.wait().await;
            }
        };
        // Dropping the remaining processes after the timeout kills them.
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, all_gone).await;
    }
}

async fn listen(number: usize, stdout: ChildStdout, tell: mpsc::UnboundedSender<(usize, Said)>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let said = match line.parse() {
            Ok(line) => Said::Line(line),
            Err(_) => Said::Nonsense(line),
        };
        if tell.send((number, said)).is_err() {
            return;
        }
    }
    // If this fails, no receiver is left.
    let _ = tell.send((number, Said::Nothing));
}
