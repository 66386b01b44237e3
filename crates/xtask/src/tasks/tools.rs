//! Programs of others that tasks install.

use std::path::PathBuf;

use super::{Failure, cargo, step, target_folder};
use crate::process::find_program;

/// A program that cargo installs.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Version to install. A program that is there may have another one.
    pub(super) version: &'static str,
    /// Options of the build.
    pub(super) options: &'static [&'static str],
}

impl Tool {
    /// Returns the program: from the `PATH`, or else from the folder of installed tools. Installs it if it
    /// is missing.
    pub(super) fn find_or_install(&self) -> Result<PathBuf, Failure> {
        let (Self { name, version, options }, tools) = (self, target_folder().join("tools"));
        let installed = tools.join("bin").join(name);
        let found =
            find_program(name).or_else(|| Some(installed.clone()).filter(|path| path.is_file()));
        if let Some(found) = found {
            return Ok(found);
        }
        println!(
            "==> no {name} on the PATH: installing {name} {version} into {}, once",
            tools.display()
        );
        let mut install = cargo(&["install", name, "--locked", "--version", version]);
        step(install.args(*options).arg("--root").arg(&tools))?;
        Ok(installed)
    }
}
