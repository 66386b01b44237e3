//! Runs clients whose operations must be linearizable, and writes their history.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use zk_history::{Entry, judge, write_edn};
use zk_tests::chaos::Error;
use zk_tests::chaos::operations::Operations;
use zk_tests::now;

use crate::workloads::LENGTH;
use crate::{Ending, Run, save, unless_unsupported};

pub(crate) fn run(run: &Run, history: Option<&Path>) -> Result<Ending, Error> {
    let Some(ensemble) = unless_unsupported(run.settings.start_in_namespaces())? else {
        return Ok(Ending::NotRun);
    };
    let start = now();
    let mut ending = Ending::Sound;
    for number in 0.. {
        if run.end.is_over(number, start.elapsed()) {
            break;
        }
        let seed = run.seed + u64::from(number);
        println!("operations run {}, seed {seed}", number + 1);
        let timeout = run.timeout;
        let operations = Operations { ensemble: &ensemble, timeout, length: LENGTH, seed };
        let entries = operations.run(|text| println!("  {text}"))?;
        if let Some(file) = history {
            write_history(&entries, &file_of_run(file, number))?;
        }
        let judged = now();
        let verdict = judge(entries.clone());
        println!(
            "  {} operations, {} with unknown outcome, {} violations, {} undecided, {} groups with a stale \
             read after sync; judged in {:.1} s",
            verdict.operations,
            verdict.unknown,
            verdict.violations.len(),
            verdict.undecided.len(),
            verdict.stale_syncs.len(),
            judged.elapsed().as_secs_f64()
        );
        for text in &verdict.stale_syncs {
            println!("  stale after sync: {text}");
        }
        let broken = [verdict.violations, verdict.undecided].concat();
        for text in &broken {
            println!("  VIOLATION: {text}");
        }
        if !broken.is_empty() || run.keep {
            let lines: Vec<String> = entries.iter().map(ToString::to_string).collect();
            let file = save(&lines.join("\n"), &format!("operations-{seed}"))?;
            println!("  history: {}", file.display());
        }
        if !broken.is_empty() || verdict.operations == 0 {
            ending = Ending::Broken;
        }
    }
    Ok(ending)
}

/// Returns the file of a run: the given one, with the number of the run at its end from the second on.
fn file_of_run(file: &Path, number: u32) -> PathBuf {
    match number {
        0 => file.to_owned(),
        _ => PathBuf::from(format!("{}.{}", file.display(), number + 1)),
    }
}

fn write_history(entries: &[Entry], file: &Path) -> Result<(), Error> {
    let cannot = |error| format!("cannot write {}: {error}", file.display());
    let mut to = BufWriter::new(File::create(file).map_err(cannot)?);
    write_edn(entries, &mut to).and_then(|()| to.flush()).map_err(cannot)?;
    Ok(())
}
