//! The contestants, and the commands that start them.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::zookeeper::{Distribution, Privilege, curator_jars, has_kazoo};

pub(crate) const FLOOR: &str = "floor";
pub(crate) const CLASSIC: &str = "classic";
pub(crate) const MARKED: &str = "marked";
pub(crate) const MARKED_TLS: &str = "marked-tls";
pub(crate) const HERD: &str = "herd";
pub(crate) const LOCAL_QUEUE: &str = "local-queue";
pub(crate) const OURS: &str = "ours";
pub(crate) const OURS_TLS: &str = "ours-tls";

/// All contestants, in the order of the tables: name and description.
pub(crate) const ALL: [(&str, &str); 11] = [
    (FLOOR, "a blocking socket deletes, another gets the event"),
    (OURS, "this library"),
    (OURS_TLS, "this library over TLS"),
    (LOCAL_QUEUE, "this library, a local queue for the waiters of each session"),
    (CLASSIC, "create, list, watch, list over blocking sockets"),
    (MARKED, "the requests of this library over blocking sockets: no lists"),
    (MARKED_TLS, "the same over TLS"),
    (HERD, "one node for all, which every waiter watches; no queue"),
    ("zookeeper-client", "the Rust crate zookeeper-client 0.11"),
    ("curator", "Java, Apache Curator"),
    ("kazoo", "Python, kazoo"),
];

/// The contestants that need no other program.
pub(crate) const OWN: [&str; 8] =
    [FLOOR, OURS, OURS_TLS, LOCAL_QUEUE, CLASSIC, MARKED, MARKED_TLS, HERD];

/// The contestants that take part only if they are named, because the server needs other settings for
/// them.
pub(crate) const OVER_TLS: [&str; 2] = [OURS_TLS, MARKED_TLS];

/// Returns the folder for programs and logs of contestants, next to this program's folder.
pub(crate) fn workshop() -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let target = own.ancestors().nth(2).ok_or("not in a target folder")?;
    let folder = target.join("handoff");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Returns the command that starts a contestant. With `install`, it builds and installs missing programs
/// first.
///
/// # Errors
/// Returns the reason why the contestant is not available here.
pub(crate) fn prepare(name: &str, runtime: &str, install: bool) -> Result<Command, String> {
    match name {
        "zookeeper-client" => zookeeper_client(runtime, install),
        "curator" => curator(),
        "kazoo" => kazoo(install),
        _ => {
            let mut command = Command::new(env::current_exe().map_err(|error| error.to_string())?);
            command.args(["--runtime", runtime, "contestant", name]);
            Ok(command)
        }
    }
}

fn zookeeper_client(runtime: &str, install: bool) -> Result<Command, String> {
    let manifest = benches().join("compare/Cargo.toml");
    let target = workshop()?.join("compare");
    let program = target.join("release/lock_contestant");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--bin", "lock_contestant"]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target);
    if !install {
        if !program.exists() {
            return Err("it is not built yet; a run without --short builds it".to_owned());
        }
        cargo.arg("--offline");
    }
    run(&mut cargo)?;
    let mut command = Command::new(program);
    command.arg(runtime);
    Ok(command)
}

fn curator() -> Result<Command, String> {
    let distribution = Distribution::find().map_err(|error| error.to_string())?;
    // Java uses the first Curator in the class path. A folder of ZooKeeper's jars may also have one.
    let mut class_path = OsString::new();
    for jar in curator_jars(Privilege::of_tests()).map_err(|error| error.to_string())? {
        class_path.push(jar);
        class_path.push(":");
    }
    class_path.push(distribution.class_path());
    let mut command = Command::new(distribution.java());
    command.args(["-Xss512k", "-Djava.net.preferIPv4Stack=true"]);
    command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error").arg("-cp").arg(class_path);
    command.arg(benches().join("java/CuratorLocks.java"));
    Ok(command)
}

/// Figures are those of one version, in a folder of its own. Without `install`, any version will do.
fn kazoo(install: bool) -> Result<Command, String> {
    let venv = workshop()?.join("kazoo");
    let mut python = venv.join("bin/python");
    if !has_kazoo(&python) {
        if install {
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            run(Command::new(&python).args(["-m", "pip", "install", "--quiet", KAZOO]))?;
        } else {
            python = PathBuf::from("python3");
            if !has_kazoo(&python) {
                return Err("no kazoo here (Debian's python3-kazoo)".to_owned());
            }
        }
    }
    let mut command = Command::new(python);
    command.arg(benches().join("python/kazoo_locks.py"));
    Ok(command)
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    Err(format!("{program} failed: {last}"))
}

/// Returns the folder of all benchmarks.
pub(crate) fn benches() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

const KAZOO: &str = "kazoo==2.11.0";
