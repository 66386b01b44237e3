//! Each command's help has examples, which run as they are printed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use zk_tests::{HOLD, Journal, Scratch, WHO_AM_I, Zk, poll, release, shared_zookeeper, signal};

use crate::LIMIT;

#[test]
fn examples_of_each_command_run() {
    let Some(server) = shared_zookeeper() else { return };
    let zk = Zk::new(server.connect_string());
    let commands = commands(&zk);
    let mut number = 0;
    assert!(commands.len() > 30, "{commands:?}");
    for command in commands {
        let help = zk.ok(&[&command, "--help"]);
        let examples: Vec<&str> = help
            .lines()
            .skip_while(|line| !["Example:", "Examples:"].contains(line))
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| line.contains("zk "))
            .collect();
        assert!(!examples.is_empty(), "zk {command} --help has no example");
        if command == "reconfig" {
            continue; // `ensemble.rs` runs the example on an ensemble
        }
        if command == "whoami" && release(server) < WHO_AM_I {
            continue;
        }
        for example in examples {
            number += 1;
            run(&zk, &format!("/examples-{number}"), &command, example);
        }
    }
}

/// Returns the names of all commands, as `zk --help` lists them.
fn commands(zk: &Zk) -> Vec<String> {
    let help = zk.ok("--help");
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A long description goes on in another line.
    let listed = listed.filter(|line| !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The nodes that examples find.
const NODES: &str = r#"{"path":"/","data":null,"acl":["world:anyone:cdrwa"]}
{"path":"/app","data":null,"acl":["world:anyone:cdrwa"]}
{"path":"/app/config","data":"{\"a\":1}","acl":["world:anyone:cdrwa"]}
{"path":"/app/logo","data":{"hex":"009f9296"},"acl":["world:anyone:cdrwa"]}
{"path":"/locks","data":null,"acl":["world:anyone:cdrwa"]}
{"path":"/services","data":null,"acl":["world:anyone:cdrwa"]}
{"path":"/services/web","data":null,"acl":["world:anyone:cdrwa"]}
{"path":"/services/web/b","data":"{\"name\":\"web\",\"id\":\"b\"}","acl":["world:anyone:cdrwa"]}
"#;

/// Runs an example in a folder of its own, below a chroot of its own.
fn run(server: &Zk, chroot: &str, command: &str, example: &str) {
    let mut import = server.start(&["import", chroot]);
    import.give(NODES.as_bytes());
    import.finish();
    let zk = &server.chroot(chroot);
    let journal = Journal::new();
    let _holder = (command == "revoke").then(|| {
        let holder = zk.clone().journal(&journal).lock("/locks/report", HOLD);
        poll(LIMIT, || journal.entered().pop()).expect("nobody holds the lock");
        holder
    });
    let folder = Scratch::new();
    for name in ["backup.sh", "report.sh", "solve.sh", "transfer.sh", "scheduler", "serve.sh"] {
        fs::write(folder.path(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(folder.path("logo.png"), [0, 159, 146, 150]).unwrap();
    fs::write(folder.path("app.jsonl"), NODES.lines().next().unwrap()).unwrap();

    let is_endless = ["watch", "server"].contains(&command) || example.contains("--watch");
    let script = if is_endless { format!("exec {example}") } else { example.to_owned() };
    let [out, error] = ["out", "error"].map(|name| fs::File::create(folder.path(name)).unwrap());
    let mut shell = zk.shell(&script);
    shell.current_dir(folder.path(".")).stdin(Stdio::null()).stdout(out).stderr(error);
    let mut shell = shell.spawn().unwrap();
    let said = || folder.read("out") + &folder.read("error");
    if is_endless {
        let begins = poll(LIMIT, || {
            let said = said();
            (said.contains("watching") || said.contains("127.0.0.1:")).then_some(())
        });
        begins.unwrap_or_else(|| panic!("{example}: {}", said()));
        signal(shell.id(), "INT");
    }
    let status = ended(&mut shell).unwrap_or_else(|| panic!("{example} does not end: {}", said()));
    // Findings of zk doctor are about the server.
    let is_fine = status == 0 || (command == "doctor" && status == 1);
    assert!(is_fine, "{example}: {status}: {}", said());
    if example.ends_with("import /copy") {
        zk.prints("ls /copy", "config\nlogo\n");
    }
}

fn ended(shell: &mut Child) -> Option<i32> {
    poll(LIMIT, || shell.try_wait().unwrap()).map(|status| status.code().unwrap_or(-1))
}
