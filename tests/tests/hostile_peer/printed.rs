//! Commands print nothing that drives a terminal, whatever text a server sends.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_tests::{Ended, Running, Zk, poll};

use crate::SESSION_TIMEOUT;
use crate::liar::{self, Lie};

/// Text that clears a screen, begins a new line, and changes the direction of the text.
const EVIL: &str = "a\u{1b}[2J\nroot:x:0\r\u{9b}2J\u{7f}\u{202e}b\tc";

/// Text that begins a new field.
const FORGED: &str = "a\tforged";

/// Each command, with arguments that make it print what the server says.
const COMMANDS: [(&str, &[&str]); 38] = [
    ("lock", &["/a", "--timeout", "1", "--", "true"]),
    ("elect", &["/a", "--", "true"]),
    ("semaphore", &["/a", "--permits", "2", "--timeout", "1", "--", "true"]),
    ("multilock", &["/a", "/b", "--timeout", "1", "--", "true"]),
    ("register", &["/a", "--", "true"]),
    ("discover", &["a"]),
    ("revoke", &["/a/x-lock-0000000001"]),
    ("participants", &["/a"]),
    ("create", &["/a"]),
    ("get", &["/a"]),
    ("set", &["/a", "x"]),
    ("delete", &["/a", "--recursive"]),
    ("txn", &["create /a x"]),
    ("exists", &["/a"]),
    ("ls", &["/a"]),
    ("tree", &["/a"]),
    ("find", &["/a"]),
    ("ephemerals", &["/a"]),
    ("count", &["/a"]),
    ("counter", &["/a"]),
    ("barrier", &["/a", "--timeout", "1"]),
    ("export", &["/a"]),
    ("import", &["/a"]),
    ("sync", &["/a"]),
    ("config", &[]),
    ("reconfig", &["--remove", "1"]),
    ("stat", &["/a"]),
    ("getacl", &["/a"]),
    ("setacl", &["/a", "world:anyone:r"]),
    ("whoami", &[]),
    ("watch", &["/a", "--recursive", "--data"]),
    ("top", &["/a", "--count", "1"]),
    ("digest", &["alice:sesame"]),
    ("doctor", &[]),
    ("bench", &["--seconds", "1"]),
    ("man", &[]),
    ("completions", &["bash"]),
    ("server", &["--help"]),
];

const WAITS_FOR_EVENTS: [&str; 1] = ["watch"];

#[test]
fn no_command_prints_control_characters_of_a_server() {
    expect_all_commands();
    let texts = [EVIL, FORGED];
    let lies = texts.map(|text| [Lie::everywhere(text), Lie::of_contenders(text)]).concat();
    for address in lies.into_iter().map(liar::start) {
        for json in [false, true] {
            let zk = Zk::new(address.to_string()).session_timeout(SESSION_TIMEOUT * 4);
            let zk = if json { zk.flag("--json") } else { zk };
            for commands in COMMANDS.chunks(AT_ONCE) {
                let started = commands.iter().map(|(command, arguments)| {
                    let mut running = zk.start(&[&[*command][..], arguments].concat());
                    running.end_input();
                    (*command, running)
                });
                for (command, ended) in ended(started.collect()) {
                    expect_printable(command, json, &ended);
                }
            }
        }
    }
}

/// Waits for the end of commands. Those that wait for events are interrupted after the first one.
fn ended(running: Vec<(&str, Running)>) -> Vec<(&str, Ended)> {
    let ended = running.into_iter().map(|(command, mut it)| {
        if WAITS_FOR_EVENTS.contains(&command) {
            let is_done = poll(LIMIT, || (it.has_ended() || !it.stdout().is_empty()).then_some(()));
            assert!(is_done.is_some(), "{command} printed no event");
            if !it.has_ended() {
                it.signal("TERM");
            }
        }
        (command, it.wait(LIMIT))
    });
    ended.collect()
}

fn expect_printable(command: &str, json: bool, ended: &Ended) {
    // The bytes of a node are printed as they are, for a pipe.
    if command != "get" || json {
        expect_lines(&ended.stdout, command, ended);
    }
    expect_lines(&ended.stderr, command, ended);
    let has_direction = |text: &str| text.contains('\u{202e}');
    assert!(!has_direction(&ended.stderr), "{command}: {ended:?}");
    assert!(!json || !has_direction(&ended.stdout), "{command}: {ended:?}");
}

fn expect_lines(printed: &str, command: &str, ended: &Ended) {
    let is_wrong = |it: &char| it.is_control() && !matches!(it, '\n' | '\t');
    assert_eq!(printed.chars().find(is_wrong), None, "{command}: {ended:?}");
    let is_invented = printed.lines().any(|line| line.starts_with("root:x:0"));
    let is_invented = is_invented || printed.contains("\tforged");
    assert!(!is_invented, "{command}: {ended:?}");
}

/// A new command is tested too.
fn expect_all_commands() {
    let help = Zk::unconnected().ok(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed: BTreeSet<&str> = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert_eq!(COMMANDS.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), listed);
}

/// Commands that run at once.
const AT_ONCE: usize = 8;
const LIMIT: Duration = Duration::from_secs(20);
