//! Random scripts. In each of them a few sessions perform every operation of the protocol, valid and
//! invalid, on few nodes.

use zk_testing::{Rng, Version};

use super::Outcome;
use super::operations::Operations;
use super::play::Record;
use super::script::{Step, client_name};

/// Returns a digest of what is heard in the scripts of a line such as `seeds 1-20`.
pub(crate) fn digest(
    line: &str,
    version: Version,
    mut play: impl FnMut(Vec<Step>) -> Outcome<Record>,
) -> Outcome<String> {
    let seeds = line.strip_prefix("seeds ").and_then(|range| range.split_once('-'));
    let (first, last) = seeds.ok_or("a range of seeds")?;
    let mut digest = 0xcbf2_9ce4_8422_2325;
    for seed in first.parse()?..=last.parse()? {
        digest = play(script(seed, version))?.digest(digest);
    }
    Ok(format!("{digest:016x}"))
}

/// Generates the script of a seed.
pub(crate) fn script(seed: u64, version: Version) -> Vec<Step> {
    let mut lines = lines(seed, version);
    // A server checks a quota before it has counted the requests in flight. The answers of a pipelined
    // script would depend on timing.
    if lines.iter().any(|line| line.contains("/zookeeper_limits")) {
        lines = lines.iter().map(|line| line.trim_end_matches(" ...").to_owned()).collect();
    }
    lines.iter().map(|line| Step::parse(line).expect("a step")).collect()
}

fn lines(seed: u64, version: Version) -> Vec<String> {
    let mut random = Rng::new(seed);
    let clients = 2 + random.index(3);
    let len = 20 + random.index(41);
    let mut lines: Vec<String> =
        (0..clients).map(|client| format!("{} connects", client_name(client))).collect();
    // With a generator of their own, so that the outline does not depend on them.
    let mut operations = Operations::new(random.fork(), version);
    for message in operations.groundwork() {
        lines.push(format!("A {} ...", message.text()));
    }
    let mut client = client_name(0);
    while lines.len() < len {
        if random.chance(0.4) {
            client = client_name(random.index(clients));
        }
        match random.below(100) {
            0..=3 => {
                lines.push(format!("{client} connects{}", renewal(&mut random, client, clients)))
            }
            4 => lines.push(format!("{client} hangs up")),
            5 if random.chance(0.5) => {
                lines.push(format!("{client} sends \"{}\"", random.pick(&MALFORMED)));
            }
            _ => {
                for message in operations.next() {
                    let mut line = format!("{client} {}", message.text());
                    if random.chance(0.02) {
                        line.push_str(&format!(" @{}", random.pick(&XIDS)));
                    }
                    if random.chance(0.5) {
                        line.push_str(" ...");
                    }
                    lines.push(line);
                }
            }
        }
    }
    lines
}

fn renewal(random: &mut Rng, client: char, clients: usize) -> String {
    let mut text = match random.below(100) {
        0..=59 => format!(" of {client}"),
        60..=69 => format!(" of {}", client_name(random.index(clients))),
        70..=79 => format!(" wrongly-of {client}"),
        80..=83 => " unknown".to_owned(),
        _ => String::new(),
    };
    if random.chance(0.3) {
        let timeouts = [0, -5, 4_001, 12_345, 40_000, 99_999, i32::MAX];
        text.push_str(&format!(" timeout {}", random.pick(&timeouts)));
    }
    if random.chance(0.2) {
        let passwords = ["null", "\"\"", "\"seven\""];
        text.push_str(&format!(" password {}", random.pick(&passwords)));
    }
    if random.chance(0.2) {
        text.push_str(&format!(" read-only {}", random.pick(&["null", "1", "7"])));
    }
    match random.below(10) {
        0 => text.push_str(&format!(" zxid {}", random.below(80))),
        1 => text.push_str(" zxid max"),
        _ => {}
    }
    text
}

/// Invalid lengths, and requests with an incomplete header.
const MALFORMED: [&str; 5] = [
    r"\x00\x00\x00\x00",
    r"\xff\xff\xff\xfb",
    r"\x00\x10\x00\x00",
    r"\x00\x00\x00\x04\x00\x00\x00\x01",
    r"\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00",
];

/// Unusual xids. Servers return them unchanged, except for pings.
const XIDS: [i32; 6] = [0, -2, -4, -8, i32::MAX, i32::MIN];
