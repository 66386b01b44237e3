//! `cargo xtask planted`: checks that the tests and the simulation find known faults.
//!
//! Each file `tests/planted/NAME.patch` is one fault: an edit of the production code, with the tests or the
//! simulation that must fail with it. `tests/planted/README.md` describes the format. The faults are built
//! in a copy of the workspace, one after the other.

mod edit;
mod fault;
mod workspace_copy;

use std::fs;
use std::path::Path;

use self::fault::{Fault, Finder};
use self::workspace_copy::WorkspaceCopy;
use super::{Failure, timed, workspace_root};

/// Runs the faults with these names, or all. Fails if one of them is not found, or cannot be built.
pub(crate) fn run(names: &[String]) -> Result<(), Failure> {
    let faults = chosen(names, all(&workspace_root())?)?;
    let copy = WorkspaceCopy::update(&workspace_root())?;
    check_unedited(&copy, &faults)?;
    println!("==> {:<30} {:>7}  found by", "fault", "seconds");
    let mut missed = Vec::new();
    for fault in &faults {
        if !is_found(&copy, fault)? {
            missed.push(fault.name.as_str());
        }
    }
    println!("==> {} of {} faults found", faults.len() - missed.len(), faults.len());
    if missed.is_empty() {
        return Ok(());
    }
    let names = missed.join(" ");
    let text = format!(
        "no test fails with these faults: {names}; run `cargo xtask planted {names}` again"
    );
    Err(Failure::task(text))
}

/// Returns the names of a third of all faults. Consecutive numbers go through all of them.
pub(crate) fn third(number: u64) -> Result<Vec<String>, Failure> {
    let faults = all(&workspace_root())?.into_iter().map(|fault| fault.name);
    let start = usize::try_from(number % 3).unwrap_or_default();
    Ok(faults.skip(start).step_by(3).collect())
}

/// Runs each finder without a fault. A finder that always fails would find every fault.
fn check_unedited(copy: &WorkspaceCopy, faults: &[Fault]) -> Result<(), Failure> {
    let mut finders: Vec<Finder> = Vec::new();
    for finder in faults.iter().flat_map(|fault| &fault.finders).map(Finder::without_fault) {
        if !finders.contains(&finder) {
            finders.push(finder);
        }
    }
    for finder in finders {
        let (failure, took) = timed(|| finder.run(copy));
        if let Some(failure) = failure? {
            return Err(Failure::task(format!("fails without a fault: {finder}: {failure}")));
        }
        println!("==> {took:.1} s, passes without a fault: {finder}");
    }
    Ok(())
}

/// Runs the finders of a fault, and prints what each of them reports. Returns whether all of them fail.
fn is_found(copy: &WorkspaceCopy, fault: &Fault) -> Result<bool, Failure> {
    copy.write(&fault.planted(copy.original())?)?;
    let mut is_found = true;
    for finder in &fault.finders {
        let (failure, took) = timed(|| finder.run(copy));
        let failure = match failure {
            Ok(failure) => failure,
            Err(failure) => {
                copy.restore(fault.paths())?;
                return Err(Failure::task(format!("{}: {}", fault.file(), failure.message())));
            }
        };
        is_found &= failure.is_some();
        let how = failure.unwrap_or_else(|| format!("NOT FOUND by {finder}"));
        println!("    {:<30} {took:>7.1}  {how}", fault.name);
    }
    copy.restore(fault.paths())?;
    Ok(is_found)
}

/// Returns the faults with these names, or all if there are no names.
fn chosen(names: &[String], mut faults: Vec<Fault>) -> Result<Vec<Fault>, Failure> {
    if let Some(unknown) = names.iter().find(|name| faults.iter().all(|fault| fault.name != **name))
    {
        return Err(Failure::usage(format!("no planted fault `{unknown}`; see {FOLDER}")));
    }
    faults.retain(|fault| names.is_empty() || names.contains(&fault.name));
    Ok(faults)
}

/// Reads all faults of the workspace, in the order of their names. Each edit must fit the code.
fn all(root: &Path) -> Result<Vec<Fault>, Failure> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))?;
    let mut faults = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|kind| kind == "patch") {
            let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let fault = Fault::parse(&name, &text).map_err(Failure::task)?;
            fault.planted(root)?;
            faults.push(fault);
        }
    }
    faults.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(faults)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::task(format!("{}: {error}", path.display()))
}

const FOLDER: &str = "tests/planted";

#[cfg(test)]
mod tests {
    use super::*;

    /// The check of every fault that needs no build.
    #[test]
    fn planted_faults_fit_the_code_and_name_existing_tests() {
        let root = workspace_root();
        let faults = all(&root).map_err(|failure| failure.message().to_owned()).unwrap();
        assert!(faults.len() >= 30, "{}", faults.len());
        let sources = sources(&root.join("crates"));
        for fault in &faults {
            for test in fault.finders.iter().filter_map(Finder::test_name) {
                let head = format!("fn {test}(");
                let exists = sources.iter().any(|text| text.contains(&head));
                assert!(exists, "{}: there is no test `{test}`", fault.file());
            }
        }
    }

    #[test]
    fn unknown_fault_is_a_usage_error() {
        let names = ["NoSuch".to_owned()];
        assert_eq!(chosen(&names, Vec::new()).unwrap_err().status(), 2);
    }

    fn sources(folder: &Path) -> Vec<String> {
        let mut sources = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources.extend(self::sources(&path));
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                sources.push(fs::read_to_string(path).unwrap());
            }
        }
        sources
    }
}
