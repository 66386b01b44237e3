//! A module of zk-recipes uses modules of lower layers only.
//!
//! A comment in `crates/zk-recipes/src/lib.rs` lists the layers, one a line. Modules of one layer do not
//! use each other.
//!
//! ```text
//! // Layers, from the bottom; a module may use those above it in this list.
//! //   error limits
//! //   queue
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::import_cycles::{Module, exports_of_root, module, target, used_paths};
use super::{check, code_of};

#[test]
fn recipes_use_modules_of_lower_layers() {
    let files = RefCell::new(BTreeMap::new());
    check(|file, _| {
        if let Some(path) = file.path.strip_prefix("crates/zk-recipes/src/") {
            files.borrow_mut().insert(path.to_owned(), file.text.clone());
        }
    });
    let files = files.into_inner();
    assert!(files.contains_key("lib.rs"));
    let layers = layers(&files["lib.rs"]).expect("lib.rs names the layers");
    let violations = violations(&files, &layers);
    assert!(violations.is_empty(), "in crates/zk-recipes/src:\n{}", violations.join("\n"));
}

/// Returns the number of each module's layer.
fn layers(root: &str) -> Option<BTreeMap<String, usize>> {
    let (_, list) = root.split_once("// Layers, from the bottom")?;
    let lines = list.lines().skip(1).map_while(|line| line.strip_prefix("//   "));
    let names = |(layer, line): (usize, &str)| -> Vec<(String, usize)> {
        line.split_whitespace().map(|name| (name.to_owned(), layer)).collect()
    };
    Some(lines.enumerate().flat_map(names).collect())
}

/// Checks the files of a crate, by their paths below `src`.
fn violations(files: &BTreeMap<String, String>, layers: &BTreeMap<String, usize>) -> Vec<String> {
    let code: BTreeMap<Module, Code> =
        files.iter().map(|(path, text)| (module(path), Code::of(text))).collect();
    let texts = code.iter().map(|(module, code)| (module.clone(), code.text.clone())).collect();
    let exports = exports_of_root(&texts);
    let declared = &code[&Module::new()].modules;
    let mut violations = Vec::new();
    for name in layers.keys().filter(|name| !declared.contains(name)) {
        violations.push(format!("lib.rs: there is no module `{name}`: take it from the layers"));
    }
    for name in declared.iter().filter(|name| !layers.contains_key(*name)) {
        violations.push(format!("lib.rs: add `{name}` to the layers"));
    }
    for (path, text) in files {
        let file = module(path);
        let is_test = |depth: usize| {
            code.get(&file[..depth]).is_some_and(|code| code.test_modules.contains(&file[depth]))
        };
        if file.is_empty() || (0..file.len()).any(is_test) {
            continue;
        }
        let mut used: Vec<String> = Code::of(text)
            .paths()
            .iter()
            .filter_map(|path| top_module(&file, path, declared, &exports))
            .filter(|used| *used != file[0])
            .collect();
        used.sort();
        used.dedup();
        let layer = |name: &String| layers.get(name);
        for used in used.iter().filter(|used| layer(used) >= layer(&file[0])) {
            violations.push(format!(
                "{path}: move what it needs of `{used}` to a layer below `{}`",
                file[0]
            ));
        }
    }
    violations
}

/// Returns the top-level module that a path in a file leads to.
fn top_module(
    file: &Module,
    path: &str,
    declared: &[String],
    exports: &BTreeMap<String, Module>,
) -> Option<String> {
    let target = target(file, path);
    let name = target.first()?;
    let module = exports.get(name).and_then(|module| module.first()).unwrap_or(name);
    declared.contains(module).then(|| module.clone())
}

/// The code of a file, without its comments and its tests.
struct Code {
    text: String,
    modules: Vec<String>,
    test_modules: Vec<String>,
}

