//! Versions of ZooKeeper that tests run on, and their jars.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Failure, step, target_folder};
use crate::process::find_program;
use crate::zookeeper::{Privilege, install, lock_file};

/// Version of ZooKeeper that tests run on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Version {
    number: &'static str,
    source: Source,
}

#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// Debian 12's packages, with Curator 5.4.0.
    Debian,
    /// This version of PyPI's `pyspark`, which contains the jars of ZooKeeper and Curator.
    Pyspark(&'static str),
}

/// All versions, oldest first. With them come Curator 2.13.0, 5.4.0, 5.7.1 and 5.9.0.
pub(crate) const VERSIONS: [Version; 4] = [
    Version { number: "3.6.3", source: Source::Pyspark("3.5.7") },
    Version { number: "3.8.0", source: Source::Debian },
    Version { number: "3.9.3", source: Source::Pyspark("4.0.0") },
    Version { number: "3.9.5", source: Source::Pyspark("4.3.0") },
];

impl Version {
    /// Finds a version by its number.
    pub(crate) fn parse(number: &str) -> Result<&'static Self, String> {
        VERSIONS.iter().find(|version| version.number == number).ok_or_else(|| {
            let numbers = VERSIONS.each_ref().map(|version| version.number).join(", ");
            format!("the versions are {numbers}")
        })
    }

    pub(crate) fn number(&self) -> &'static str {
        self.number
    }

    /// Fetches or installs the version, unless it is here already, and makes the tests of `command` use it.
    pub(crate) fn select(&self, command: &mut Command) -> Result<(), Failure> {
        match self.source {
            Source::Debian => {
                self.install()?;
                command.env_remove("ZOOKEEPER_HOME").env_remove("CURATOR_HOME");
            }
            Source::Pyspark(pyspark) => {
                let jars = self.fetch(pyspark)?;
                command.env("ZOOKEEPER_HOME", &jars).env("CURATOR_HOME", &jars);
            }
        }
        Ok(())
    }

    /// Installs Debian's ZooKeeper, and checks that it has this version. The tests install the rest.
    fn install(&self) -> Result<(), Failure> {
        let jars = Path::new("/usr/share/java");
        if !jars.join("zookeeper.jar").exists() {
            install(&["zookeeper"], Privilege::Sudo).map_err(Failure::task)?;
        }
        if jars.join(format!("zookeeper-{}.jar", self.number)).exists() {
            return Ok(());
        }
        Err(Failure::task(format!(
            "Debian's package zookeeper has another version here; Debian 12 has {}",
            self.number
        )))
    }

    /// Returns the folder with the jars, which a version of `pyspark` contains.
    fn fetch(&self, pyspark: &str) -> Result<PathBuf, Failure> {
        let servers = target_folder().join("servers");
        let folder = servers.join(self.number);
        let _lock = lock_file("zk-xtask-servers")?;
        if folder.is_dir() {
            return Ok(folder);
        }
        ensure_pip()?;
        println!(
            "==> fetching ZooKeeper {} from PyPI's pyspark {pyspark}, up to 460 MB",
            self.number
        );
        // An interrupted run leaves this folder behind. It gets its name last, when it is complete.
        let partial = servers.join(format!("{}.partial", self.number));
        let failure = |error| Failure::task(format!("{}: {error}", partial.display()));
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial).map_err(failure)?;
        step(
            pip()
                .args(["download", "--no-deps", "--dest", "."])
                .arg(format!("pyspark=={pyspark}"))
                .current_dir(&partial),
        )?;
        let archive = format!("pyspark-{pyspark}.tar.gz");
        step(&mut unpack(&partial, &archive))?;
        fs::remove_file(partial.join(&archive)).map_err(failure)?;
        fs::rename(&partial, &folder).map_err(failure)?;
        Ok(folder)
    }
}

/// Installs `python3` with its `pip`, if one of them is missing.
fn ensure_pip() -> Result<(), Failure> {
    let has_pip = || {
        let mut version = pip();
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    if find_program("python3").is_none() || !has_pip() {
        install(&["python3", "python3-pip"], Privilege::Sudo).map_err(Failure::task)?;
    }
    Ok(())
}

fn pip() -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

/// Returns the command that unpacks the jars that ZooKeeper and Curator need.
fn unpack(folder: &Path, archive: &str) -> Command {
    let mut command = Command::new("tar");
    command.args(["--extract", "--gzip", "--file", archive]).current_dir(folder);
    command.args(["--strip-components=3", "--wildcards"]);
    command.args(JARS.map(|jar| format!("pyspark-*/deps/jars/{jar}.jar")));
    command
}

/// Jars of ZooKeeper and Curator, of their logs and of TLS. All versions of `pyspark` have
/// them.
const JARS: [&str; 23] = [
    "zookeeper-*",
    "curator-*",
    "guava-*",
    "slf4j-api-*",
    "log4j-1.2-api-*",
    "log4j-api-*",
    "log4j-core-*",
    "log4j-slf4j2-impl-*",
    "metrics-core-*",
    "netty-buffer-*",
    "netty-codec-*",
    "netty-common-*",
    "netty-handler-*",
    "netty-resolver-*",
    "netty-transport-4.*",
    "netty-transport-classes-epoll-*",
    "netty-transport-native-unix-common-*",
    "commons-cli-*",
    "commons-io-*",
    "snappy-java-*",
    "jackson-annotations-2*",
    "jackson-core-2*",
    "jackson-databind-2*",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_version_is_an_error_with_all_versions() {
        assert!(Version::parse("3.7").unwrap_err().contains("3.6.3, 3.8.0, 3.9.3, 3.9.5"));
        assert_eq!(Version::parse("3.9.3").unwrap().number(), "3.9.3");
    }

    #[test]
    fn only_the_needed_jars_are_unpacked() {
        let folder = target_folder().join(format!("xtask/unpack-{}", std::process::id()));
        let jars = folder.join("pyspark-1/deps/jars");
        fs::create_dir_all(&jars).unwrap();
        let needed: Vec<String> = JARS.iter().map(|jar| jar.replace('*', "1.0") + ".jar").collect();
        for name in needed.iter().map(String::as_str).chain(["spark-core-1.0.jar"]) {
            fs::write(jars.join(name), "").unwrap();
        }
        let mut pack = Command::new("tar");
        pack.args(["--create", "--gzip", "--file", "archive", "pyspark-1"]).current_dir(&folder);
        assert!(pack.status().unwrap().success());
        fs::remove_dir_all(folder.join("pyspark-1")).unwrap();

        assert!(unpack(&folder, "archive").status().unwrap().success());
        fs::remove_file(folder.join("archive")).unwrap();
        let entries = fs::read_dir(&folder).unwrap();
        let mut found: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        fs::remove_dir_all(&folder).unwrap();
        found.sort();
        let mut needed = needed;
        needed.sort();
        assert_eq!(found, needed);
    }
}
