//! Random scripts. In each of them a few sessions perform every operation of the protocol, valid and
//! invalid, on few nodes. The file `scripts.grammar` has the rules.

use std::collections::HashMap;

use zk_testing::{Rng, Version};

use super::Outcome;
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
    let mut lines = lines(seed);
    // A server checks a quota before it has counted the requests in flight. The answers of a pipelined
    // script would depend on timing.
    // The same holds for an operation that the server does not know: it closes the connection at once.
    if version < Version::V3_8 || lines.iter().any(|line| line.contains("/zookeeper_limits")) {
        lines = lines.iter().map(|line| line.trim_end_matches(" ...").to_owned()).collect();
    }
    // 3.4 fails on a null password, and then processes the connect request again and again.
    if version == Version::V3_4 {
        lines = lines.iter().map(|line| line.replace(" password null", "")).collect();
    }
    lines.retain(|line| version == Version::V3_9 || !line[1..].starts_with(" check "));
    lines.iter().map(|line| Step::parse(line).unwrap_or_else(|| panic!("a step: {line}"))).collect()
}

fn lines(seed: u64) -> Vec<String> {
    let (grammar, mut random) = (Grammar::new(), Rng::new(seed));
    let clients = 2 + random.index(3);
    let len = 20 + random.index(41);
    let mut lines: Vec<String> =
        (0..clients).map(|client| format!("{} connects", client_name(client))).collect();
    for path in ["/r/a", "/r/b", "/r/a/b"] {
        if random.chance(0.7) {
            lines.push(format!("A create \"{path}\" \"x\" open 0 ..."));
        }
    }
    let mut client = client_name(0);
    while lines.len() < len {
        if random.chance(0.4) {
            client = client_name(random.index(clients));
        }
        for step in grammar.expand(&mut random, "<step>").split(" ; ") {
            let words: Vec<&str> = step.split_whitespace().collect();
            lines.push(format!("{client} {}", words.join(" ")).replace("ME", &client.to_string()));
        }
    }
    lines
}

/// Rules by their names. Each has alternatives with their weights.
struct Grammar(HashMap<&'static str, Vec<(u64, &'static str)>>);

impl Grammar {
    fn new() -> Self {
        let lines =
            include_str!("../scripts.grammar").lines().filter(|line| !line.starts_with('#'));
        let rules = lines.filter_map(|line| line.split_once(':')).map(|(name, alternatives)| {
            let weighted = |text: &'static str| match text.trim().split_once('*') {
                Some((weight, text)) => (weight.parse().expect("a weight"), text.trim()),
                None => (1, text.trim()),
            };
            (name, alternatives.split('|').map(weighted).collect())
        });
        Self(rules.collect())
    }

    /// Replaces the rules in a text, which stand in angle brackets.
    fn expand(&self, random: &mut Rng, text: &str) -> String {
        let Some((before, rest)) = text.split_once('<') else { return text.to_owned() };
        let (name, after) = rest.split_once('>').expect("the end of a name");
        let alternatives = &self.0[name];
        let mut left = random.below(alternatives.iter().map(|(weight, _)| weight).sum());
        let drawn = alternatives.iter().find(|(weight, _)| {
            let is_drawn = left < *weight;
            left = left.saturating_sub(*weight);
            is_drawn
        });
        let drawn = self.expand(random, drawn.expect("an alternative").1);
        format!("{before}{drawn}{}", self.expand(random, after))
    }
}
