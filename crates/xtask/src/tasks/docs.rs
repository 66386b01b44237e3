//! `cargo xtask docs`: builds the guide in `docs/` as a book of HTML pages.

pub(crate) mod links;
mod stage;

use std::path::PathBuf;
use std::process::Command;

use super::{Failure, cargo, step, target_folder, workspace_root};
use crate::process::find_program;

/// Checks the links of the guide, and builds it with mdBook into the folder `book` of cargo's target folder.
pub(crate) fn run() -> Result<(), Failure> {
    let problems = links::problems(&workspace_root());
    if !problems.is_empty() {
        return Err(Failure::task(format!("the guide has broken links:\n{}", problems.join("\n"))));
    }
    let mdbook = find_or_install()?;
    let (source, book) = (target_folder().join("book-source"), target_folder().join("book"));
    stage::copy(&workspace_root(), &source).map_err(|error| {
        Failure::task(format!("cannot copy docs to {}: {error}", source.display()))
    })?;
    let mut build = Command::new(mdbook);
    step(build.arg("build").arg(&source).arg("--dest-dir").arg(&book))?;
    println!("==> the first page is {}", book.join("index.html").display());
    Ok(())
}

/// Returns the program `mdbook`: the one on the `PATH`, or the one that this task has installed.
fn find_or_install() -> Result<PathBuf, Failure> {
    let tools = target_folder().join("tools");
    let installed = tools.join("bin/mdbook");
    if let Some(found) =
        find_program("mdbook").or_else(|| Some(installed.clone()).filter(|it| it.is_file()))
    {
        return Ok(found);
    }
    println!(
        "==> no mdbook on the PATH: installing mdbook {VERSION} into {}, once",
        tools.display()
    );
    // Only the search is needed: the server and the watcher double the time of the build.
    let options =
        ["--locked", "--no-default-features", "--features", "search", "--version", VERSION];
    step(cargo(&["install", "mdbook"]).args(options).arg("--root").arg(&tools))?;
    Ok(installed)
}

/// Version of mdBook to install. Any version from 0.4 on builds the book.
const VERSION: &str = "0.5.4";
