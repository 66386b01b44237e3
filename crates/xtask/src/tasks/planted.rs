//! `cargo xtask planted`: checks that the tests and the simulation find known faults.
//!
//! Each file `tests/planted/NAME.patch` is one fault: an edit of the production code, with the tests or the
//! simulation that must fail with it. `tests/planted/README.md` describes the format. The faults are built
//! in a copy of the workspace, one after the other.

mod edit;
mod fault;
mod finder;
mod workspace_copy;

use std::fs;
use std::path::{Path, PathBuf};

use self::fault::Fault;
use self::finder::{Finder, Verdict};
use self::workspace_copy::WorkspaceCopy;
use super::{Failure, timing, workspace_root};

/// Faults to run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Names of faults; all faults if empty.
    pub(crate) names: Vec<String>,
    /// Prints the faults, and runs none.
    pub(crate) only_list: bool,
    /// Number of seeds for each run of the simulation, instead of that of the fault.
    pub(crate) seeds: Option<u32>,
    /// Size of the part of all faults that runs.
    pub(crate) sample: Option<u32>,
    /// Number of the part. Consecutive numbers go through all faults.
    pub(crate) from: u32,
}

/// Runs the faults of `plan`. Fails if one of them is not found, or cannot be built.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    let faults = chosen(plan, all(&workspace_root())?)?;
    if plan.only_list {
        faults.iter().for_each(|fault| println!("{fault}"));
        return Ok(());
    }
    let copy = WorkspaceCopy::update(&workspace_root())?;
    check_unedited(&copy, &faults)?;
    find(&copy, &faults)
}

/// Runs the finders of each fault. Fails if one of them passes, or if the fault cannot be built.
fn find(copy: &WorkspaceCopy, faults: &[Fault]) -> Result<(), Failure> {
    println!("==> {:<28} {:>7}  found by", "fault", "seconds");
    let mut missed = Vec::new();
    for fault in faults {
        if !is_found(copy, fault)? {
            missed.push(fault.name.clone());
        }
    }
    println!("==> {} of {} faults found", faults.len() - missed.len(), faults.len());
    if missed.is_empty() { Ok(()) } else { Err(Failure::task(not_found(&missed))) }
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
        let (verdict, took) = timing::timed(&format!("unedited: {finder}"), || finder.run(copy));
        if let Verdict::Found(how) = verdict? {
            return Err(Failure::task(format!("fails without a fault: {finder}: {how}")));
        }
        println!("==> {:.1} s, passes without a fault: {finder}", took.as_secs_f64());
    }
    Ok(())
}

/// Runs the finders of a fault, and prints what each of them reports. Returns whether all of them fail.
fn is_found(copy: &WorkspaceCopy, fault: &Fault) -> Result<bool, Failure> {
    copy.write(&fault.planted(copy.original())?)?;
    let mut is_found = true;
    for finder in &fault.finders {
        let (verdict, took) = timing::timed(&fault.name, || finder.run(copy));
        let how = match verdict {
            Ok(Verdict::Found(how)) => how,
            Ok(Verdict::Passed) => {
                is_found = false;
                format!("NOT FOUND by {finder}")
            }
            Err(failure) => {
                copy.restore(fault.paths())?;
                let text = format!("{}: {}", fault.file(), failure.message());
                return Err(Failure::task(text));
            }
        };
        println!("    {:<28} {:>7.1}  {how}", fault.name, took.as_secs_f64());
    }
    copy.restore(fault.paths())?;
    Ok(is_found)
}

fn not_found(missed: &[String]) -> String {
    let names = missed.join(" ");
    format!("no test fails with these faults: {names}; run `cargo xtask planted {names}` again")
}

/// Returns the faults that a plan selects, in the order of their names.
fn chosen(plan: &Plan, all: Vec<Fault>) -> Result<Vec<Fault>, Failure> {
    if let Some(unknown) = plan.names.iter().find(|name| all.iter().all(|it| it.name != **name)) {
        let names: Vec<&str> = all.iter().map(|fault| fault.name.as_str()).collect();
        let names = names.join(", ");
        return Err(Failure::usage(format!("no planted fault `{unknown}`; there are {names}")));
    }
    let mut chosen = all;
    chosen.retain(|fault| plan.names.is_empty() || plan.names.contains(&fault.name));
    if let Some(size) = plan.sample {
        let (size, count) = (size as usize, chosen.len());
        chosen.rotate_left((plan.from as usize).wrapping_mul(size) % count.max(1));
        chosen.truncate(size);
    }
    for finder in chosen.iter_mut().flat_map(|fault| &mut fault.finders) {
        finder.set_seeds(plan.seeds);
    }
    Ok(chosen)
}

/// Reads all faults of the workspace, in the order of their names. Each edit must fit the code.
fn all(root: &Path) -> Result<Vec<Fault>, Failure> {
    let mut faults = Vec::new();
    for path in patches(root)? {
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let fault = Fault::parse(&name, &text).map_err(Failure::task)?;
        fault.planted(root)?;
        faults.push(fault);
    }
    Ok(faults)
}

fn patches(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "patch"));
    paths.sort();
    Ok(paths)
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
        assert!(faults.len() >= 60, "{}", faults.len());
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
    fn samples_go_through_all_faults() {
        let text = "A fault.\n\nFound-by: sim\n\n--- a\n-x\n+y\n";
        let names = ["A", "B", "C", "D", "E"];
        let sample = |from| {
            let all = names.iter().map(|name| Fault::parse(name, text).unwrap()).collect();
            let plan = Plan { sample: Some(2), from, ..Plan::default() };
            let chosen = chosen(&plan, all).unwrap();
            chosen.into_iter().map(|fault| fault.name).collect::<String>()
        };
        assert_eq!([0, 1, 2, 3].map(sample), ["AB", "CD", "EA", "BC"]);
    }

    #[test]
    fn unknown_fault_is_a_usage_error() {
        let plan = Plan { names: vec!["NoSuch".to_owned()], ..Plan::default() };
        assert_eq!(chosen(&plan, Vec::new()).unwrap_err().status(), 2);
    }

    fn sources(folder: &Path) -> Vec<String> {
        let mut sources = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources.extend(self::sources(&path));
            } else if path.extension().is_some_and(|it| it == "rs") {
                sources.push(fs::read_to_string(path).unwrap());
            }
        }
        sources
    }
}
