//! Names that the README and the guide show exist: dependencies and metrics.

use std::fs;

use crate::root;

#[test]
fn shown_dependencies_exist_in_workspace() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for page in ["README.md", "docs/first-lock.md", "docs/testing-your-service.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let (_, shown) = text.split_once("```toml\n").unwrap();
        let (shown, _) = shown.split_once("```").unwrap();
        let shown: Vec<&str> = shown.lines().filter(|line| line.contains(" = ")).collect();
        assert!(!shown.is_empty());
        for line in shown {
            let (name, _) = line.split_once(" = ").unwrap();
            let stated = workspace.lines().find(|line| line.starts_with(&format!("{name} = ")));
            let stated = stated.unwrap_or_else(|| panic!("no dependency of the workspace: {line}"));
            let values =
                ["version = ", "path = "].map(|key| (value(line, key), value(stated, key)));
            for (shown, stated) in values {
                let matches = shown.is_none_or(|shown| shown.ends_with(stated.unwrap()));
                assert!(matches, "{page} shows {line}, and Cargo.toml has {stated:?}");
            }
        }
    }
}

#[test]
fn metrics_in_the_guide_exist() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let written = read("crates/zk-recipes/src/observe/metrics.rs")
        + &read("crates/zk-session/src/prometheus/session.rs")
        + &read("crates/zk-session/src/client/session_totals.rs");
    let guide = read("docs/running-it.md");
    let words = guide.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_metric = |word: &&str| word.starts_with("zk_") && !CRATES.contains(word);
    let metrics: Vec<&str> = words.filter(is_metric).collect();
    assert!(metrics.len() > 10, "{metrics:?}");
    for metric in metrics {
        let name = metric.trim_end_matches("_bucket");
        assert!(written.contains(&format!("\"{name}\"")), "docs/running-it.md: no metric {metric}");
    }
}

/// Returns the quoted value after `key`.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_once(key)?.1.split('"').nth(1)
}

/// Words of the guide that look like metrics.
const CRATES: [&str; 2] = ["zk_recipes", "zk_testing"];
