//! Files of a crate do not import each other in a circle.
//!
//! A module, and the modules above and below it, may import each other: they are parts of one module.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::{check, code_of};

/// Path of a module in its crate.
pub(super) type Module = Vec<String>;

#[test]
fn files_have_no_import_cycle() {
    let crates = RefCell::<BTreeMap<String, BTreeMap<Module, String>>>::default();
    check(|file, _| {
        if let Some((folder, path)) = split(&file.path) {
            let code = file.lines().map(|(_, line)| code_of(line));
            let code = code.take_while(|line| *line != "mod tests {").collect();
            crates.borrow_mut().entry(folder.to_owned()).or_default().insert(module(path), code);
        }
    });
    for (folder, files) in crates.into_inner() {
        let exports = exports_of_root(&files);
        let mut left: BTreeMap<&Module, BTreeSet<&Module>> = files
            .iter()
            .map(|(file, code)| (file, imports(file, code, &files, &exports)))
            .collect();
        // Files that import none of the others, or that none of them imports, are in no cycle.
        let mut before = usize::MAX;
        while left.len() < before {
            before = left.len();
            let used: BTreeSet<&Module> = left.values().flatten().copied().collect();
            left.retain(|file, _| used.contains(file));
            let names: BTreeSet<&Module> = left.keys().copied().collect();
            left.values_mut().for_each(|imports| imports.retain(|module| names.contains(module)));
            left.retain(|_, imports| !imports.is_empty());
        }
        assert!(left.is_empty(), "{folder}: move what these files share to a lower one: {left:#?}");
    }
}

/// Splits a path into the folder of a crate and the path in it. Each program and example is a crate.
fn split(path: &str) -> Option<(&str, &str)> {
    let programs =
        ["/src/bin/", "/examples/"].into_iter().find_map(|folder| path.split_once(folder));
    match programs {
        Some((_, rest)) => {
            let (_, path_in_it) = rest.split_once('/')?;
            Some((path.strip_suffix(path_in_it)?, path_in_it))
        }
        None => path.split_once("/src/"),
    }
}

/// Returns the module of a file in a crate.
pub(super) fn module(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    parts.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    parts
}

/// Returns the module or the item that a path in a file names.
pub(super) fn target(file: &Module, path: &str) -> Module {
    let mut target = file.clone();
    for name in path.split("::") {
        match name {
            "crate" => target.clear(),
            "super" => drop(target.pop()),
            name => target.push(name.to_owned()),
        }
    }
    target
}

/// Returns the modules that a file imports from its crate, without those above and below it.
fn imports<'a>(
    file: &Module,
    code: &str,
    files: &'a BTreeMap<Module, String>,
    exports: &BTreeMap<String, Module>,
) -> BTreeSet<&'a Module> {
    let modules = used_paths(code).filter_map(|path| {
        let mut target = target(file, &path);
        if let [name] = &target[..] {
            target = exports.get(name).cloned().unwrap_or(target);
        }
        (0..=target.len()).rev().find_map(|len| files.get_key_value(&target[..len]))
    });
    let modules = modules.map(|(module, _)| module);
    modules.filter(|module| !module.starts_with(file) && !file.starts_with(module)).collect()
}

/// Returns the items that the root of a crate re-exports with `pub use`, each with its module.
pub(super) fn exports_of_root(files: &BTreeMap<Module, String>) -> BTreeMap<String, Module> {
    let root = files.get(&Module::new()).map_or("", String::as_str);
    let exports = used_paths(root).filter_map(|path| {
        let (module, name) = path.trim_start_matches("self::").rsplit_once("::")?;
        Some((name.to_owned(), module.split("::").map(str::to_owned).collect()))
    });
    exports.collect()
}

/// Returns the paths of all `use` declarations in a file's code.
pub(super) fn used_paths(code: &str) -> impl Iterator<Item = String> {
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    uses.flat_map(|tree| paths(&tree.split_whitespace().collect::<String>()))
}

/// Splits `a::{b, c::{d, e}}` into `a::b`, `a::c::d` and `a::c::e`.
fn paths(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let mut depth = 0;
    let items = rest.trim_end_matches('}').split(|char| {
        depth += i32::from(char == '{') - i32::from(char == '}');
        char == ',' && depth == 0
    });
    items.flat_map(paths).map(|path| format!("{prefix}{path}")).collect()
}
