//! Runner of the `zk` command.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fmt};

use crate::journal::Journal;
use crate::{LIMIT, Scratch};
use serde_json::Value;
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
    pub fn start(&self, line: &(impl Words + ?Sized)) -> Running {
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
        let mut child = command.args(&self.options).args(line.words()).spawn().unwrap();
        Running { stdin: child.stdin.take(), child, scratch }
    }

    /// Runs the command to its end, with empty standard input.
    pub fn run(&self, line: &(impl Words + ?Sized)) -> Ended {
        self.run_with(line, "")
    }

    /// Runs the command to its end, with this standard input.
    pub fn run_with(&self, line: &(impl Words + ?Sized), input: impl AsRef<[u8]>) -> Ended {
        let mut running = self.start(line);
        running.give(input.as_ref());
        running.end_input();
        running.wait(2 * LIMIT)
    }

    /// Runs the command, which must succeed, and returns its standard output.
    pub fn ok(&self, line: &(impl Words + ?Sized)) -> String {
        let ended = self.run(line);
        assert_eq!(ended.code(), Some(0), "zk {:?}: {}", line.words(), ended.stderr);
        ended.stdout
    }

    /// Runs the command, which must succeed and print this text.
    #[track_caller]
    pub fn prints(&self, line: &(impl Words + ?Sized), expected: &str) {
        assert_eq!(self.ok(line), expected, "zk {:?}", line.words());
    }

    /// Runs the command, which must succeed and print a value in JSON, and returns the value.
    pub fn json(&self, line: &(impl Words + ?Sized)) -> Value {
        let printed = self.ok(line);
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error} in {printed}"))
    }

    /// Runs the command, which must fail with this exit status and one line on standard error.
    #[track_caller]
    pub fn fails(&self, line: &(impl Words + ?Sized), code: i32, says: &str) -> Ended {
        let ended = self.run(line);
        ended.expect_failure(code, says);
        ended
    }

    /// Runs the command, and expects what [`Ended::expect`] does.
    #[track_caller]
    pub fn gives(
        &self,
        line: &(impl Words + ?Sized),
        code: i32,
        stdout: &str,
        notes: &str,
    ) -> Ended {
        let ended = self.run(line);
        ended.expect(code, stdout, notes);
        ended
    }

    /// Starts a command that runs another one, with a shell script as that one. Waits until the script
    /// has printed the text.
    pub fn script(&self, line: &str, script: &str, prints: &str) -> Running {
        let command = ["--", "sh", "-c", script].map(str::to_owned);
        let running = self.start(&[&line.words()[..], &command].concat());
        running.says(prints);
        running
    }

    /// Starts a command that runs another one, and waits until that one runs. It ends with its input.
    pub fn hold(&self, line: &str) -> Running {
        self.script(line, "echo in; exec cat >/dev/null", "in\n")
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

/// A command line.
pub trait Words {
    /// Returns its words.
    fn words(&self) -> Vec<String>;
}

/// Words are separated by white space. Single quotes make one word of what is between them.
impl Words for str {
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (number, part) in self.split('\'').enumerate() {
            if number % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(Self::to_owned));
            }
        }
        words
    }
}

impl<T: Words + ?Sized> Words for &T {
    fn words(&self) -> Vec<String> {
        (**self).words()
    }
}

impl Words for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<T: AsRef<str>> Words for [T] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<T: AsRef<str>, const N: usize> Words for [T; N] {
    fn words(&self) -> Vec<String> {
        self[..].words()
    }
}

impl<T: AsRef<str>> Words for Vec<T> {
    fn words(&self) -> Vec<String> {
        self[..].words()
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
        // The command may have ended without reading all of its input.
        let _ = self.stdin.as_mut().expect("the input has ended").write_all(input);
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

    /// Waits until the standard output contains this text.
    #[track_caller]
    pub fn says(&self, text: &str) {
        let is_said = poll(LIMIT, || self.stdout().contains(text).then_some(()));
        is_said.unwrap_or_else(|| panic!("no {text:?} in {self}"));
    }

    /// Waits until the standard error output contains this text.
    #[track_caller]
    pub fn notes(&self, text: &str) {
        let is_noted = poll(LIMIT, || self.stderr().contains(text).then_some(()));
        is_noted.unwrap_or_else(|| panic!("no note {text:?} in {self}"));
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

impl Running {
    /// Waits for the end of the command, which must have this exit status.
    #[track_caller]
    pub fn ends(self, code: i32) -> Ended {
        let ended = self.wait(LIMIT);
        assert_eq!(ended.code(), Some(code), "{ended:?}");
        ended
    }

    /// Ends the input of the command, which must then succeed.
    #[track_caller]
    pub fn finish(mut self) -> Ended {
        self.end_input();
        self.ends(0)
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stdout(), self.stderr())
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

    /// Expects this exit status and standard output, and a standard error output that contains `notes`. With
    /// empty `notes` it must be empty.
    #[track_caller]
    pub fn expect(&self, code: i32, stdout: &str, notes: &str) {
        assert_eq!((self.code(), &*self.stdout), (Some(code), stdout), "{self:?}");
        let is_noted =
            if notes.is_empty() { self.stderr.is_empty() } else { self.stderr.contains(notes) };
        assert!(is_noted, "no {notes:?} in {self:?}");
    }

    /// Expects this exit status, nothing on standard output and one line on standard error.
    #[track_caller]
    pub fn expect_failure(&self, code: i32, says: &str) {
        assert_eq!(self.code(), Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let [line] = self.stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("not one line: {:?}", self.stderr);
        };
        assert!(line.starts_with("zk: ") && line.contains(says), "{line}");
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
