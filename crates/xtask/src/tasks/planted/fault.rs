//! Fault to plant: its edits, and the runs that must fail with it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use super::edit::Edit;
use super::workspace_copy::WorkspaceCopy;
use super::{FOLDER, unreadable};
use crate::tasks::{Failure, output_of};

/// Content of one file `NAME.patch`.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) finders: Vec<Finder>,
    edits: Vec<Edit>,
}

impl Fault {
    /// Parses the text of a patch.
    ///
    /// # Errors
    /// If the patch has no description, no finder or no edit, or if one of them is invalid.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut fault = Self { name: name.to_owned(), finders: Vec::new(), edits: Vec::new() };
        let invalid = |problem: &str| format!("{}: {problem}", file(name));
        let (header, hunks) = text.split_once("\n--- ").unwrap_or((text, ""));
        for line in header.lines().filter_map(|line| line.strip_prefix("Found-by: ")) {
            let finder =
                Finder::parse(line).ok_or_else(|| invalid(&format!("`{line}` is no run")))?;
            fault.finders.push(finder);
        }
        for section in hunks.split("\n--- ") {
            fault.edits.extend(edits_of(section).map_err(|problem| invalid(&problem))?);
        }
        let has_description = !header.trim_start().starts_with("Found-by: ");
        if !has_description || fault.finders.is_empty() || fault.edits.is_empty() {
            return Err(invalid("it needs a description, `Found-by: ` and an edit"));
        }
        Ok(fault)
    }

    /// Returns the path of the patch.
    pub(super) fn file(&self) -> String {
        file(&self.name)
    }

    /// Returns the paths of the files that the fault changes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.edits.iter().map(|edit| edit.path.as_str())
    }

    /// Returns the changed files of the workspace at `root`, with their text after the edits.
    ///
    /// # Errors
    /// If an edit does not fit the code.
    pub(super) fn planted(&self, root: &Path) -> Result<BTreeMap<&str, String>, Failure> {
        let mut files = BTreeMap::new();
        for edit in &self.edits {
            let text = match files.remove(edit.path.as_str()) {
                Some(text) => text,
                None => fs::read_to_string(root.join(&edit.path))
                    .map_err(|error| unreadable(Path::new(&edit.path), &error))?,
            };
            let text = edit.apply(&text).map_err(|count| {
                let (path, file) = (&edit.path, self.file());
                let lines = format!("its lines occur {count} times in {path}, not once");
                Failure::task(format!("the code has changed: update {file}: {lines}"))
            })?;
            files.insert(edit.path.as_str(), text);
        }
        Ok(files)
    }
}

fn file(name: &str) -> String {
    format!("{FOLDER}/{name}.patch")
}

/// Parses a section of a patch, which starts after the `--- ` of its path.
fn edits_of(section: &str) -> Result<Vec<Edit>, String> {
    let (path, body) = section.split_once('\n').unwrap_or((section, ""));
    let path = path.trim().trim_start_matches("a/");
    // `git diff` writes these lines, too.
    let is_noise =
        |line: &&str| ["+++ ", "diff ", "index "].iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = body.lines().filter(|line| !is_noise(line)).collect();
    let hunks = lines.split(|line| line.starts_with("@@"));
    hunks.filter(|hunk| !hunk.is_empty()).map(|hunk| Edit::parse(path, hunk)).collect()
}

/// Run that must fail with a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finder {
    /// The simulation with these arguments. The last one is the number of seeds.
    Sim(Vec<String>),
    /// `cargo test` with these arguments. The last one is the name of a test.
    Test(Vec<String>),
}

