//! Search for the ZooKeeper server's jars and for a Java to run them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Error;
use super::existing::existing_server;
use super::install::{self, Privilege};
use crate::process;

/// ZooKeeper server that can run on this machine: a Java and a class path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    java: PathBuf,
    class_path: OsString,
    origin: String,
}

impl Distribution {
    /// Finds ZooKeeper and Java.
    ///
    /// ZooKeeper is `ZOOKEEPER_HOME` if that is set (an unpacked distribution, or a folder of jars), else
    /// Debian's package `zookeeper`. Java is `JAVA_HOME`'s, else the one on the `PATH`.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`](super::ErrorKind::Missing), with instructions, if one of them is missing.
    pub fn find() -> Result<Self, Error> {
        let (class_path, origin) = find_jars().map_err(Absent::explain)?;
        let java = find_java().map_err(Absent::explain)?;
        Ok(Self { java, class_path, origin })
    }

    /// Finds ZooKeeper like [`Distribution::find`], and installs missing packages with `apt-get`, if that
    /// exists and the rights suffice.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`](super::ErrorKind::Missing), with instructions, if a package is missing and
    /// cannot be installed.
    pub fn find_or_install(privilege: Privilege) -> Result<Self, Error> {
        let mut packages = Vec::new();
        for absent in [find_jars().err(), find_java().err()].into_iter().flatten() {
            match absent {
                Absent::Package { name, .. } => packages.push(name),
                wrong @ Absent::Misconfigured(_) => return Err(wrong.explain()),
            }
        }
        if !packages.is_empty()
            && let Err(why) = install::install(&packages, privilege)
        {
            // The result of the search decides, because apt-get also fails for unrelated packages.
            return Self::find().map_err(|missing| Error::missing(format!("{missing} ({why})")));
        }
        Self::find()
    }

    /// Returns the distribution for the tests of this process, found or installed once.
    ///
    /// # Errors
    /// Like [`Distribution::find_or_install`], with the same result every time.
    /// [`ErrorKind::Unsupported`](super::ErrorKind::Unsupported) if the run has an
    /// [`existing_server`](super::existing_server).
    pub fn shared() -> Result<&'static Self, Error> {
        static SHARED: OnceLock<Result<Distribution, Error>> = OnceLock::new();
        let find = || match existing_server() {
            None => Self::find_or_install(Privilege::of_tests()),
            Some(_) => {
                Err(Error::unsupported("needs a server of its own, and the run has --connect"))
            }
        };
        SHARED.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    /// Returns the path of the Java that runs servers.
    pub fn java(&self) -> &Path {
        &self.java
    }

    /// Returns true if the servers are of 3.4, which has another form of the configuration.
    pub(crate) fn is_3_4(&self) -> bool {
        let folder = Path::new(&self.class_path).parent();
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
        let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.any(|name| name.to_string_lossy().starts_with("zookeeper-3.4."))
    }

    /// Returns the class path of ZooKeeper, which includes its client.
    pub fn class_path(&self) -> &OsStr {
        &self.class_path
    }

    /// Returns the command that runs a server with the configuration files in `folder`.
    pub(crate) fn command(&self, folder: &Path, jvm_flags: &[String]) -> Vec<OsString> {
        // The folder is first in the class path, so that its logging configuration overrides any in the jars.
        let mut class_path = folder.as_os_str().to_owned();
        class_path.push(":");
        class_path.push(&self.class_path);

        let mut command = vec![self.java.clone().into_os_string()];
        command.extend(JVM_FLAGS.iter().map(OsString::from));
        command.extend(jvm_flags.iter().map(OsString::from));
        command.extend(["-cp".into(), class_path, MAIN_CLASS.into()]);
        command.push(folder.join(super::settings::CONFIG_FILE).into_os_string());
        command
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.origin, self.java.display())
    }
}

/// Missing part of a distribution, and the package that provides it.
enum Absent {
    Package { name: &'static str, what: &'static str },
    Misconfigured(String),
}

