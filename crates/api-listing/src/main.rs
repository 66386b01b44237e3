//! Lists the public items of library crates in `crates/NAME/public-api.txt`, for `cargo xtask api`.
//!
//! `write NAME...` writes the lists. `check NAME...` compares them with the code, and fails if one differs.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use public_api::PublicApi;
use serde_json::Value;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((verb, names)) if verb == "write" => write(names),
        Some((verb, names)) if verb == "check" => check(names),
        _ => Err("use `cargo xtask api`".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("api-listing: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(names: &[String]) -> Result<(), Box<dyn Error>> {
    for (path, listing) in listings(names, "--cap-lints allow")? {
        fs::write(root().join(&path), &listing)?;
        println!("{path}: {} lines", listing.lines().count());
    }
    Ok(())
}

fn check(names: &[String]) -> Result<(), Box<dyn Error>> {
    let mut changes = String::new();
    for (path, listing) in listings(names, "-D warnings")? {
        let committed = fs::read_to_string(root().join(&path)).unwrap_or_default();
        if listing != committed {
            changes += &format!("{path}:\n{}", difference(&committed, &listing));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public API differs from its lists:\n{changes}If the change is intended, run \
         `cargo xtask api`, and commit the lists."
    )
    .into())
}

/// Returns the path, relative to the workspace, and the current text of each list. `lints` are flags of
/// rustdoc.
fn listings(names: &[String], lints: &str) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    // A crate with a lock file is a workspace of its own.
    let (separate, members): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| root().join(format!("crates/{name}/Cargo.lock")).exists());
    if !members.is_empty() {
        document("Cargo.toml", &members, lints)?;
    }
    for name in separate {
        document(&format!("crates/{name}/Cargo.toml"), &[name], lints)?;
    }
    let documented = target().join("doc");
    let listing = |name: &String| {
        let json = documented.join(format!("{}.json", name.replace('-', "_")));
        let index: Value = serde_json::from_slice(&fs::read(&json)?)?;
        let api = public_api::Builder::from_rustdoc_json(json)
            .omit_blanket_impls(true)
            .build()
            .map_err(|error| format!("{name}: {error}"))?;
        Ok((format!("crates/{name}/public-api.txt"), text(&api, &index["index"])))
    };
    names.iter().map(listing).collect()
}

/// Runs rustdoc with all features of the libraries.
///
/// The JSON output is unstable. The variable `RUSTC_BOOTSTRAP` permits it with a stable toolchain.
fn document(manifest: &str, names: &[&String], lints: &str) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["doc", "--quiet", "--locked", "--no-deps", "--lib", "--all-features"]);
    command.args(["--manifest-path", manifest]);
    command.args(names.iter().flat_map(|name| ["--package", name.as_str()]));
    command.current_dir(root()).env("CARGO_TARGET_DIR", target()).env("RUSTC_BOOTSTRAP", "1");
    command.env("RUSTDOCFLAGS", format!("-Z unstable-options --output-format json {lints}"));
    if !command.status()?.success() {
        return Err("cargo doc has failed".into());
    }
    Ok(())
}

/// Returns cargo's target folder.
fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target)
}

/// Returns one line for each item.
///
/// Methods of implemented traits are those of the trait, so only the implementation is listed. Nearly every
/// type implements the auto traits, so only the absence of `Send` and `Sync` is listed.
fn text(api: &PublicApi, index: &Value) -> String {
    let mut text = String::new();
    // Type of the preceding implementation of a trait.
    let mut implementor = None;
    for item in api.items() {
        let line = item.to_string();
        if line.starts_with("impl") {
            implementor = line.split_once(" for ").map(|(_, rest)| {
                format!("pub fn {}::", rest.split(" where ").next().unwrap_or_default())
            });
        }
        let is_trait_method = implementor.as_ref().is_some_and(|start| line.starts_with(start));
        let is_present =
            AUTO_TRAITS.iter().any(|name| line.contains(&format!(" core::{name} for ")));
        let is_absent =
            AUTO_TRAITS[2..].iter().any(|name| line.contains(&format!(" !core::{name} for ")));
        if !(is_trait_method || is_present || is_absent) {
            if is_must_use(&index[item.id().0.to_string()]) {
                text += "#[must_use] ";
            }
            text += &with_defaults(line, &index[item.id().0.to_string()]);
            text.push('\n');
        }
    }
    text
}

/// Returns true for an item whose value must be used. `public-api` omits this attribute.
fn is_must_use(item: &Value) -> bool {
    let attributes = item["attrs"].as_array();
    attributes.is_some_and(|all| all.iter().any(|attribute| attribute.get("must_use").is_some()))
}

/// Adds the defaults of the type parameters to the line of a struct, an enum or a trait. `public-api` omits
/// them.
fn with_defaults(line: String, item: &Value) -> String {
    let kinds = ["struct", "enum", "trait"];
    let parameters =
        kinds.iter().find_map(|kind| item["inner"][kind]["generics"]["params"].as_array());
    parameters.into_iter().flatten().fold(line, |line, parameter| {
        let default = &parameter["kind"]["type"]["default"];
        let path = default["resolved_path"]["path"].as_str();
        let path = path.or_else(|| default["primitive"].as_str());
        let Some((name, default)) = parameter["name"].as_str().zip(path) else { return line };
        let default = default.rsplit("::").next().unwrap_or(default);
        line.replacen(&format!("<{name}>"), &format!("<{name} = {default}>"), 1)
    })
}

/// Returns the lines that only one of two lists has.
fn difference(old: &str, new: &str) -> String {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (old.lines().collect(), new.lines().collect());
    let removed = before.difference(&after).map(|line| format!("- {line}\n"));
    removed.chain(after.difference(&before).map(|line| format!("+ {line}\n"))).collect()
}

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// `Send` and `Sync` stand first.
const AUTO_TRAITS: [&str; 7] = [
    "marker::Send",
    "marker::Sync",
    "marker::Freeze",
    "marker::Unpin",
    "marker::UnsafeUnpin",
    "panic::unwind_safe::RefUnwindSafe",
    "panic::unwind_safe::UnwindSafe",
];
