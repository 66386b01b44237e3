//! Runner of the `zk` command.

use std::env;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::Scratch;
use crate::journal::Journal;
use xtask::cargo_env::forget_package;
use xtask::poll::poll;

/// The `zk` command and its connect string, options and environment.
#[derive(Clone, Debug)]
pub struct Zk {
    connect: Option<String>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    data_limit_kib: Option<u64>,
}

impl Zk {
    /// Creates `zk --connect` with this connect string.
    pub fn new(connect: impl Into<String>) -> Self {
        Self { connect: Some(connect.into()), ..Self::unconnected() }
    }

    /// Creates `zk` without `--connect`.
    pub fn unconnected() -> Self {
        Self { connect: None, options: Vec::new(), environment: Vec::new(), data_limit_kib: None }
    }

    /// Appends a chroot to the connect string.
    #[must_use]
    pub fn chroot(&self, path: &str) -> Self {
        Self {
            connect: self.connect.as_ref().map(|servers| servers.clone() + path),
            ..self.clone()
        }
    }

    /// Adds an option before the command.
    #[must_use]
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Adds an option without a value before the command.
    #[must_use]
    pub fn flag(mut self, name: &str) -> Self {
        self.options.push(name.to_owned());
        self
    }

    /// Adds `--session-timeout`.
    #[must_use]
    pub fn session_timeout(self, timeout: Duration) -> Self {
        self.option("--session-timeout", &timeout.as_secs_f64().to_string())
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Passes the journal as `$JOURNAL`.
    #[must_use]
    pub fn journal(self, journal: &Journal) -> Self {
        self.env("JOURNAL", journal.path().to_string_lossy())
    }

    /// Limits the writable memory of the command. The system refuses an allocation beyond the
    /// limit, and the command aborts.
    #[must_use]
    pub fn data_limit_kib(mut self, kib: u64) -> Self {
        self.data_limit_kib = Some(kib);
        self
    }

    /// Starts the command.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let scratch = Scratch::new();
        let [stdout, stderr] =
            ["stdout", "stderr"].map(|name| File::create(scratch.path(name)).unwrap());
        let mut command = match self.data_limit_kib {
            None => reachable(binary()),
            Some(kib) => limited(kib, binary()),
        };
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("ZK_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(connect) = &self.connect {
            command.args(["--connect", connect]);
        }
        let mut child = command.args(&self.options).args(arguments).spawn().unwrap();
        Running { stdin: child.stdin.take(), child, scratch }
    }

    /// Runs the command to its end, with empty standard input.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        let mut running = self.start(arguments);
        running.end_input();
        running.wait(RUN_LIMIT)
    }

    /// Runs the command, which must succeed, and returns its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code(), Some(0), "zk {arguments:?}: {}", ended.stderr);
        ended.stdout
    }

    /// Returns bash with a script, in which `zk` is the command with this connect string.
    ///
    /// SIGINT ends it also if the tests run in the background of a shell, where it is ignored.
    pub fn shell(&self, script: &str) -> Command {
        let folders = binary().parent().into_iter().map(Path::to_path_buf);
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(folders.chain(env::split_paths(&path))).unwrap();
        let mut bash = Command::new("env");
        bash.args(["--default-signal=INT", "bash", "-ec", script]).env("PATH", path);
        bash.envs(self.connect.iter().map(|connect| ("ZK_CONNECT", connect)));
        bash
    }

    /// Starts `zk lock` with a shell script as its command.
    pub fn lock(&self, path: &str, script: &str) -> Running {
        self.start(&["lock", path, "--", "sh", "-c", script])
    }
}

/// A running command, with a pipe to its standard input.
///
/// Dropping it closes the pipe and kills the command, but not the command's child processes.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    scratch: Scratch,
}

impl Running {
    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, for example `TERM`.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Writes to the standard input of the command.
    pub fn give(&mut self, input: &[u8]) {
        self.stdin.as_mut().expect("the input has ended").write_all(input).unwrap();
    }

    /// Closes the pipe to the standard input of the command.
    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Returns the standard output so far.
    pub fn stdout(&self) -> String {
        self.scratch.read("stdout")
    }

    /// Returns the standard error output so far.
    pub fn stderr(&self) -> String {
        self.scratch.read("stderr")
    }

    /// Returns whether the command has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end of the command, and panics if it does not end within `limit`.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let status = poll(limit, || self.child.try_wait().unwrap());
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let Some(status) = status else {
            panic!("zk still runs after {limit:?}; it said: {stdout}{stderr}");
        };
        Ended { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail only if the command has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit and the output of a command.
#[derive(Debug)]
pub struct Ended {
    /// Exit status as the system reports it.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// Returns the exit status, or `None` if a signal killed the command.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the signal that killed the command.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// Runs the command with its signals not ignored, as they may be where the tests run: below `nohup`, or
/// in the background of a shell.
fn reachable(binary: &Path) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP,INT,QUIT").arg(binary);
    env
}

/// Runs the command under a limit that a shell sets, so that no binding to the C library is needed.
fn limited(kib: u64, binary: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"ulimit -d "$1"; shift; exec "$@""#, "sh", &kib.to_string()]).arg(binary);
    shell
}

/// Sends a signal to a process, through the shell, so that no binding to the C library is needed.
pub fn signal(pid: u32, name: &str) {
    let kill = ["-c", r#"kill -s "$1" "$2""#, "sh", name, &pid.to_string()];
    assert!(Command::new("sh").args(kill).status().unwrap().success(), "kill -s {name} {pid}");
}

/// Builds a program of the workspace, with the profile of this test, in its folder. Returns the path.
pub fn program(name: &str) -> PathBuf {
    built_program(name).unwrap_or_else(|said| panic!("building {name}: {said}"))
}

fn built_program(name: &str) -> Result<PathBuf, String> {
    // The example makes cargo choose the features that the tests are built with. Without it, cargo
    // would build the dependencies again.
    let folder = build(&["--bin", name, "--example", "take_over"])?;
    Ok(folder.join(format!("{name}{}", env::consts::EXE_SUFFIX)))
}

/// Builds an example of the workspace in the same way. Returns the path.
pub fn example(name: &str) -> PathBuf {
    let folder = build(&["--example", name]);
    let folder = folder.unwrap_or_else(|said| panic!("building {name}: {said}"));
    folder.join(format!("examples/{name}{}", env::consts::EXE_SUFFIX))
}

/// Builds the command once, with the profile of this test, in its folder.
fn binary() -> &'static Path {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BINARY.get_or_init(|| built_program("zk"));
    built.as_ref().unwrap_or_else(|said| panic!("building zk: {said}"))
}

/// Builds `target` and returns the folder that contains it.
fn build(target: &[&str]) -> Result<PathBuf, String> {
    // <target folder>/<profile folder>/deps/<test>
    let test = env::current_exe().unwrap();
    let profile_folder = test.ancestors().nth(2).unwrap();
    let profile = match profile_folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        name => name,
    };
    // `cargo xtask ci` has built everything. To check that, cargo would wait for other builds.
    if env::var_os("ZK_TESTS_ARE_BUILT").is_some() {
        return Ok(profile_folder.to_owned());
    }
    let mut cargo = Command::new(env!("CARGO"));
    let output = forget_package(&mut cargo)
        .args(["build", "--quiet", "--workspace", "--profile", profile])
        .args(target)
        .arg("--target-dir")
        .arg(profile_folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        Ok(profile_folder.to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Far longer than a command takes that has nothing to wait for.
const RUN_LIMIT: Duration = Duration::from_secs(60);
