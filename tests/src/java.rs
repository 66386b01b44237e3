//! The Java programs of `tests/java/`, compiled once for all tests.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::zookeeper::skip;

use crate::Scratch;

/// Returns a command that runs the program of a file in `tests/java/`, with more flags for the Java machine.
/// If this Java has no compiler, or if the jars lack a class that the program needs, it prints the reason to
/// standard error and returns `None`.
pub fn program(java: &Path, flags: &[String], class_path: &OsStr, file: &str) -> Option<Command> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("java");
    let source = sources.join(file);
    let classes = classes(java, class_path, &source)?;
    let mut class_path_with_program = OsString::from(classes);
    class_path_with_program.push(":");
    class_path_with_program.push(class_path);
    let mut command = Command::new(java);
    command
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        .arg(format!("-Dlog4j2.configurationFile={}", sources.join("log4j2.xml").display()))
        .args(flags)
        .arg("-cp")
        .arg(class_path_with_program)
        .arg(file.trim_end_matches(".java"));
    Some(command)
}

/// Returns the folder with the classes of a program, which is compiled if it has changed or other jars are
/// used. Java would compile a source file again at each start, which takes longer than to start.
fn classes(java: &Path, class_path: &OsStr, source: &Path) -> Option<PathBuf> {
    let mut version = DefaultHasher::new();
    let base = source.with_file_name("Peer.java");
    let sources = [source, &base].map(|file| fs::read(file).unwrap());
    (java, class_path, sources).hash(&mut version);
    let programs = std::env::current_exe().unwrap().with_file_name("java-programs");
    let classes = programs.join(format!("{:016x}", version.finish()));
    if classes.is_dir() {
        return Some(classes);
    }
    fs::create_dir_all(&programs).unwrap();
    let scratch = Scratch::inside(&programs);
    let compiled = scratch.path("classes");
    let output = Command::new(java)
        // The class path of Java itself, which the compiler takes for its own: only Java expands stars.
        .args(["-XX:TieredStopAtLevel=1", "-cp"])
        .arg(class_path)
        .args(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none"])
        .arg("-sourcepath")
        .arg(source.with_file_name(""))
        .arg("-d")
        .arg(&compiled)
        .arg(source)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let Some((_, reason)) = KNOWN_ERRORS.iter().find(|(error, _)| errors.contains(error))
        else {
            panic!("{} does not compile: {errors}", source.display());
        };
        skip(reason);
        return None;
    }
    // The folder appears with all classes in it. Another process may have been faster.
    let renamed = fs::rename(&compiled, &classes);
    assert!(classes.is_dir(), "{}: {renamed:?}", classes.display());
    Some(classes)
}

/// Errors of the compiler, each with the reason to skip the test.
const KNOWN_ERRORS: [(&str, &str); 4] = [
    ("jdk.compiler", "this Java has no compiler"),
    ("package org.apache.curator.x.discovery does not exist", "no jar curator-x-discovery here"),
    // The newest API that a program for tests beside Curator 4 and 5 uses.
    ("class CuratorCache\n", "Curator's CuratorCache needs Curator 5"),
    ("class PersistentTtlNode\n", "Curator's PersistentTtlNode needs Curator 4"),
];