impl Code {
    fn of(text: &str) -> Self {
        let mut code = Self { text: String::new(), modules: Vec::new(), test_modules: Vec::new() };
        let mut lines = text.lines().map(code_of);
        while let Some(line) = lines.next() {
            if line.trim() != "#[cfg(test)]" {
                code.modules.extend(declared_module(line));
                code.text += line;
                code.text.push('\n');
                continue;
            }
            // The item that follows ends with a semicolon, or with a brace below its first line.
            let Some(item) = lines.find(|line| !line.trim_start().starts_with("#[")) else { break };
            code.test_modules.extend(declared_module(item));
            if !item.ends_with([';', '}']) {
                let indentation = &item[..item.len() - item.trim_start().len()];
                let ends = |line: &str| {
                    line.strip_prefix(indentation).is_some_and(|rest| rest.starts_with('}'))
                };
                lines.find(|line| ends(line));
            }
        }
        code
    }

    /// Returns the paths of the `use` declarations, and the other paths that begin with `crate` or `super`.
    fn paths(&self) -> Vec<String> {
        let is_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
        let words = self.text.split(|char| !is_path(char));
        let is_start = |path: &&str| path.starts_with("crate::") || path.starts_with("super::");
        let paths = words.filter(is_start).map(|path| path.trim_end_matches("::").to_owned());
        let uses = used_paths(&self.text).filter(|path| is_start(&path.as_str()));
        paths.chain(uses).collect()
    }
}

/// Returns the name of the module that the line declares.
fn declared_module(line: &str) -> Option<String> {
    let (visibility, rest) = line.trim().split_once("mod ")?;
    let is_declaration = visibility.is_empty() || visibility.starts_with("pub");
    let name = rest.strip_suffix(';').or_else(|| rest.strip_suffix(" {"))?;
    is_declaration.then(|| name.to_owned())
}

const LIB: &str = "mod error;\nmod lock;\npub mod queue;\nmod sealed {\n}\n\
                   pub use lock::Mutex;\npub use zk_session as session;\n\
                   // Layers, from the bottom; a module may use those above it in this list.\n\
                   //   error sealed\n//   queue\n//   lock\n\n//   not a layer\n";

/// Checks the files of a small crate.
fn violations_of(files: &[(&str, &str)]) -> Vec<String> {
    let mut crate_files = BTreeMap::from([("lib.rs".to_owned(), LIB.to_owned())]);
    for (path, text) in files {
        *crate_files.entry((*path).to_owned()).or_default() += text;
    }
    violations(&crate_files, &layers(LIB).unwrap())
}

#[test]
fn lower_layers_and_own_modules_may_be_used() {
    let files = [
        ("error.rs", "// crate::lock::Mutex\n#[cfg(test)]\nuse crate::lock::Mutex;\n"),
        ("error.rs", "#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::lock;\n}\n"),
        ("lock.rs", "use crate::{error::Error, queue::{self, step::Step}};\nuse crate::session;\n"),
        ("queue/mod.rs", "mod step;\n#[cfg(test)]\nmod orders;\nuse crate::sealed::Sealed;\n"),
        ("queue/step.rs", "use super::Queue;\nuse super::super::error::Error;\n"),
        ("queue/orders/client.rs", "use crate::lock::Mutex;\n"),
    ];
    assert_eq!(violations_of(&files), [""; 0]);
}

#[test]
fn upward_and_sideward_paths_are_reported() {
    for (path, code, (used, user)) in [
        ("error.rs", "use crate::{sealed::Sealed};", ("sealed", "error")),
        ("queue/mod.rs", "use crate::Mutex;", ("lock", "queue")),
        ("queue/step.rs", "fn f() -> crate::lock::Mutex {", ("lock", "queue")),
        ("queue.rs", "use super::{error, lock::Mutex};", ("lock", "queue")),
        ("queue.rs", "#[cfg(test)]\nfn f() {\n}\nuse super::lock;", ("lock", "queue")),
    ] {
        let violation = format!("{path}: move what it needs of `{used}` to a layer below `{user}`");
        assert_eq!(violations_of(&[(path, code)]), [violation], "{code}");
    }
}

#[test]
fn layers_name_the_modules_of_the_crate() {
    let lib = LIB.replace("mod error;", "mod errors;");
    let files = BTreeMap::from([("lib.rs".to_owned(), lib.clone())]);
    let [first, second] = &violations(&files, &layers(&lib).unwrap())[..] else { panic!() };
    assert!(first.contains("no module `error`") && second.contains("add `errors`"));
    assert_eq!(layers("mod error;"), None);
}