impl Finder {
    /// Parses `sim [--coordination] --seeds N` or `test ARG...`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (kind, arguments) = (words.next()?, words.collect::<Vec<_>>());
        let last = arguments.last()?;
        match kind.as_str() {
            "sim" if last.parse::<u32>().is_ok() => Some(Self::Sim(arguments)),
            "test" => Some(Self::Test(arguments)),
            _ => None,
        }
    }

    /// Returns the run that must pass without a fault. For the simulation, a few seeds suffice, because `ci`
    /// runs many.
    pub(super) fn without_fault(&self) -> Self {
        let mut finder = self.clone();
        if let Self::Sim(arguments) = &mut finder {
            arguments.pop();
            arguments.push(SEEDS_WITHOUT_FAULT.to_owned());
        }
        finder
    }

    /// Returns the name of the test without its modules, if this is a test.
    #[cfg(test)]
    pub(super) fn test_name(&self) -> Option<&str> {
        match self {
            Self::Sim(_) => None,
            Self::Test(arguments) => arguments.last()?.rsplit("::").next(),
        }
    }

    /// Builds the run in a copy of the workspace, and runs it. Returns what failed, or `None` if it passed.
    ///
    /// # Errors
    /// If the copy does not build, has no such test, or if the simulation ends without a violation.
    pub(super) fn run(&self, copy: &WorkspaceCopy) -> Result<Option<String>, Failure> {
        let (mut build, mut run) = match self {
            Self::Sim(arguments) => {
                let mut run = copy.limited(copy.sim_program().as_os_str(), SECONDS_MAX);
                run.args(arguments);
                (copy.build_of_sim(), run)
            }
            Self::Test(arguments) => {
                let mut build = copy.cargo(&["test", "--no-run"]);
                build.args(arguments);
                let mut run = copy.limited(build.get_program(), SECONDS_MAX);
                run.arg("test").args(arguments);
                (build, run)
            }
        };
        output_of(&mut build)?;
        let ended = run.env("RUST_BACKTRACE", "0").output();
        let ended =
            ended.map_err(|error| Failure::task(format!("could not run {self}: {error}")))?;
        let text = String::from_utf8_lossy(&ended.stdout);
        let has_line = |end: &str| text.lines().any(|line| line.ends_with(end));
        match (self, ended.status.code()) {
            (Self::Sim(_), Some(0)) => Ok(None),
            (Self::Sim(_), _) => match text.lines().find(|line| line.contains(" is broken: ")) {
                Some(line) => Ok(Some(line.chars().take(FAILURE_LEN_MAX).collect())),
                None => Err(Failure::task(format!("no violation, but {}: {self}", ended.status))),
            },
            (Self::Test(_), Some(0)) if has_line(" ... ok") => Ok(None),
            (Self::Test(_), Some(0)) => {
                Err(Failure::task(format!("there is no such test: {self}")))
            }
            (Self::Test(_), Some(TIMED_OUT)) => {
                Ok(Some(format!("no end within {SECONDS_MAX} s: {self}")))
            }
            (Self::Test(_), _) => Ok(Some(self.to_string())),
        }
    }
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sim(arguments) => write!(f, "sim {}", arguments.join(" ")),
            Self::Test(arguments) => write!(f, "test {}", arguments.join(" ")),
        }
    }
}

const SEEDS_WITHOUT_FAULT: &str = "200";

/// Seconds that a run may take. Under some faults a test waits for ever.
const SECONDS_MAX: u32 = 300;
/// Exit status of `timeout` in that case.
const TIMED_OUT: i32 = 124;

const FAILURE_LEN_MAX: usize = 90;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_has_a_description_finders_and_edits() {
        let text = "Two\nlines.\n\nFound-by: sim --seeds 9\nFound-by: test -p zk-proto --lib a::x\n\n\
                    --- a/one.rs\n+++ b/one.rs\n@@ -1,2 +1,2 @@\n-a\n+b\n@@\n-c\n--- two.rs\n-d\n";
        let fault = Fault::parse("Name", text).unwrap();
        assert_eq!(fault.paths().collect::<Vec<_>>(), ["one.rs", "one.rs", "two.rs"]);
        let finders: Vec<String> = fault.finders.iter().map(Finder::to_string).collect();
        assert_eq!(finders, ["sim --seeds 9", "test -p zk-proto --lib a::x"]);
        assert_eq!(fault.finders[0].without_fault().to_string(), "sim --seeds 200");
        assert_eq!(fault.finders[1].test_name(), Some("x"));
    }

    #[test]
    fn incomplete_patch_is_rejected_with_its_path() {
        for text in [
            "",
            "No finder.\n\n--- a\n-x\n",
            "Found-by: sim --seeds 9\n\n--- a\n-x\n",
            "No edit.\n\nFound-by: sim --seeds 9\n",
            "No number.\n\nFound-by: sim --seeds\n\n--- a\n-x\n",
            "No name.\n\nFound-by: test\n\n--- a\n-x\n",
            "No such finder.\n\nFound-by: luck\n\n--- a\n-x\n",
        ] {
            let problem = Fault::parse("Name", text).unwrap_err();
            assert!(problem.starts_with("tests/planted/Name.patch: "), "{problem}");
        }
    }
}
