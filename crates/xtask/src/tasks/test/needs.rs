//! What the selected tests need beside Rust.

use std::fs;
use std::path::Path;

use crate::zookeeper::{Distribution, Error, Privilege, curator_jars, ensure_namespace_tools};

/// What tests need beside Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    zookeeper: bool,
    curator: bool,
    namespaces: bool,
}

impl Needs {
    pub(super) const ALL: Self = Self { zookeeper: true, curator: true, namespaces: true };
    const NONE: Self = Self { zookeeper: false, curator: false, namespaces: false };

    /// Returns the needs of the tests that the arguments of a `cargo test` select.
    pub(super) fn of(root: &Path, arguments: &[String]) -> Self {
        let options = options(arguments);
        let packages = values(options, &["-p", "--package"]);
        let is_selected = |name: &&str| packages.is_empty() || packages.contains(name);
        if !WITH_SERVERS.iter().any(is_selected) {
            return Self::NONE;
        }
        // Libraries, programs, and examples in documentation run without servers.
        let tests = values(options, &["--test"]);
        if tests.is_empty() && selects(options, &WITHOUT_SERVERS) {
            return Self::NONE;
        }
        Self::of_tests(root, &tests)
    }

    /// As [`Self::of`], where the tests against real servers are run unless others are selected.
    pub(super) fn of_real_servers(root: &Path, arguments: &[String]) -> Self {
        Self::of_tests(root, &values(options(arguments), &["--test"]))
    }

    /// Returns the needs of these tests, or of all if there are none. The source of a test names what it uses.
    fn of_tests(root: &Path, names: &[&str]) -> Self {
        if names.is_empty() {
            return Self::ALL;
        }
        let sources: Vec<String> = names.iter().filter_map(|name| source(root, name)).collect();
        let mentions = |word: &str| sources.iter().any(|text| text.contains(word));
        Self {
            zookeeper: !sources.is_empty(),
            curator: mentions("Curator"),
            namespaces: mentions("in_namespaces"),
        }
    }

    /// Returns the needs beside the jars of ZooKeeper and Curator.
    pub(super) fn without_jars(self) -> Self {
        Self { curator: false, ..self }
    }

    /// Installs what is needed and missing, with `apt-get`, and says so before.
    ///
    /// # Errors
    /// If there is no ZooKeeper or no Java. What else is missing is printed: the tests that need it are skipped.
    pub(super) fn set_up(self) -> Result<(), Error> {
        if self.zookeeper {
            let distribution = Distribution::find_or_install(Privilege::Sudo)?;
            println!("==> {distribution}");
        }
        if self.namespaces
            && let Err(error) = ensure_namespace_tools(Privilege::Sudo)
        {
            println!("==> tests that cut links between servers will be skipped: {error}");
        }
        if self.curator
            && let Err(error) = curator_jars(Privilege::Sudo)
        {
            println!("==> tests beside Curator will be skipped: {error}");
        }
        Ok(())
    }
}

/// Returns the options of cargo among its arguments, without those of the test programs.
pub(super) fn options(arguments: &[String]) -> &[String] {
    arguments.split(|word| word == "--").next().unwrap_or_default()
}

/// Returns whether one of the options is among these, with or without a value.
pub(super) fn selects(options: &[String], names: &[&str]) -> bool {
    options.iter().any(|word| names.contains(&word.split('=').next().unwrap_or(word)))
}

/// Returns the values of these options.
fn values<'a>(options: &'a [String], names: &[&str]) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (at, word) in options.iter().enumerate() {
        match word.split_once('=') {
            Some((name, value)) if names.contains(&name) => values.push(value),
            None if names.contains(&word.as_str()) => {
                values.extend(options.get(at + 1).map(String::as_str));
            }
            _ => {}
        }
    }
    values
}

/// Returns the text of a test that uses real servers.
fn source(root: &Path, name: &str) -> Option<String> {
    FOLDERS.iter().find_map(|folder| {
        let path = root.join(folder).join(name);
        match fs::read_dir(&path) {
            Ok(entries) => Some(
                entries.flatten().filter_map(|it| fs::read_to_string(it.path()).ok()).collect(),
            ),
            Err(_) => fs::read_to_string(path.with_extension("rs")).ok(),
        }
    })
}

/// Packages with tests that use real servers, and the folders of these tests.
const WITH_SERVERS: [&str; 3] = ["zk-tests", "xtask", "zk-handoff"];
const FOLDERS: [&str; 3] = ["tests/tests", "crates/xtask/tests", "benches/handoff/tests"];

/// Options that select only what uses no server.
const WITHOUT_SERVERS: [&str; 7] =
    ["--lib", "--bin", "--bins", "--example", "--examples", "--bench", "--doc"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::workspace_root;

    fn needs(line: &str) -> Needs {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Needs::of(&workspace_root(), &words)
    }

    #[test]
    fn selection_without_servers_needs_nothing() {
        for line in ["-p zk-recipes", "--package=zk-proto frames", "--doc", "-p xtask --lib"] {
            assert_eq!(needs(line), Needs::NONE, "{line}");
        }
        assert_eq!(needs("--test frames"), Needs::NONE, "a test of zk-proto");
    }

    #[test]
    fn selected_test_needs_what_its_source_names() {
        let zookeeper = Needs { zookeeper: true, ..Needs::NONE };
        assert_eq!(needs("--test sasl"), zookeeper);
        assert_eq!(needs("-p zk-tests --test=hostile_peer"), zookeeper);
        assert_eq!(needs("--test curator_mutexes"), Needs { curator: true, ..zookeeper });
        assert_eq!(needs("--test follower_cut"), Needs { namespaces: true, ..zookeeper });
    }

    #[test]
    fn everything_is_needed_without_a_selection() {
        for line in ["", "-p zk-tests", "some_filter", "-- --test"] {
            assert_eq!(needs(line), Needs::ALL, "{line}");
        }
    }
}
