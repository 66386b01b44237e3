//! Rules of this repository that neither the compiler nor clippy checks.
//!
//! Every violation is reported as `file:line: what to do`, all of them at once.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod import_cycles;
mod layers;
mod readme;
mod test_names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn files_start_with_documentation() {
    check(|file, report| {
        if !file.text.starts_with("//!") {
            report.at(1, "start the file with `//!` lines that say what it is for");
        }
    });
}

#[test]
fn lines_have_at_most_110_columns() {
    check(|file, report| {
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                report.at(
                    number,
                    &format!("break the line: {columns} columns, {COLUMNS_MAX} at most"),
                );
            }
        }
    });
}

#[test]
fn crate_sources_have_at_most_700_lines() {
    check(|file, report| {
        let lines = file.text.lines().count();
        if file.is_crate_source() && lines > LINES_MAX {
            report.at(
                LINES_MAX,
                &format!("split the file by concern: {lines} lines, {LINES_MAX} at most"),
            );
        }
    });
}

/// The documentation of every lock has the same sections in the same order.
#[test]
fn lock_documentation_has_the_same_sections() {
    let recipes = root().join("crates/zk-recipes/src");
    for lock in LOCKS {
        let text = fs::read_to_string(recipes.join(lock)).unwrap();
        let headings: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("/// # "))
            .filter(|heading| LOCK_PAGE.contains(heading))
            .collect();
        assert_eq!(headings, LOCK_PAGE, "the page of the lock in {lock}");
    }
}

#[test]
fn tests_do_not_sleep() {
    check(|file, report| {
        if !file.path.split('/').any(|folder| folder == "tests") {
            return;
        }
        let mut above = "";
        for (number, line) in file.lines() {
            let excused = [line, above].iter().any(|line| comment_of(line).contains("reason:"));
            if sleeps(code_of(line)) && !excused {
                report.at(
                    number,
                    "wait for a condition (`poll`), or say in a comment here or above, after \
                     `reason:`, why time itself is what matters",
                );
            }
            above = line;
        }
    });
}

#[test]
fn pure_modules_use_no_clock_thread_or_socket() {
    check(|file, report| {
        let pure = PURE_FOLDERS.iter().any(|folder| file.path.starts_with(folder));
        // A test may read the clock once for a starting instant.
        if !pure || file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
            return;
        }
        for (number, line) in file.lines() {
            if line.trim_start().starts_with("#[cfg(test)]") {
                break;
            }
            for name in IMPURE.iter().filter(|name| code_of(line).contains(*name)) {
                report.at(
                    number,
                    &format!("take what `{name}` gives as an argument: this part is pure"),
                );
            }
        }
    });
}

#[test]
fn crate_dependencies_point_down() {
    let root = root();
    let members = member_names(&root);
    let mut report = Report::default();
    for (name, allowed) in MAY_DEPEND_ON {
        let path = format!("crates/{name}/Cargo.toml");
        report.path.clone_from(&path);
        let Ok(manifest) = fs::read_to_string(root.join(&path)) else {
            report.at(1, "the crate has moved: change `MAY_DEPEND_ON` with it");
            continue;
        };
        for (number, section, line) in dependency_lines(&manifest) {
            for member in members.iter().filter(|member| has_word(line, member)) {
                let tool =
                    section == "dev-dependencies" && DEV_ONLY.contains(&(name, member.as_str()));
                if member != name && !allowed.contains(&member.as_str()) && !tool {
                    let problem =
                        format!("{name} may not depend on {member}: move what it needs down");
                    report.at(number, &problem);
                }
            }
        }
    }
    report.finish();
}

/// ARCHITECTURE.md names the tests that hold each invariant: "Held by `FILE`: `TEST`, `TEST`".
#[test]
fn tests_named_by_the_invariants_exist() {
    let root = root();
    let mut report = Report { path: "ARCHITECTURE.md".into(), ..Report::default() };
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (before, rest) = text.split_once("## Architecture invariants").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let (mut source, mut is_held) = (String::new(), false);
    for (index, line) in section.lines().enumerate() {
        let number = before.lines().count() + index;
        let starts_item = line.starts_with(|first: char| first.is_ascii_digit());
        is_held = (is_held && !starts_item) || line.contains("Held by");
        if !is_held {
            continue;
        }
        for quoted in line.split('`').skip(1).step_by(2) {
            if quoted.contains('/') {
                source = fs::read_to_string(root.join(quoted)).unwrap_or_default();
                if source.is_empty() {
                    report
                        .at(number, &format!("there is no {quoted}: correct the name of the file"));
                }
            } else if quoted.contains('_') && !source.contains(&format!("fn {quoted}(")) {
                report.at(number, &format!("there is no {quoted}: correct the name of the test"));
            }
        }
    }
    report.finish();
}

