//! Findings about all servers together.

use super::{Finding, Level};

/// What one server told about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Examined {
    /// Whether it opened a session that can write. It needs a leader and a majority for that.
    pub(super) serves: bool,
    /// Its mode, if it tells.
    pub(super) mode: Option<String>,
}

/// Returns a finding if the servers do not belong together.
pub(super) fn disunity(servers: &[Examined]) -> Option<Finding> {
    let modes = || servers.iter().filter_map(|server| server.mode.as_deref());
    let count = |wanted: &str| modes().filter(|mode| *mode == wanted).count();
    let (leaders, alone) = (count("leader"), count("standalone"));
    let others = modes().count() - alone;
    let text = match (alone, others, leaders) {
        (2.., 0, _) => "the servers are not one ensemble: each is standalone",
        (1.., 1.., _) => "the servers are not one ensemble: some are standalone, others are not",
        (_, _, 2..) => "more than one server leads: they may be of several ensembles",
        _ => return None,
    };
    Some(Finding { level: Level::Error, server: String::new(), text: text.to_owned() })
}

/// Returns the finding whether the ensemble serves, and whether it does.
pub(super) fn majority(servers: &[Examined]) -> (Finding, bool) {
    let (all, serving) = (servers.len(), servers.iter().filter(|it| it.serves).count());
    let (level, text) = match serving {
        0 => {
            let text =
                format!("no majority, or none that this machine reaches (0 of {all} servers)");
            (Level::Error, text)
        }
        serving => (Level::Ok, format!("a majority serves ({serving} of {all} servers)")),
    };
    (Finding { level, server: String::new(), text }, serving > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_leaders_are_an_error() {
        let found = |modes: &[&str]| {
            let examined = |mode: &&str| Examined { serves: true, mode: Some((*mode).to_owned()) };
            let servers: Vec<_> = modes.iter().map(examined).collect();
            disunity(&servers).map(|finding| finding.level)
        };
        assert_eq!(found(&["leader", "follower", "follower"]), None);
        assert_eq!(found(&["follower", "follower"]), None, "the leader may not be in the list");
        assert_eq!(found(&["standalone"]), None);
        for wrong in [
            &["leader", "leader"][..],
            &["standalone"; 2],
            &["leader", "standalone"],
            &["follower", "standalone", "follower"],
        ] {
            assert_eq!(found(wrong), Some(Level::Error), "{wrong:?}");
        }
    }

    #[test]
    fn majority_is_proven_by_one_serving_server() {
        let server = |serves| Examined { serves, mode: None };
        let verdict = |serving: &[bool]| {
            let (finding, serves) =
                majority(&serving.iter().map(|it| server(*it)).collect::<Vec<_>>());
            (finding.level, serves, finding.text)
        };
        let (level, serves, text) = verdict(&[true, false, true]);
        assert_eq!(
            (level, serves, &*text),
            (Level::Ok, true, "a majority serves (2 of 3 servers)")
        );
        let (level, serves, text) = verdict(&[false, false, false]);
        assert!(level == Level::Error && !serves && text.starts_with("no majority"), "{text}");
    }
}