impl Absent {
    fn explain(self) -> Error {
        Error::missing(match self {
            Self::Package { name, what } => format!(
                "{what}: run `cargo xtask test`, which installs it where it may, or install \
                 Debian's package `{name}`{}",
                if name == ZOOKEEPER_PACKAGE {
                    ", or set ZOOKEEPER_HOME to an unpacked ZooKeeper or a folder of its jars"
                } else {
                    ", or set JAVA_HOME"
                }
            ),
            Self::Misconfigured(what) => what,
        })
    }
}

fn find_jars() -> Result<(OsString, String), Absent> {
    if let Some(home) = env::var_os("ZOOKEEPER_HOME").filter(|home| !home.is_empty()) {
        return jars_of_home(Path::new(&home));
    }
    let jar = Path::new(DEBIAN_JARS).join("zookeeper.jar");
    if !jar.is_file() {
        let what = "no ZooKeeper here";
        return Err(Absent::Package { name: ZOOKEEPER_PACKAGE, what });
    }
    // The manifest of the jar lists the required jars, but no logging backend, without which a server that
    // fails to start prints no reason; and not all of Netty, which TLS needs.
    let mut class_path = jar.into_os_string();
    for name in UNLISTED_JARS {
        let jar = Path::new(DEBIAN_JARS).join(name);
        if jar.is_file() {
            class_path.push(":");
            class_path.push(jar);
        }
    }
    Ok((class_path, "Debian's ZooKeeper".to_owned()))
}

/// Jars that Debian's ZooKeeper needs, and its manifest leaves out.
const UNLISTED_JARS: [&str; 4] = [
    "slf4j-simple.jar",
    "netty-codec.jar",
    "netty-resolver.jar",
    "netty-transport-native-unix-common.jar",
];

fn jars_of_home(home: &Path) -> Result<(OsString, String), Absent> {
    let folder =
        [home.join("lib"), home.to_owned()].into_iter().find(|folder| holds_server(folder));
    let Some(folder) = folder else {
        return Err(Absent::Misconfigured(format!(
            "ZOOKEEPER_HOME is {} but neither it nor its folder lib holds a zookeeper-*.jar",
            home.display()
        )));
    };
    // The path is absolute, because every server runs in its own folder. Java itself expands the star.
    let folder = folder.canonicalize().unwrap_or(folder);
    let origin = format!("ZooKeeper in {}", folder.display());
    Ok((folder.join("*").into_os_string(), origin))
}

fn holds_server(folder: &Path) -> bool {
    fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| is_server_jar(&entry.file_name())))
}

/// Returns whether the name is `zookeeper.jar` or `zookeeper-3.9.3.jar`, but not `zookeeper-jute-3.9.3.jar`.
fn is_server_jar(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let Some(rest) = name.strip_prefix("zookeeper").and_then(|rest| rest.strip_suffix(".jar"))
    else {
        return false;
    };
    rest.is_empty()
        || rest
            .strip_prefix('-')
            .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

fn find_java() -> Result<PathBuf, Absent> {
    if let Some(home) = env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        let java = Path::new(&home).join("bin/java");
        return if java.is_file() {
            Ok(java)
        } else {
            let home = home.to_string_lossy();
            Err(Absent::Misconfigured(format!(
                "JAVA_HOME is {home} but there is no bin/java in it"
            )))
        };
    }
    let what = "no Java here";
    process::find_program("java").ok_or(Absent::Package { name: "default-jre-headless", what })
}

const ZOOKEEPER_PACKAGE: &str = "zookeeper";
const DEBIAN_JARS: &str = "/usr/share/java";
const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// A small heap and the quick compiler: three servers start in about two seconds on two cores.
const JVM_FLAGS: [&str; 9] = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    // Prevents a file that would stay in the folder for temporary files when the server is killed.
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dzookeeper.jmx.log4j.disable=true",
    // Test data need not survive a crash of the machine, and a sync takes longer than the rest of a write.
    "-Dzookeeper.forceSync=no",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_jar_is_distinguished_from_other_jars() {
        for name in ["zookeeper.jar", "zookeeper-3.9.3.jar"] {
            assert!(is_server_jar(OsStr::new(name)), "{name}");
        }
        for name in ["zookeeper-jute-3.9.3.jar", "zookeeper-3.9.3.txt", "slf4j-api.jar"] {
            assert!(!is_server_jar(OsStr::new(name)), "{name}");
        }
    }
}
