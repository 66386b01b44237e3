//! Processes that share one core, so that no thread wakes another one on an idle core.
//!
//! A request passes through the client's thread and five threads of the server. It takes
//! longer to wake a thread on an idle core than on the same core. The scheduler
//! moves the threads of the server, and each placement lasts for seconds.

use std::fs;
use std::process::{Command, Stdio};

/// Keeps processes on one core. Dropping it allows them all cores again.
pub(crate) struct OneCore {
    processes: Vec<u32>,
    all_cores: String,
}

impl OneCore {
    /// Binds all threads of the processes to the last core.
    pub(crate) fn bind(processes: Vec<u32>) -> Result<Self, String> {
        let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let all_cores = allowed.ok_or("the kernel does not list the cores")?.trim().to_owned();
        let one_core = all_cores.rsplit([',', '-']).next().unwrap_or_default().to_owned();
        let bound = Self { processes, all_cores };
        bound.set(&one_core).map(|()| bound)
    }

    fn set(&self, cores: &str) -> Result<(), String> {
        for process in &self.processes {
            let mut command = Command::new("taskset");
            command.args(["--all-tasks", "--cpu-list", "--pid", cores, &process.to_string()]);
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !status.map_err(|error| format!("taskset: {error}"))?.success() {
                return Err(format!("taskset cannot bind process {process} to core {cores}"));
            }
        }
        Ok(())
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // It fails only for a process that has ended.
        let _ = self.set(&self.all_cores);
    }
}
