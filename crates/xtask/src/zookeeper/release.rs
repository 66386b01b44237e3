//! Releases of ZooKeeper whose jars a Python package carries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Error;
use super::install::{Privilege, install};
use crate::process::find_program;

/// Release of ZooKeeper, with a Curator, for tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) version: &'static str,
    /// The version of Curator that comes with it.
    pub(crate) curator: &'static str,
    /// The Python package with its jars; `None` for the release in Debian's packages.
    package: Option<&'static str>,
}

/// The releases that the tests run against: of each minor version that servers of today have, and two of the
/// last one.
pub(crate) const RELEASES: [Release; 4] = [
    Release { version: "3.6.3", curator: "2.13.0", package: Some("pyspark==3.5.7") },
    Release { version: "3.8.0", curator: "5.4.0", package: None },
    Release { version: "3.9.3", curator: "5.7.1", package: Some("pyspark==4.0.0") },
    Release { version: "3.9.5", curator: "5.9.0", package: Some("pyspark==4.3.0") },
];

impl Release {
    pub(crate) fn find(version: &str) -> Option<&'static Self> {
        RELEASES.iter().find(|release| release.version == version)
    }

    /// Returns the folder with the jars below `servers`, which is filled at the first call: a download of some
    /// 400 MB. Returns `None` for Debian's release.
    ///
    /// # Errors
    /// If a program for it is missing and cannot be installed, or if the download fails.
    pub(crate) fn unpacked(&self, servers: &Path) -> Result<Option<PathBuf>, Error> {
        let Some(package) = self.package else { return Ok(None) };
        let folder = servers.join(self.version);
        // Renamed when it is complete: an interrupted download begins again.
        if !folder.is_dir() {
            let partial = servers.join(format!("{}.partial", self.version));
            let _absent = fs::remove_dir_all(&partial);
            download(package, &partial)?;
            unpack(&partial)?;
            fs::rename(&partial, &folder).map_err(Error::io(folder.display()))?;
        }
        Ok(Some(folder))
    }
}

/// Downloads the source archive of a package into `folder`.
fn download(package: &str, folder: &Path) -> Result<(), Error> {
    let python = || find_program("python3");
    let has_pip = |python: PathBuf| {
        let output = Command::new(python).args(["-m", "pip", "--version"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !python().is_some_and(has_pip) {
        install(&["python3-pip"], Privilege::Sudo).map_err(Error::missing)?;
    }
    println!("==> downloading the jars in {package}, once");
    let mut pip = Command::new(python().unwrap_or_else(|| "python3".into()));
    pip.args(["-m", "pip", "download", "--no-deps", package, "--dest"]).arg(folder);
    run(&mut pip, "pip download")
}

/// Unpacks the jars that servers and Curator need, and removes the archive.
fn unpack(folder: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(Error::io(folder.display()))?;
    let archive = entries.flatten().map(|entry| entry.path()).find(|path| path.is_file());
    let archive = archive.ok_or_else(|| Error::missing("pip downloaded nothing".to_owned()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&archive).arg("-C").arg(folder);
    // The jars are in NAME-VERSION/deps/jars/.
    tar.args(["--strip-components=3", "--wildcards"]);
    tar.args(JARS.map(|jar| format!("*/deps/jars/{jar}.jar")));
    run(&mut tar, "tar")?;
    fs::remove_file(&archive).map_err(Error::io(archive.display()))
}

fn run(command: &mut Command, what: &str) -> Result<(), Error> {
    let status = command.status().map_err(Error::io(what))?;
    if status.success() { Ok(()) } else { Err(Error::missing(format!("{what} failed: {status}"))) }
}

/// Jars of a server with Netty, of its log, and of Curator, of some 270.
const JARS: [&str; 18] = [
    "zookeeper-*",
    "curator-*",
    "guava-*",
    "jackson-core-2*",
    "jackson-annotations-*",
    "jackson-databind-*",
    "slf4j-api-*",
    "log4j-*",
    "metrics-core-*",
    "snappy-java-*",
    "commons-cli-*",
    "commons-io-*",
    "netty-buffer-*",
    "netty-codec*",
    "netty-common-*",
    "netty-handler*",
    "netty-resolver*",
    "netty-transport-*Final",
];
