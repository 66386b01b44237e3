//! Search for the jars of Java's Curator, for tests beside it.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Error;
use super::install::{self, Privilege};

/// Returns the jars of Curator for a Java class path: those of Debian's packages, which are installed if they
/// are missing, or all jars in the folder `CURATOR_HOME`.
///
/// # Errors
/// [`ErrorKind::Unsupported`](super::ErrorKind::Unsupported), with the reason, if there are none. A process
/// searches once, with the rights of its first call.
pub fn curator_jars(privilege: Privilege) -> Result<Vec<PathBuf>, Error> {
    static FOUND: OnceLock<Result<Vec<PathBuf>, Error>> = OnceLock::new();
    FOUND.get_or_init(|| find_or_install(privilege)).clone()
}

fn find_or_install(privilege: Privilege) -> Result<Vec<PathBuf>, Error> {
    if let Some(home) = env::var_os("CURATOR_HOME").map(PathBuf::from) {
        let missing = || Error::unsupported(format!("no CURATOR_HOME {}", home.display()));
        return if home.is_dir() { Ok(vec![home.join("*")]) } else { Err(missing()) };
    }
    let jars = JARS.map(|jar| Path::new(DEBIAN_JARS).join(jar));
    let missing = || jars.iter().find(|jar| !jar.is_file());
    let installed = match missing() {
        Some(_) => install::install(&PACKAGES, privilege),
        None => Ok(()),
    };
    match missing() {
        Some(jar) => {
            let why = installed.err().unwrap_or_default();
            Err(Error::unsupported(format!("no Curator here, {} is missing: {why}", jar.display())))
        }
        None => Ok(jars.to_vec()),
    }
}

const PACKAGES: [&str; 2] = ["libcurator-recipes-java", "libcurator-discovery-java"];

/// Folder in which Debian installs jars.
const DEBIAN_JARS: &str = "/usr/share/java";

const JARS: [&str; 8] = [
    "curator-recipes.jar",
    "curator-x-discovery.jar",
    "curator-framework.jar",
    "curator-client.jar",
    "guava.jar",
    "jackson-databind.jar",
    "jackson-core.jar",
    "jackson-annotations.jar",
];
