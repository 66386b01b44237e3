//! Findings about all servers together.

use std::collections::BTreeMap;

use super::finding::{Finding, Level, time_text, whole_ms};
use crate::prelude::{Duration, Value, json};

/// Answers of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Examined {
    pub(super) server: String,
    /// Whether its members were compared with the connect string.
    pub(super) tells_members: bool,
    /// Whether it opened a session that can write. It needs a leader and a majority for that.
    pub(super) serves: bool,
    /// Whether it answers, and rejects this client. Other clients may be served.
    pub(super) rejects: bool,
    /// Its version, if it tells.
    pub(super) version: Option<String>,
    /// Its mode, if it tells.
    pub(super) mode: Option<String>,
    /// Its tick, if it tells.
    pub(super) tick: Option<Duration>,
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
    let values = json!({ "leaders": leaders, "standalone": alone });
    Some(Finding::new(Level::Error, "not_one_ensemble", text).with(values))
}

/// Returns a finding if the servers grant different session timeouts to this client. A session that moves
/// to another server then gets another timeout, and the leases of its locks another length.
pub(super) fn different_timeouts(servers: &[Examined]) -> Option<Finding> {
    let granted = || servers.iter().filter_map(|server| server.granted);
    let (least, most) = (granted().min()?, granted().max()?);
    let text = format!(
        "the servers grant session timeouts from {} to {}: set minSessionTimeout and maxSessionTimeout \
         alike on all of them",
        time_text(least),
        time_text(most)
    );
    let values = json!({
        "granted_min_ms": whole_ms(least),
        "granted_max_ms": whole_ms(most),
        "servers": each(servers, "granted_ms", |server| server.granted.map(whole_ms).into()),
    });
    let finding = Finding::new(Level::Warning, "session_timeouts_differ", text).with(values);
    (least != most).then_some(finding)
}

/// Returns findings if the servers of one ensemble have different ticks or versions.
pub(super) fn differences(servers: &[Examined]) -> Vec<Finding> {
    let tick = |server: &Examined| Some(format!("{} ms", whole_ms(server.tick?)));
    let ticks = alike(servers, tick).map(|ticks| {
        let advice = "set tickTime alike on all of them: it is the unit of their session timeouts, initLimit \
                      and syncLimit";
        let text = format!("the servers have different ticks ({ticks}): {advice}");
        let each = each(servers, "tick_ms", |server| server.tick.map(whole_ms).into());
        Finding::new(Level::Warning, "ticks_differ", text).with(json!({ "servers": each }))
    });
    let versions = alike(servers, |server| server.version.clone()).map(|versions| {
        let advice =
            "a rolling upgrade has to be completed, and until then some operations may be missing";
        let text = format!("the servers have different versions ({versions}): {advice}");
        let each = each(servers, "version", |server| server.version.clone().into());
        Finding::new(Level::Note, "versions_differ", text).with(json!({ "servers": each }))
    });
    ticks.into_iter().chain(versions).collect()
}

/// Returns the different values with the servers that have them, or `None` if all known values are alike.
fn alike(servers: &[Examined], value: impl Fn(&Examined) -> Option<String>) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for server in servers {
        if let Some(value) = value(server) {
            groups.entry(value).or_default().push(&server.server);
        }
    }
    let group =
        |(value, servers): (&String, &Vec<&str>)| format!("{value} on {}", servers.join(", "));
    (groups.len() > 1).then(|| groups.iter().map(group).collect::<Vec<_>>().join("; "))
}

/// Returns a JSON object for each server whose value is known.
fn each(servers: &[Examined], name: &str, value: impl Fn(&Examined) -> Value) -> Value {
    let known =
        servers.iter().map(|server| (server, value(server))).filter(|(_, value)| !value.is_null());
    known.map(|(server, value)| json!({ "server": server.server, name: value })).collect()
}

pub(super) fn majority(servers: &[Examined]) -> Finding {
    let count = |is: fn(&Examined) -> bool| servers.iter().filter(|server| is(server)).count();
    let (all, serving, rejecting) =
        (servers.len(), count(|server| server.serves), count(|server| server.rejects));
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
    let values =
        json!({ "majority": serves, "examined": all, "serving": serving, "rejecting": rejecting });
    Finding::new(level, "majority", text).with(values)
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
                granted: Some(Duration::from_secs(*seconds)).filter(|granted| !granted.is_zero()),
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
    fn different_ticks_and_versions_are_named_with_their_servers() {
        let server = |name: &str, tick: u64, version: &str| Examined {
            server: name.to_owned(),
            tick: Some(Duration::from_secs(tick)).filter(|tick| !tick.is_zero()),
            version: Some(version.to_owned()).filter(|version| !version.is_empty()),
            ..Examined::default()
        };
        let alike = [server("a", 2, "3.9.5"), server("b", 2, "3.9.5"), server("c", 0, "")];
        assert!(differences(&alike).is_empty());
        let mixed = [server("a", 2, "3.9.5"), server("b", 3, "3.8.0"), server("c", 2, "3.9.5")];
        let [ticks, versions] = &differences(&mixed)[..] else { panic!("not two findings") };
        assert_eq!((ticks.level, ticks.code), (Level::Warning, "ticks_differ"));
        assert!(ticks.text.contains("(2000 ms on a, c; 3000 ms on b)"), "{}", ticks.text);
        let of_b = json!({ "server": "b", "tick_ms": 3000 });
        assert_eq!(ticks.values["servers"][1], of_b);
        assert_eq!((versions.level, versions.code), (Level::Note, "versions_differ"));
        assert!(versions.text.contains("(3.8.0 on b; 3.9.5 on a, c)"), "{}", versions.text);
        let of_b = json!({ "server": "b", "version": "3.8.0" });
        assert_eq!(versions.values["servers"][1], of_b);
    }

    #[test]
    fn majority_is_proven_by_one_serving_server() {
        let server = |serves| Examined { serves, ..Examined::default() };
        let verdict = |serving: &[bool]| {
            let finding =
                majority(&serving.iter().map(|serves| server(*serves)).collect::<Vec<_>>());
            (finding.level, finding.values["majority"].as_bool(), finding.text)
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
        let finding = majority(&[rejecting, Examined::default()]);
        assert_eq!((finding.level, &finding.values["majority"]), (Level::Error, &Value::Null));
        assert!(finding.text.contains("(1 of 2 servers)"), "{}", finding.text);
        assert!(!finding.text.contains("majority"), "{}", finding.text);
    }
}
