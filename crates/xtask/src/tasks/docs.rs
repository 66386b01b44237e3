//! `cargo xtask docs`: builds the guide in `docs/` as a book of HTML pages.

pub(crate) mod links;
mod stage;

use std::process::Command;

use super::tools::Tool;
use super::{Failure, step, target_folder, workspace_root};

/// Checks the links of the guide, and builds it with mdBook into the folder `book` of cargo's target folder.
pub(crate) fn run() -> Result<(), Failure> {
    let problems = links::problems(&workspace_root());
    if !problems.is_empty() {
        return Err(Failure::task(format!("the guide has broken links:\n{}", problems.join("\n"))));
    }
    let mdbook = MDBOOK.find_or_install()?;
    let (source, book) = (target_folder().join("book-source"), target_folder().join("book"));
    stage::copy(&workspace_root(), &source).map_err(|error| {
        Failure::task(format!("cannot copy docs to {}: {error}", source.display()))
    })?;
    let mut build = Command::new(mdbook);
    step(build.arg("build").arg(&source).arg("--dest-dir").arg(&book))?;
    println!("==> the first page is {}", book.join("index.html").display());
    Ok(())
}

/// Any version from 0.4 on builds the book. Only the search is needed: the server and the watcher double the
/// time of the build.
const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    options: &["--no-default-features", "--features", "search"],
};