/// A crate cannot be published before the crates that it depends on, also for its tests.
#[test]
fn crate_dependencies_have_no_cycle() {
    let members = member_names(&root());
    let mut left: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for name in &members {
        let path = root().join(format!("crates/{name}/Cargo.toml"));
        let Ok(manifest) = fs::read_to_string(path) else { continue };
        let lines: Vec<&str> = dependency_lines(&manifest).map(|(_, _, line)| line).collect();
        let is_used = |member: &&String| lines.iter().any(|line| has_word(line, member));
        left.insert(name, members.iter().filter(is_used).collect());
    }
    // Whatever depends on no remaining crate is removed, until only cycles and crates above them remain.
    loop {
        let names: BTreeSet<&String> = left.keys().copied().collect();
        left.retain(|_, used| !used.is_disjoint(&names));
        if left.len() == names.len() {
            break;
        }
    }
    assert!(left.is_empty(), "move tests, so that these crates do not need each other: {left:?}");
}

/// Runs `rule` on every Rust file of the repository.
fn check(rule: impl Fn(&File, &mut Report)) {
    let root = root();
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    assert!(!paths.is_empty(), "no Rust files under {}", root.display());
    let mut report = Report::default();
    for path in paths {
        // A file may disappear while an editor or a build is running.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let path = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        report.path.clone_from(&path);
        rule(&File { path, text }, &mut report);
    }
    report.finish();
}

struct File {
    /// The path relative to the root of the workspace.
    path: String,
    text: String,
}

impl File {
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    fn is_crate_source(&self) -> bool {
        let mut folders = self.path.split('/');
        folders.next() == Some("crates") && folders.nth(1) == Some("src")
    }
}

#[derive(Default)]
struct Report {
    path: String,
    text: String,
}

impl Report {
    fn at(&mut self, line: usize, what_to_do: &str) {
        writeln!(self.text, "{}:{line}: {what_to_do}", self.path).unwrap();
    }

    fn finish(self) {
        assert!(self.text.is_empty(), "not tidy:\n{}", self.text);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Adds the Rust files below a folder, in order.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&entry.path(), found);
        } else if kind.is_file() && Path::new(&name).extension().is_some_and(|end| end == "rs") {
            found.push(entry.path());
        }
    }
}

fn member_names(root: &Path) -> Vec<String> {
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let names = crates.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.chain(["zk-tests".to_owned(), "zk-benches".to_owned()]).collect()
}

/// Returns the lines of a manifest that name a dependency, with the line's number and kind of section. They
/// include the headers of sections, which may contain the name.
fn dependency_lines(manifest: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    (1..).zip(manifest.lines()).filter_map(move |(number, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            let is_kind = |part: &&str| part.ends_with("dependencies");
            section = header.trim_end_matches(']').split('.').find(is_kind).unwrap_or_default();
        }
        (!section.is_empty()).then_some((number, section, line))
    })
}

/// Splits a line at `//`, unless that belongs to an address such as `tcp://`.
fn split_comment(line: &str) -> (&str, &str) {
    let start = line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'));
    line.split_at(start.unwrap_or(line.len()))
}

fn code_of(line: &str) -> &str {
    split_comment(line).0
}

fn comment_of(line: &str) -> &str {
    split_comment(line).1
}

/// Returns whether the code calls a function of this name, by any path, but no method.
fn sleeps(code: &str) -> bool {
    let name = "sleep";
    word_starts(code, name)
        .any(|at| code[at + name.len()..].starts_with('(') && !code[..at].ends_with('.'))
}

fn has_word(text: &str, word: &str) -> bool {
    word_starts(text, word).next().is_some()
}

/// Returns the offsets of `word` in `text` as a separate word, not as a part of a longer name.
fn word_starts<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !text[..at].ends_with(part_of_name) && !text[at + word.len()..].starts_with(part_of_name)
    })
}

/// Allowed dependencies of the product's crates on crates of the workspace. Other crates are unrestricted.
const MAY_DEPEND_ON: [(&str, &[&str]); 9] = [
    ("zk-proto", &[]),
    ("zk-session-core", &["zk-proto"]),
    ("zk-session", &["zk-proto", "zk-session-core"]),
    ("zk-tls", &["zk-session"]),
    ("zk-srv", &["zk-session"]),
    ("zk-recipes", &["zk-session"]),
    ("zk-coordination", &["zk-recipes"]),
    ("zk-discovery", &["zk-coordination"]),
    ("zk-testing", &["zk-proto", "zk-session", "zk-session-core"]),
];

/// Crates with an additional development dependency. The tests of the recipes use the in-memory server in
/// place of a real one.
const DEV_ONLY: [(&str, &str); 5] = [
    ("zk-tls", "zk-testing"),
    ("zk-srv", "zk-testing"),
    ("zk-recipes", "zk-testing"),
    ("zk-coordination", "zk-testing"),
    ("zk-discovery", "zk-testing"),
];

const PURE_FOLDERS: [&str; 2] = ["crates/zk-proto/src/", "crates/zk-session-core/src/"];
const IMPURE: [&str; 5] = ["Instant::now", "SystemTime", "tokio::", "std::thread", "std::net::Tcp"];

const COLUMNS_MAX: usize = 110;
const LINES_MAX: usize = 700;

const LOCKS: [&str; 6] = [
    "mutex.rs",
    "rwlock/mod.rs",
    "semaphore/mod.rs",
    "semaphore/mutex.rs",
    "multi_lock.rs",
    "election/mod.rs",
];
const LOCK_PAGE: [&str; 5] =
    ["What it promises", "On the wire", "What it costs", "What happens on loss", "Example"];
