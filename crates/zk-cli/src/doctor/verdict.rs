//! Findings about all servers together.

use std::time::Duration;

use super::{Finding, Level};

/// Answers of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Examined {
    /// Whether it opened a session that can write. It needs a leader and a majority for that.
    pub(super) serves: bool,
    /// Whether it answers, and rejects this client. Other clients may be served.
    pub(super) rejects: bool,
    /// Its mode, if it tells.
    pub(super) mode: Option<String>,
    /// The session timeout that it granted.
    pub(super) granted: Option<Duration>,
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

/// Returns a finding if the servers grant different session timeouts to this client. A session that moves
/// to another server then gets another timeout, and the leases of its locks another length.
pub(super) fn different_timeouts(servers: &[Examined]) -> Option<Finding> {
    let granted = || servers.iter().filter_map(|server| server.granted);
    let (least, most) = (granted().min()?, granted().max()?);
    (least != most).then(|| Finding {
        level: Level::Warning,
        server: String::new(),
        text: format!(
            "the servers grant session timeouts from {} to {}: set minSessionTimeout and \
             maxSessionTimeout alike on all of them",
            super::ms(least),
            super::ms(most)
        ),
    })
}

/// Returns the finding whether the ensemble serves, and whether it does, if that is known.
pub(super) fn majority(servers: &[Examined]) -> (Finding, Option<bool>) {
    let count = |is: fn(&Examined) -> bool| servers.iter().filter(|it| is(it)).count();
    let (all, serving, rejecting) = (servers.len(), count(|it| it.serves), count(|it| it.rejects));
    let (level, serves, text) = match (serving, rejecting) {
        (0, 0) => {
            let text =
                format!("no majority, or none that this machine reaches (0 of {all} servers)");
            (Level::Error, Some(false), text)
        }
        (0, rejecting) => {
            let text = format!(
                "the ensemble was not examined: it and this client do not accept each other \
                 ({rejecting} of {all} servers)"
            );
            (Level::Error, None, text)
        }
        _ => (Level::Ok, Some(true), format!("a majority serves ({serving} of {all} servers)")),
    };
    (Finding { level, server: String::new(), text }, serves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_leaders_are_an_error() {
        let found = |modes: &[&str]| {
            let examined = |mode: &&str| {
                let mode = Some((*mode).to_owned());
                Examined { serves: true, mode, ..Examined::default() }
            };
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
    fn servers_that_grant_different_timeouts_are_a_warning() {
        let found = |granted: &[u64]| {
            let examined = |seconds: &u64| Examined {
                granted: Some(Duration::from_secs(*seconds)).filter(|it| !it.is_zero()),
                ..Examined::default()
            };
            different_timeouts(&granted.iter().map(examined).collect::<Vec<_>>())
        };
        assert!(found(&[]).is_none() && found(&[10, 10, 0]).is_none());
        let finding = found(&[10, 5, 0, 10]).unwrap();
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.text.contains("from 5.0 s to 10.0 s"), "{}", finding.text);
    }

    #[test]
    fn majority_is_proven_by_one_serving_server() {
        let server = |serves| Examined { serves, ..Examined::default() };
        let verdict = |serving: &[bool]| {
            let (finding, serves) =
                majority(&serving.iter().map(|it| server(*it)).collect::<Vec<_>>());
            (finding.level, serves, finding.text)
        };
        let (level, serves, text) = verdict(&[true, false, true]);
        assert_eq!(
            (level, serves, &*text),
            (Level::Ok, Some(true), "a majority serves (2 of 3 servers)")
        );
        let (level, serves, text) = verdict(&[false, false, false]);
        assert_eq!((level, serves), (Level::Error, Some(false)));
        assert!(text.starts_with("no majority"), "{text}");
    }

    #[test]
    fn rejection_of_this_client_proves_no_lost_majority() {
        let rejecting = Examined { rejects: true, ..Examined::default() };
        let (finding, serves) = majority(&[rejecting, Examined::default()]);
        assert_eq!((finding.level, serves), (Level::Error, None));
        assert!(finding.text.contains("(1 of 2 servers)"), "{}", finding.text);
        assert!(!finding.text.contains("majority"), "{}", finding.text);
    }
}
