//! A bill of materials of `zk`, and the notices that the licences of others ask for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{COMMAND, Failure, cargo, cargo_home, output_of, target_folder, workspace_root};

/// Writes `zk.cdx.json` (CycloneDX) and `zk-notices.txt` beside the packages.
pub(super) fn write() -> Result<(), Failure> {
    let components = components()?;
    let folder = target_folder().join("package");
    let failed = |error: std::io::Error| Failure::task(format!("{}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::write(folder.join("zk.cdx.json"), materials(&components)).map_err(failed)?;
    fs::write(folder.join("zk-notices.txt"), notices(&components)?).map_err(failed)?;
    println!("==> {} packages of others are in {}/zk.cdx.json", components.len(), folder.display());
    Ok(())
}

/// A package of others that is linked into the command.
#[derive(Debug, PartialEq, Eq)]
struct Component {
    name: String,
    version: String,
    licence: String,
    checksum: String,
}

fn components() -> Result<Vec<Component>, Failure> {
    let mut tree = cargo(&["tree", "--package", COMMAND, "--edges", "normal", "--prefix", "none"]);
    let tree = output_of(tree.args(["--no-dedupe", "--locked", "--format", "{p}\t{l}"]))?;
    let lock = workspace_root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock)
        .map_err(|error| Failure::task(format!("{}: {error}", lock.display())))?;
    Ok(of_tree(&tree, &checksums(&lock)))
}

/// Parses the tree. A package without a checksum is one of this workspace.
fn of_tree(tree: &str, checksums: &BTreeMap<(String, String), String>) -> Vec<Component> {
    let mut found = BTreeMap::new();
    for line in tree.lines() {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let key = (name.to_owned(), version.trim_start_matches('v').to_owned());
        if let Some(checksum) = checksums.get(&key) {
            let (name, version) = key.clone();
            let (licence, checksum) = (licence.to_owned(), checksum.clone());
            found.insert(key, Component { name, version, licence, checksum });
        }
    }
    found.into_values().collect()
}

/// Returns the checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let of = |entry: &str| {
        let value = |key: &str| {
            let line = entry.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

fn materials(components: &[Component]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "{{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{{\"component\":\
         {{\"type\":\"application\",\"name\":\"zk\",\"version\":\"{version}\"}}}},\"components\":["
    );
    for (at, Component { name, version, licence, checksum }) in components.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // No text of a package has a character that JSON escapes.
        let licence = format!("[{{\"expression\":\"{licence}\"}}]");
        let hash = format!("[{{\"alg\":\"SHA-256\",\"content\":\"{checksum}\"}}]");
        let _ = write!(
            text,
            "{comma}\n{{\"type\":\"library\",\"name\":\"{name}\",\"version\":\"{version}\",\
             \"licenses\":{licence},\"hashes\":{hash},\"purl\":\"pkg:cargo/{name}@{version}\"}}"
        );
    }
    text + "\n]}\n"
}

/// Returns the texts of all licences, each once, with the packages that have it.
fn notices(components: &[Component]) -> Result<String, Failure> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Component { name, version, licence, .. } in components {
        let package = format!("{name} {version} ({licence})");
        let found = licence_texts(&source(name, version)?);
        if found.is_empty() {
            let named = format!("The package has no text of its licence: {licence}\n");
            texts.entry(named).or_default().push(package.clone());
        }
        for text in found {
            texts.entry(text).or_default().push(package.clone());
        }
    }
    let mut notices =
        "The program zk contains these packages of others, under these licences.\n".to_owned();
    for (text, packages) in texts {
        let _ = write!(notices, "\n{}\n{}\n\n{text}", "-".repeat(72), packages.join("\n"));
    }
    Ok(notices)
}

/// Returns the folder into which cargo has unpacked a package.
fn source(name: &str, version: &str) -> Result<PathBuf, Failure> {
    let home = cargo_home();
    let registries = fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten();
    let mut folders = registries.map(|registry| registry.path().join(format!("{name}-{version}")));
    folders.find(|folder| folder.is_dir()).ok_or_else(|| {
        Failure::task(format!("{name} {version} is not unpacked below {}", home.display()))
    })
}

fn licence_texts(folder: &Path) -> Vec<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let is_licence = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    files.iter().filter(is_licence).filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"zk-proto\"\nversion = \"0.1.0\"\n\n\
                        [[package]]\nname = \"bytes\"\nversion = \"1.2.3\"\nchecksum = \"ab\"\n";

    #[test]
    fn bill_has_each_package_of_others_once() {
        let tree = "zk-proto v0.1.0 (/w)\tApache-2.0\nbytes v1.2.3\tMIT\nbytes v1.2.3\tMIT\n";
        let found = of_tree(tree, &checksums(LOCK));
        assert_eq!(found.len(), 1);
        let text = materials(&found);
        assert!(text.contains("\"purl\":\"pkg:cargo/bytes@1.2.3\""), "{text}");
        assert!(text.contains("\"content\":\"ab\"") && !text.contains("zk-proto"), "{text}");
    }
}
