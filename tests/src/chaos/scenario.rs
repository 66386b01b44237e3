//! Scenarios as data: the servers of the holder, the steps before the fault, and the fault.

/// A hand-over of a lock under a fault: the holder loses the lock, and a waiter acquires it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Session timeout in ticks, by default.
    pub timeout_ticks: u32,
    /// The servers of the holder's session.
    pub home: Home,
    /// Actions of the holder before the fault.
    pub before: Before,
    /// The fault of the servers.
    pub fault: Fault,
}

/// The servers of the holder's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Only the leader.
    Leader,
    /// Only a follower.
    Follower,
    /// All servers; the session begins at a follower.
    AllFromFollower,
}

/// Actions of the holder before the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// The holder holds the lock for about a timeout.
    Hold,
    /// The session of the holder is idle for a part of the timeout, in percent. Then the holder
    /// acquires the lock.
    Idle(u32),
    /// The process of the holder is stopped for a part of the timeout, in percent. Then the holder
    /// calls `check()`.
    Stop(u32),
}

/// A fault of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The holder's server is stopped.
    StopHome,
    /// The holder's server is killed.
    KillHome,
    /// The link between the holder's server and the leader is cut.
    CutHome(Cut),
    /// The leader is stopped.
    StopLeader,
    /// The leader is killed.
    KillLeader,
    /// The links between the leader and all other servers are cut.
    CutLeader(Cut),
}

/// The packets that a cut link drops, seen from the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All packets.
    BothWays,
    /// Packets to the leader.
    ToLeader,
    /// Packets from the leader.
    FromLeader,
}

impl Scenario {
    /// Finds a scenario by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// Returns whether the scenario cuts links.
    pub fn needs_namespaces(&self) -> bool {
        matches!(self.fault, Fault::CutHome(_) | Fault::CutLeader(_))
    }
}

impl Fault {
    /// Returns whether the leader is replaced.
    pub fn hits_leader(self) -> bool {
        matches!(self, Self::StopLeader | Self::KillLeader | Self::CutLeader(_))
    }
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 15] = [
    Scenario {
        name: "idle-acquire",
        about: "an idle session acquires through a follower that is stopped at once",
        timeout_ticks: 20,
        home: Home::Follower,
        before: Before::Idle(32),
        fault: Fault::StopHome,
    },
    Scenario {
        name: "stopped-holder",
        about: "a holder stopped for 0.6 T resumes, calls check() and loses its only server",
        timeout_ticks: 20,
        home: Home::Follower,
        before: Before::Stop(60),
        fault: Fault::StopHome,
    },
    Scenario {
        name: "stopped-holder-all",
        about: "the same, and the holder's session may move to the other servers",
        timeout_ticks: 20,
        home: Home::AllFromFollower,
        before: Before::Stop(60),
        fault: Fault::StopHome,
    },
    CUT,
    Scenario {
        name: "follower-cut-to-leader",
        about: "the leader hears nothing more from the holder's server",
        fault: Fault::CutHome(Cut::ToLeader),
        ..CUT
    },
    Scenario {
        name: "follower-cut-from-leader",
        about: "the holder's server hears nothing more from the leader",
        fault: Fault::CutHome(Cut::FromLeader),
        ..CUT
    },
    Scenario {
        name: "follower-cut-all",
        about: "the holder's server is cut from the leader, and the session may move",
        home: Home::AllFromFollower,
        ..CUT
    },
    Scenario {
        name: "follower-stop",
        about: "the holder's server is stopped",
        fault: Fault::StopHome,
        ..CUT
    },
    Scenario {
        name: "follower-kill",
        about: "the holder's server is killed",
        fault: Fault::KillHome,
        ..CUT
    },
    Scenario {
        name: "leader-stop",
        about: "the leader is the holder's only server, and is stopped",
        home: Home::Leader,
        fault: Fault::StopLeader,
        ..CUT
    },
    Scenario {
        name: "leader-kill",
        about: "the leader is killed, and the holder's session is at a follower",
        home: Home::AllFromFollower,
        fault: Fault::KillLeader,
        ..CUT
    },
    Scenario {
        name: "leader-cut",
        about: "the leader is the holder's only server, and is cut from all others",
        home: Home::Leader,
        fault: Fault::CutLeader(Cut::BothWays),
        ..CUT
    },
    Scenario {
        name: "leader-cut-to-leader",
        about: "the same, and only packets to the leader are lost",
        home: Home::Leader,
        fault: Fault::CutLeader(Cut::ToLeader),
        ..CUT
    },
    Scenario {
        name: "leader-cut-from-leader",
        about: "the same, and only packets from the leader are lost",
        home: Home::Leader,
        fault: Fault::CutLeader(Cut::FromLeader),
        ..CUT
    },
    Scenario {
        name: "leader-stop-all",
        about: "the leader is stopped, and the holder's session is at a follower",
        home: Home::AllFromFollower,
        fault: Fault::StopLeader,
        ..CUT
    },
];

const CUT: Scenario = Scenario {
    name: "follower-cut",
    about: "the holder's only server is cut from the leader",
    timeout_ticks: 4,
    home: Home::Follower,
    before: Before::Hold,
    fault: Fault::CutHome(Cut::BothWays),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_names_are_unique() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert!(SCENARIOS[..index].iter().all(|other| other.name != scenario.name));
            assert_eq!(
                Scenario::find(scenario.name).map(|found| found.about),
                Some(scenario.about)
            );
        }
    }
}
